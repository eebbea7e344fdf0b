"""The task broker in JEDI's own hands, on generated grids."""

from __future__ import annotations

from typing import Any

from grids.generator import scenario
from panda.decisions import FixedDraw

CONFIG = "atlas:managed|test:gridbroker_jedi.task:GridTaskBroker"


def _broker(site: Any) -> Any:
    from pandajedi.jediconfig import jedi_config
    from pandajedi.jediorder.TaskBroker import TaskBroker

    jedi_config.taskbroker.modConfig = CONFIG
    factory = TaskBroker(None, site.buffer, site.ddm, "atlas", "managed")
    assert factory.initializeMods(site.buffer, site.ddm)
    return factory.getImpl("atlas", "managed")


def _broker_all(site: Any) -> Any:
    rows = site.rows("SELECT jeditaskid FROM doma_panda.jedi_tasks WHERE status = 'assigning' ORDER BY 1")
    tasks = [task for (task,) in rows]
    # JEDI's claim: what was modified just now has been tried just now, for whoever looks at the table
    site.run("UPDATE doma_panda.jedi_tasks SET modificationtime = CURRENT_TIMESTAMP WHERE status = 'assigning'")
    given = []
    for task in tasks:
        given += site.buffer.getTasksToBeProcessed_JEDI(
            None, None, None, None, None, simTasks=[task], readMinFiles=True, fullSimulation=True
        )
    _, spec = site.buffer.getTaskWithID_JEDI(tasks[0], False)
    queue = site.buffer.getWorkQueueMap().getQueueWithIDGshare(spec.workQueue_ID, spec.gshare)
    broker = _broker(site)
    assert broker.doCheck([]) == (broker.SC_SUCCEEDED, {})
    status = broker.doBrokerage(given, "atlas", "managed", queue, spec.resource_type)
    assert status == broker.SC_SUCCEEDED
    return broker


def test_nuclei_and_destinations_are_written_by_pandas_own_function(make_site: Any, use_service: Any) -> None:
    site = make_site(scenario(2, "production_task"))
    service = use_service(site.url)
    broker = _broker_all(site)
    service.close()
    decided = site.rows(
        "SELECT d.jeditaskid, d.outcome, d.assigned, t.status, t.nucleus, t.errordialog FROM broker.decisions d "
        "JOIN doma_panda.jedi_tasks t USING (jeditaskid)"
    )
    assert len(decided) >= 10
    given = 0
    for task, outcome, assigned, status, nucleus, told in decided:
        if outcome != "brokered":
            assert status == "assigning" and nucleus is None and told.startswith("gridbroker: ")
            continue
        given += 1
        assert status == "ready" and nucleus in assigned and broker.siteMapper.getNucleus(nucleus) is not None
        outputs = site.rows(
            "SELECT destination, storagetoken FROM doma_panda.jedi_datasets WHERE jeditaskid = %s AND type = 'output'",
            task,
        )
        assert [destination for destination, _ in outputs] == [f"nucleus:{nucleus}"]
        assert outputs[0][1].startswith(f"dst:{nucleus}_")
    assert given >= 3
    counts = site.rows("SELECT outcome, sum(calls) FROM broker.plugin_calls GROUP BY 1")
    assert counts == [("decided", len(decided))]


def test_without_an_answer_pandas_own_task_broker_is_asked(make_site: Any, use_service: Any) -> None:
    from pandajedi.jedibrokerage import AtlasProdTaskBroker as module

    module.random = FixedDraw
    site = make_site(scenario(2, "production_task"))
    service = use_service(site.url, timeout_s=1e-9)
    broker = _broker_all(site)
    service.close()
    assert type(broker._panda).__name__ == "AtlasProdTaskBroker"
    assert site.rows("SELECT count(*) > 0 FROM doma_panda.jedi_tasks WHERE status = 'ready' AND nucleus IS NOT NULL")[
        0
    ][0]
    assert site.rows("SELECT outcome, reason FROM broker.plugin_calls") == [("fell_back", "starting")]
