"""Timeouts, rebrokerage and ending of jobs on PanDA's tables as sites have them give the same rows as on our own."""

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
from tests.lifecycle import lifecycle_grid
from tests.lifecycle.statements.test_scan import ACTIVE_CASES, DEFINED_CASES, as_rows

pytestmark = pytest.mark.slow

AGENTS = ("fast_rebrokerage", "analysis_rebrokerage", "timeouts")
#: Tables that ending jobs may write, with their sort key.
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


def jobs_of_overloaded_share() -> list[Row]:
    """A share with 30 waiting jobs and one running job at a queue."""
    queued_again = {"specialhandling": "tq=1785571200"}
    waiting = [
        moving_jobs.job(number, ("activated", "starting")[number % 2], jeditaskid=number, **queued_again)
        for number in range(100_000, 100_030)
    ]
    return [*waiting, moving_jobs.job(100_100, "running", modificationtime="2026-08-01T11:59:00")]


def jobs_of_user() -> list[Row]:
    """A user's submission that waits at one queue without progress."""
    columns = {"prodsourcelabel": "user", "jobdefinitionid": 5, "jobsetid": 6, "produsername": "asta", "gshare": "UA"}
    times = {"statechangetime": OLD, "creationtime": OLD, "modificationtime": "2026-08-01T11:00:00"}
    return [
        moving_jobs.job(200_000 + number, "activated", jeditaskid=200_000, computingsite="R", **columns, **times)
        for number in range(4)
    ]


def content() -> Scenario:
    """A scenario: jobs on both sides of every limit, each with input and output, and queues of every kind."""
    active_jobs = [*as_rows(ACTIVE_CASES, 1000), *jobs_of_overloaded_share(), *jobs_of_user()]
    defined_jobs = as_rows(DEFINED_CASES, 5000)
    for row in (*active_jobs, *defined_jobs):
        row.setdefault("jeditaskid", row["pandaid"])
        if row.get("endtime") is None:
            row.pop("endtime", None)
    jobs = [*active_jobs, *defined_jobs]
    tables = {
        "schedconfig_json": [
            *lifecycle_grid.QUEUES,
            moving_jobs.queue("Q", corepower=10.5),
            moving_jobs.queue("R"),
        ],
        "sitedata": lifecycle_grid.PILOTS,
        "config": [*lifecycle_grid.CONFIG, moving_jobs.config("FAST_REBRO_THRESHOLD_NQUEUE_MC", 10)],
        "jobsactive4": active_jobs,
        "jobsdefined4": defined_jobs,
        "jobs_statuslog": [
            {"pandaid": row["pandaid"], "jobstatus": "activated", "modificationtime": OLD} for row in jobs_of_user()
        ],
        "metatable": [{"pandaid": row["pandaid"], "modificationtime": OLD, "metadata": "x"} for row in jobs],
        **work(jobs),
    }
    return Scenario(lifecycle_grid.NOW, tables)


def work(jobs: list[Row]) -> dict[str, list[Row]]:
    """Tasks, datasets and files of jobs."""
    tables_of_work: dict[str, list[Row]] = {"jedi_tasks": [], "jedi_datasets": [], "jedi_dataset_contents": []}
    records: list[Row] = []
    counts = {"nfiles": 9, "nfilesused": 9, "nfilesfinished": 0, "nfilesfailed": 0, "nfilesonhold": 5}
    for task in sorted({row["jeditaskid"] for row in jobs}):
        tables_of_work["jedi_tasks"].append({"jeditaskid": task, "status": "running", "vo": "atlas"})
        for dataset, kind in ((1, "input"), (3, "output")):
            row_of_dataset = {
                "jeditaskid": task,
                "datasetid": dataset,
                "type": kind,
                "modificationtime": OLD,
                "status": "ready",
            }
            tables_of_work["jedi_datasets"].append(row_of_dataset | counts)
    for row in jobs:
        for dataset, kind in ((1, "input"), (3, "output")):
            key = {"jeditaskid": row["jeditaskid"], "datasetid": dataset, "fileid": 10 * row["pandaid"] + dataset}
            file = key | {"pandaid": row["pandaid"], "type": kind, "lfn": f"{kind}.{row['pandaid']}", "attemptnr": 1}
            record = file | {"row_id": key["fileid"], "status": "unknown", "modificationtime": OLD}
            records.append(record)
            columns = {"status": "running", "maxattempt": 3, "keeptrack": 1, "fsize": 10**9, "is_waiting": None}
            tables_of_work["jedi_dataset_contents"].append(file | columns)
    return {**tables_of_work, "filestable4": records}


@pytest.fixture
def both(make_database: Callable[..., Database]) -> Iterator[tuple[Database, Database, Database]]:
    """Our own tables in mode ``beside``; PanDA's tables, opened by a read-only role; the same, opened by the owner."""
    scenario = content()
    our_database, panda = make_database(), make_database()
    for database in (our_database, panda):
        load(database, scenario)
    fill_jobs(our_database)
    with our_database.begin() as connection:
        connection.execute(sa.text("UPDATE broker.installation SET mode = 'beside'"))
    reshape(panda)
    with least_role(panda) as connect:
        least = connect(*READ)
        assert migrate.upgrade(least).mode == migrate.BESIDE
        yield our_database, least, panda


def tables(database: Database) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of the tables that ending may write, without the columns that only PanDA has."""
    rows_by_table = {}
    further = {definition.split()[0] for definition in FURTHER}
    with database.read_snapshot() as connection:
        for table, key in WRITTEN.items():
            rows = connection.execute(sa.text(f"SELECT * FROM doma_panda.{table} ORDER BY {key}"))
            names = [name for name in list(rows.keys()) if name not in further]
            rows_by_table[table] = [tuple(row[name] for name in names) for row in rows.mappings()]
    return rows_by_table


def test_a_read_only_role_sends_panda_the_same_requests(both: tuple[Database, ...]) -> None:
    our_database, least, _ = both
    before = tables(least)
    assert before == tables(our_database)
    requests = []
    for database in (our_database, least):
        with played_panda() as panda:
            for agent in AGENTS:
                record, messages = moving_jobs.run(database, agent, options=panda.options())
                assert (record.outcome, record.error) == ("done", None) and messages
            requests.append(panda.bodies)
    assert requests[0] == requests[1] and {body["code"] for body in requests[0]} >= {2, 10, 51}
    assert tables(least) == before


def test_ending_jobs_through_sql_leaves_the_same_rows(both: tuple[Database, ...]) -> None:
    our_database, least, panda = both
    for agent in AGENTS:
        refused, _ = moving_jobs.run(least, agent, options={"through": "sql"})
        assert refused.outcome == "refused" and 'GRANT SELECT, UPDATE ON "doma_panda"' in str(refused.error)
    with least.read_snapshot() as connection:
        lacking = [right.grant(ROLE) for right in rights.read_rights(connection, least.names, AGENTS) if not right.held]
    with panda.autocommit() as connection:
        for grant in lacking:
            connection.exec_driver_sql(grant)
    before = tables(least)
    for agent in AGENTS:
        (own_record, own_messages), (other_record, messages) = (
            moving_jobs.run(right, agent, options={"through": "sql"}) for right in (our_database, least)
        )
        assert (own_record.outcome, own_record.error) == ("done", None)
        assert (other_record.outcome, other_record.error, other_record.counts, messages) == (
            "done",
            None,
            own_record.counts,
            own_messages,
        )
        assert any(other_record.counts.values())
    after = tables(least)
    assert after == tables(our_database)
    assert {table for table in WRITTEN if after[table] != before[table]} == WRITTEN.keys()
    stamped = (
        "SELECT count(*) FROM doma_panda.jobparamstable JOIN doma_panda.metatable USING (pandaid, modificationtime)"
    )
    assert moving_jobs.column(panda, stamped) == [len(after["metatable"])]
    actions = "SELECT concat_ws(' ', agent, pandaid, rule, code, new_status) FROM broker.job_actions ORDER BY 1"
    assert moving_jobs.column(least, actions) == moving_jobs.column(our_database, actions) != []
