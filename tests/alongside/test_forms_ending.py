"""Timeouts, rebrokerages and the ending of jobs on PanDA's tables as sites have them: as on our own, row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.store.scenarios.load_dump import load
from broker.store.scenarios.scenario_file import Scenario
from broker.store.schema import migrate, rights
from tests.agents import moving_jobs
from tests.agents.alongside.playing_panda import played_panda
from tests.alongside.conftest import READ, ROLE, least_role
from tests.alongside.panda_forms import FURTHER, fill_jobs, reshape
from tests.lifecycle.statements.test_scan import ACTIVE_CASES, DEFINED_CASES, as_rows
from tests.store import lifecycle_grid

pytestmark = pytest.mark.slow

AGENTS = ("fast_rebrokerage", "analysis_rebrokerage", "timeouts")
#: What ending may write, with what a row is known by.
WRITTEN = {
    "jobsdefined4": "pandaid",
    "jobsactive4": "pandaid",
    "jobsarchived4": "pandaid",
    "jobs_statuslog": "pandaid, jobstatus",
    "filestable4": "row_id",
    "metatable": "pandaid",
    "jedi_dataset_contents": "jeditaskid, datasetid, fileid",
    "jedi_datasets": "jeditaskid, datasetid",
    "jedi_tasks": "jeditaskid",
}
OLD = "2026-07-31T20:00:00"
Row = dict[str, Any]


def overloaded() -> list[Row]:
    """A share of which 30 jobs wait where one runs."""
    queued_again = {"specialhandling": "tq=1785571200"}
    waiting = [
        moving_jobs.job(number, ("activated", "starting")[number % 2], jeditaskid=number, **queued_again)
        for number in range(100_000, 100_030)
    ]
    return [*waiting, moving_jobs.job(100_100, "running", modificationtime="2026-08-01T11:59:00")]


def of_a_user() -> list[Row]:
    """A submission that waits at one queue without progress."""
    plain = {"prodsourcelabel": "user", "jobdefinitionid": 5, "jobsetid": 6, "produsername": "asta", "gshare": "UA"}
    times = {"statechangetime": OLD, "creationtime": OLD, "modificationtime": "2026-08-01T11:00:00"}
    return [
        moving_jobs.job(200_000 + n, "activated", jeditaskid=200_000, computingsite="R", **plain, **times)
        for n in range(4)
    ]


def content() -> Scenario:
    """Jobs on both sides of every limit, each with input and output, and queues of every kind."""
    active = [*as_rows(ACTIVE_CASES, 1000), *overloaded(), *of_a_user()]
    defined = as_rows(DEFINED_CASES, 5000)
    for row in (*active, *defined):
        row.setdefault("jeditaskid", row["pandaid"])
        if row.get("endtime") is None:
            row.pop("endtime", None)
    jobs = [*active, *defined]
    tables = {
        "schedconfig_json": [
            *lifecycle_grid.QUEUES,
            moving_jobs.queue("Q", corepower=10.5),
            moving_jobs.queue("R"),
        ],
        "sitedata": lifecycle_grid.PILOTS,
        "config": [*lifecycle_grid.CONFIG, moving_jobs.config("FAST_REBRO_THRESHOLD_NQUEUE_MC", 10)],
        "jobsactive4": active,
        "jobsdefined4": defined,
        "jobs_statuslog": [
            {"pandaid": row["pandaid"], "jobstatus": "activated", "modificationtime": OLD} for row in of_a_user()
        ],
        "metatable": [{"pandaid": row["pandaid"], "modificationtime": OLD, "metadata": "x"} for row in jobs],
        **work(jobs),
    }
    return Scenario(lifecycle_grid.NOW, tables)


def work(jobs: list[Row]) -> dict[str, list[Row]]:
    """Tasks, datasets and files of jobs."""
    found: dict[str, list[Row]] = {"jedi_tasks": [], "jedi_datasets": [], "jedi_dataset_contents": []}
    records: list[Row] = []
    counts = {"nfiles": 9, "nfilesused": 9, "nfilesfinished": 0, "nfilesfailed": 0, "nfilesonhold": 5}
    for task in sorted({row["jeditaskid"] for row in jobs}):
        found["jedi_tasks"].append({"jeditaskid": task, "status": "running", "vo": "atlas"})
        for dataset, kind in ((1, "input"), (3, "output")):
            one = {"jeditaskid": task, "datasetid": dataset, "type": kind, "modificationtime": OLD, "status": "ready"}
            found["jedi_datasets"].append(one | counts)
    for row in jobs:
        for dataset, kind in ((1, "input"), (3, "output")):
            key = {"jeditaskid": row["jeditaskid"], "datasetid": dataset, "fileid": 10 * row["pandaid"] + dataset}
            file = key | {"pandaid": row["pandaid"], "type": kind, "lfn": f"{kind}.{row['pandaid']}", "attemptnr": 1}
            record = file | {"row_id": key["fileid"], "status": "unknown", "modificationtime": OLD}
            records.append(record)
            more = {"status": "running", "maxattempt": 3, "keeptrack": 1, "fsize": 10**9, "is_waiting": None}
            found["jedi_dataset_contents"].append(file | more)
    return {**found, "filestable4": records}


@pytest.fixture
def both(make_database: Callable[..., Database]) -> Iterator[tuple[Database, Database, Database]]:
    """Our own tables as if they were PanDA's, PanDA's for a role that only reads, and the same for their owner."""
    scenario = content()
    own, panda = make_database(), make_database()
    for one in (own, panda):
        load(one, scenario)
    fill_jobs(own)
    with own.begin() as connection:
        connection.execute(sa.text("UPDATE broker.installation SET mode = 'beside'"))
    reshape(panda)
    with least_role(panda) as connect:
        least = connect(*READ)
        assert migrate.upgrade(least).mode == migrate.BESIDE
        yield own, least, panda


def tables(database: Database) -> dict[str, list[tuple[Any, ...]]]:
    """Every row that ending may write, without the columns that only PanDA has."""
    found = {}
    further = {one.split()[0] for one in FURTHER}
    with database.read_snapshot() as connection:
        for table, key in WRITTEN.items():
            rows = connection.execute(sa.text(f"SELECT * FROM doma_panda.{table} ORDER BY {key}"))
            names = [name for name in list(rows.keys()) if name not in further]
            found[table] = [tuple(row[name] for name in names) for row in rows.mappings()]
    return found


def test_panda_is_asked_for_the_same_jobs_by_a_role_that_only_reads(both: tuple[Database, ...]) -> None:
    own, least, _ = both
    before = tables(least)
    assert before == tables(own)
    asked = []
    for database in (own, least):
        with played_panda() as panda:
            for agent in AGENTS:
                record, told = moving_jobs.run(database, agent, options=panda.options())
                assert (record.outcome, record.error) == ("done", None) and told
            asked.append(panda.bodies)
    assert asked[0] == asked[1] and {body["code"] for body in asked[0]} >= {2, 10, 51}
    assert tables(least) == before


def test_what_is_ended_through_sql_leaves_the_same_rows(both: tuple[Database, ...]) -> None:
    own, least, panda = both
    for agent in AGENTS:
        refused, _ = moving_jobs.run(least, agent, options={"through": "sql"})
        assert refused.outcome == "refused" and 'GRANT SELECT, UPDATE ON "doma_panda"' in str(refused.error)
    with least.read_snapshot() as connection:
        lacking = [one.grant(ROLE) for one in rights.read_rights(connection, least.names, AGENTS) if not one.held]
    with panda.autocommit() as connection:
        for grant in lacking:
            connection.exec_driver_sql(grant)
    before = tables(least)
    for agent in AGENTS:
        (mine, told), (theirs, heard) = (
            moving_jobs.run(one, agent, options={"through": "sql"}) for one in (own, least)
        )
        assert theirs.error is None
        assert (theirs.outcome, theirs.error, theirs.counts, heard) == ("done", None, mine.counts, told)
        assert any(theirs.counts.values())
    after = tables(least)
    assert after == tables(own)
    assert {table for table in WRITTEN if after[table] != before[table]} == WRITTEN.keys()
    stamped = (
        "SELECT count(*) FROM doma_panda.jobparamstable JOIN doma_panda.metatable USING (pandaid, modificationtime)"
    )
    assert moving_jobs.column(panda, stamped) == [len(after["metatable"])]
    actions = "SELECT concat_ws(' ', agent, pandaid, rule, code, new_status) FROM broker.job_actions ORDER BY 1"
    assert moving_jobs.column(least, actions) == moving_jobs.column(own, actions) != []
