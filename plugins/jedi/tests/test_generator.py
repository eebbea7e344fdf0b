"""JEDI's real generator, from waiting tasks to stored jobs, with PanDA's brokers and with ours: the same rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC
from typing import Any

import plugged
import pytest
from gridbroker_jedi import service as services
from gridbroker_jedi.settings import PluginSettings
from grids.generator import scenario
from panda import generator
from panda.installation import CLOCK

PANDA = (
    "pandajedi.jedibrokerage.AtlasProdJobBroker:AtlasProdJobBroker",
    "pandajedi.jedibrokerage.AtlasAnalJobBroker:AtlasAnalJobBroker",
)
FIRST_TASK = 40_000_000
LABELS = {"production_job": "managed|test", "analysis_job": "user"}
#: What the generator writes, with the order of its rows; only those of the tasks that it was given.
TABLES = {
    "doma_panda.jobsdefined4": "pandaid",
    "doma_panda.filestable4": "row_id",
    "doma_panda.jedi_dataset_contents": "jeditaskid, datasetid, fileid",
    "doma_panda.jedi_datasets": "jeditaskid, datasetid",
    "doma_panda.jedi_tasks": "jeditaskid",
    "doma_panda.jedi_output_template": "jeditaskid, datasetid, outtempid",
    "doma_panda.jedi_job_retry_history": "jeditaskid, newpandaid, oldpandaid",
    "doma_panda.tasks_statuslog": "jeditaskid, modificationtime, status",
}
#: And those that name jobs only.
OF_JOBS = {"doma_panda.jobparamstable": "pandaid", "doma_panda.jobs_statuslog": "pandaid, jobstatus"}
#: Columns that say who wrote a row, and of a task that waits the text why.
APART = {"realmodificationtime", "errordialog", "reason"}
#: In the log of jobs PanDA writes the time of the host.
TIMES_OF_LOG = {"modificationtime", "modiftime_extended"}
Rows = dict[str, list[dict[str, Any]]]


def _rows(site: Any) -> Rows:
    ours = "SELECT pandaid FROM doma_panda.jobsdefined4 WHERE jeditaskid > 40000000"
    asked = {table: f"jeditaskid > {FIRST_TASK} ORDER BY {order}" for table, order in TABLES.items()}
    asked |= {table: f"pandaid IN ({ours}) ORDER BY {order}" for table, order in OF_JOBS.items()}
    rows_by_table: Rows = {}
    for table, which in asked.items():
        with site.connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {table} WHERE {which}")
            names = [column.name for column in cursor.description]
            rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        site.connection.commit()
        apart = APART | (TIMES_OF_LOG if table == "doma_panda.jobs_statuslog" else set())
        rows_by_table[table] = [{name: value for name, value in row.items() if name not in apart} for row in rows]
    return rows_by_table


def _unlike(theirs: Rows, ours: Rows) -> Iterator[tuple[Any, ...]]:
    for table, rows in theirs.items():
        if len(rows) != len(ours[table]):
            yield table, "rows", len(rows), len(ours[table])
            continue
        for one, other in zip(rows, ours[table], strict=True):
            for name, value in one.items():
                if value != other[name]:
                    yield table, tuple(one.values())[:3], name, value, other[name]


def _generate(site: Any, kind: str, brokers: tuple[str, str], distributed: set[int], **settings: Any) -> Rows:
    generator.prepare(site)
    plugged.configure(*brokers)
    end = generator.fix_draws(kind, distributed)
    try:
        generator.run_cycle(site.buffer, site.ddm, LABELS[kind], **settings)
    finally:
        end()
    return _rows(site)


def _both(
    content: dict[str, Any], kind: str, make_site: Any, use_service: Any, **settings: Any
) -> tuple[Rows, Rows, set[int], set[int]]:
    """What both sides write, and the tasks of each whose input is distributed."""
    distributed: tuple[set[int], set[int]] = set(), set()
    theirs = _generate(make_site(content), kind, PANDA, distributed[0], **settings)
    site = make_site(content)
    service = use_service(site.url, profile="panda", fallback="wait")
    ours = _generate(site, kind, (plugged.PRODUCTION, plugged.ANALYSIS), distributed[1], **settings)
    service.close()
    assert {one for (one,) in site.rows("SELECT DISTINCT outcome FROM broker.plugin_calls")} == {"decided"}
    return theirs, ours, *distributed


@pytest.mark.parametrize("serialised", [False, True])
@pytest.mark.parametrize(("kind", "seed"), [("production_job", 0), ("production_job", 3), ("analysis_job", 0)])
def test_both_brokers_in_turn_leave_the_same_rows(
    kind: Any, seed: int, serialised: bool, make_site: Any, use_service: Any
) -> None:
    theirs, ours, *_ = _both(scenario(seed, kind), kind, make_site, use_service, serialised=serialised)
    assert list(_unlike(theirs, ours)) == []
    jobs = theirs["doma_panda.jobsdefined4"]
    assert len(jobs) >= 10 and {job["jobstatus"] for job in jobs} == {"pending"}
    assert {row["type"] for row in theirs["doma_panda.filestable4"]} == {"input", "output", "log"}
    assert len(theirs["doma_panda.jobparamstable"]) == len(theirs["doma_panda.jobs_statuslog"]) == len(jobs)


def _limited(content: dict[str, Any]) -> dict[int, set[str]]:
    """No rule keeps input together, every second is whole nowhere, and every second task has limited sites.

    Returns:
        the queues that are left to these tasks.
    """
    tables = content["tables"]
    for row in tables["dataset_metadata"]:
        row["rule_groupings"] = ["NONE"]
    for row in tables["dataset_replicas"]:
        if int(row["name"].split(".")[1]) % 2:
            row["available_files"] = min(row["available_files"], row["total_files"] // 2)
    names = sorted(row["panda_queue"] for row in tables["schedconfig_json"])
    left = {}
    for number, task in enumerate(tables["jedi_tasks"]):
        if number % 2:
            included, excluded = names[number % 3 :: 2], names[:2]
            left[task["jeditaskid"]] = set(included) - set(excluded)
            task["splitrule"] += ",LS=3"
            for row in tables["jedi_taskparams"]:
                if row["jeditaskid"] == task["jeditaskid"]:
                    row["taskparams"] = json.dumps({"includedSite": included, "excludedSite": excluded})
    return left


def test_limited_sites_and_distributed_input(make_site: Any, use_service: Any) -> None:
    content = scenario(0, "analysis_job")
    left = _limited(content)
    theirs, ours, spread, own_spread = _both(content, "analysis_job", make_site, use_service)
    assert list(_unlike(theirs, ours)) == []
    jobs = ours["doma_panda.jobsdefined4"]
    limited = [job for job in jobs if job["jeditaskid"] in left]
    assert limited and all(job["computingsite"] in left[job["jeditaskid"]] for job in limited)
    assert spread == own_spread and spread & {job["jeditaskid"] for job in jobs}


def test_forked_processes_with_serialised_cycles(
    make_site: Any, use_service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each process has a service of its own, made after the fork, while that of its parent has open connections."""
    site = make_site(scenario(0, "production_job"))
    generator.prepare(site)
    plugged.configure()
    settings = PluginSettings(database_url=site.url, profile="panda", timeout_s=60, fallback="wait")
    made = services.BrokerService
    monkeypatch.setattr(services, "read_settings", lambda: settings)
    monkeypatch.setattr(services, "BrokerService", lambda own: made(own, lambda: CLOCK.now.replace(tzinfo=UTC)))
    parent = use_service(site.url, profile="panda", fallback="wait")
    task = site.rows("SELECT min(jeditaskid) FROM doma_panda.jedi_tasks WHERE jeditaskid > %s", FIRST_TASK)[0][0]
    spec, cloud, chunk = plugged.chunks(site, task)[0]
    plugged.broker_for(site, spec).doBrokerage(spec, cloud, chunk, None)

    def at_end() -> None:
        own = services.service()
        assert own is not parent
        own.close()

    statuses = generator.run_forked(site.url, "managed|test", at_end, 2, threads=5, serialised=True)
    assert statuses == [0, 0]
    parent.close()
    made_jobs = "SELECT pandaid FROM doma_panda.jobsdefined4 WHERE jeditaskid > 40000000"
    assert len(site.rows(made_jobs)) >= 10
    twice = f"SELECT fileid FROM doma_panda.filestable4 WHERE type = 'input' AND pandaid IN ({made_jobs}) "
    assert site.rows(f"{twice} GROUP BY fileid HAVING count(*) > 1") == []
    calls = site.rows("SELECT outcome, sum(calls)::int FROM broker.plugin_calls GROUP BY 1")
    chunks = site.rows("SELECT count(*) FROM doma_panda.jedi_tasks WHERE jeditaskid > %s", FIRST_TASK)[0][0]
    assert calls == [("decided", chunks + 1)]
    held = "SELECT count(*) FROM doma_panda.jedi_tasks WHERE jeditaskid > %s AND lockedby IS NOT NULL"
    assert site.rows(held, FIRST_TASK) == [(0,)]
