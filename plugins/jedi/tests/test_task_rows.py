"""A nucleus that our agent writes leaves the rows that PanDA's own function leaves."""

from __future__ import annotations

from datetime import UTC
from typing import Any

from grids.generator import scenario
from panda.installation import CLOCK

from broker.domain.placements import NucleusAssignment, OutputPlace, TaskPlacement
from broker.store.connection.database import Database
from broker.store.writes.task_rows import NucleusWriter

TASKS = """SELECT jeditaskid, nucleus, status, oldstatus, superstatus, statechangetime, modificationtime, queuedtime,
    activatedtime, errordialog, lockedby FROM doma_panda.jedi_tasks ORDER BY 1"""
OUTPUTS = "SELECT datasetid, storagetoken, destination, status FROM doma_panda.jedi_datasets ORDER BY 1"
DEFT = "SELECT taskid, status, timestamp FROM doma_deft.t_task ORDER BY 1"
LOG = "SELECT jeditaskid, status, attemptnr FROM doma_panda.tasks_statuslog ORDER BY 1"
PREPARE = (
    "UPDATE doma_panda.jedi_tasks SET queuedtime = '2026-08-01 07:00:00' WHERE mod(jeditaskid, 4) = 1",
    "UPDATE doma_panda.jedi_tasks SET activatedtime = '2026-08-01 07:00:00' WHERE mod(jeditaskid, 4) = 2",
    "UPDATE doma_panda.jedi_datasets SET nfilesused = nfilestobeused WHERE mod(jeditaskid, 4) = 3",
    "UPDATE doma_panda.jedi_tasks SET errordialog = NULL",
)


def _rows(site: Any) -> list[Any]:
    return [site.rows(query) for query in (TASKS, OUTPUTS, DEFT, LOG)]


def test_rows_are_equal(make_site: Any) -> None:
    from pandajedi.jedibrokerage import AtlasBrokerUtils

    content = scenario(2, "production_task")
    theirs, ours = make_site(content), make_site(content)
    for site in (theirs, ours):
        for statement in PREPARE:
            site.run(statement)
    before = _rows(theirs)
    assert before == _rows(ours)
    mapper = theirs.buffer.get_site_mapper()
    nucleus = min(mapper.nuclei)
    assigned = []
    for task, *_ in theirs.rows("SELECT jeditaskid FROM doma_panda.jedi_tasks WHERE status = 'assigning' ORDER BY 1"):
        _, outputs = theirs.buffer.getDatasetsWithJediTaskID_JEDI(task, ["output", "log"])
        wanted = AtlasBrokerUtils.getDictToSetNucleus(mapper.getNucleus(nucleus), outputs)
        assert theirs.buffer.setCloudToTasks_JEDI({task: wanted})
        seen = {spec.datasetID: spec.storageToken for spec in outputs}
        places = tuple(
            OutputPlace(one["datasetID"], seen[one["datasetID"]], one["token"]) for one in wanted["datasets"]
        )
        assigned.append(NucleusAssignment(task, None, nucleus, places))
    with Database(ours.url) as database, database.begin() as connection:
        writer = NucleusWriter(Database.raw(connection), database.names, CLOCK.now.replace(tzinfo=UTC))
        assert writer.write(TaskPlacement(tuple(assigned))).assigned == len(assigned) >= 10
    after = _rows(theirs)
    assert after != before
    assert _rows(ours) == after
