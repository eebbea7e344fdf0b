"""The agent that folds the ends of jobs: each end once and in order."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from agents.service import registry
from agents.service.base import CycleContext, CycleRequest
from agents.service.configuration import ProcessSettings
from agents.service.cycle import run_cycle
from broker.outcomes.answers.outcomes import Outcomes, outcomes_answer
from broker.outcomes.model.record import WAIT_CELLS, wait_cell
from broker.store.connection.database import Database
from broker.store.query_context import QueryContext
from broker.store.scenarios.load_dump import load
from broker.store.scenarios.scenario_file import Scenario
from broker.store.service import leases
from broker.store.service.agent_runs import RunRecord
from broker.store.service.leases import LeaseTerms

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
TABLES = ("queue_record", "queue_failures", "queue_health", "task_ends")


def ended_job(pandaid: int, minute: float, **columns: Any) -> dict[str, Any]:
    """A job of one of three tasks that ended ``minute`` minutes after ten; it waited half an hour and ran an hour."""
    at = (NOW + timedelta(minutes=minute - 120)).replace(tzinfo=None)
    plain = {
        "pandaid": pandaid, "jeditaskid": pandaid % 3, "computingsite": "Q", "jobstatus": "finished",
        "prodsourcelabel": "managed", "processingtype": "simul", "resource_type": "MCORE", "attemptnr": 1,
        "actualcorecount": 8, "maxwalltime": 7200, "modificationhost": "slot1_2@node1",
        "creationtime": (at - timedelta(minutes=90)).isoformat(), "starttime": (at - timedelta(hours=1)).isoformat(),
        "endtime": at.isoformat(), "modificationtime": at.isoformat(),
    }  # fmt: skip
    return plain | columns


def failed_job(pandaid: int, minute: float, **columns: Any) -> dict[str, Any]:
    return ended_job(pandaid, minute, **{"jobstatus": "failed", "piloterrorcode": 1098} | columns)


def put(database: Database, table: str, jobs: list[dict[str, Any]]) -> None:
    """Replace the jobs of a table; unlike a load with ``replace``, keep what was learned."""
    with database.begin() as connection:
        connection.execute(sa.text(f"DELETE FROM doma_panda.{table}"))
    load(database, Scenario(NOW, {table: jobs}))


def archive(database: Database, *jobs: dict[str, Any]) -> None:
    put(database, "jobsarchived4", list(jobs))


def run_once(
    database: Database, now: datetime = NOW, dry_run: bool = False, **options: Any
) -> tuple[RunRecord, list[dict[str, Any]]]:
    agent = registry.make("outcomes", options, ProcessSettings())
    objects: list[dict[str, Any]] = []
    request = CycleRequest(dry_run=dry_run, emit=objects.append)
    with database.begin() as connection:
        lease = None if dry_run else leases.acquire(connection, "outcomes", "test", LeaseTerms()).lease
    record = run_cycle(agent, CycleContext(database, now, 1, 60.0, request, lease=lease))
    assert record.outcome == "done", record.error
    if lease is not None:
        with database.begin() as connection:
            leases.release(connection, lease)
    return record, objects


def rows(database: Database, table: str) -> list[Any]:
    with database.read_snapshot() as connection:
        return [tuple(row) for row in connection.execute(sa.text(f"SELECT * FROM broker.{table} ORDER BY 1, 2, 3"))]


def answer(database: Database, **arguments: Any) -> Outcomes:
    with database.read_snapshot() as connection:
        return outcomes_answer(QueryContext(connection, database.names, NOW, None), **arguments)


def test_sums_of_an_hour_by_queue_and_kind(database: Database) -> None:
    archive(
        database,
        ended_job(1, 0), ended_job(2, 59), failed_job(3, 10), failed_job(4, 10, piloterrorcode=None),
        ended_job(5, 5, jobstatus="closed", starttime=None, taskbuffererrorcode=105),
        ended_job(6, 7, prodsourcelabel="user", maxwalltime=None), ended_job(7, 61),
    )  # fmt: skip
    record, _ = run_once(database)
    assert (record.counts["ended"], record.counts["failed"]) == (7, 2)
    waits = [0] * WAIT_CELLS
    production = [row for row in rows(database, "queue_record") if row[2] == "production"]
    first, second = production
    waits[wait_cell(1800.0)] = 4
    assert first[3:9] == ("simul", "MCORE", 2, 2, 1, 1)  # of the failed jobs, the one without a code was lost
    assert first[9:12] == (4 * 8 * 3600.0, 2 * 8 * 3600.0, 2)
    assert first[12] == pytest.approx(2 * -0.6931471805599453) and first[14] == waits
    assert second[5:9] == (1, 0, 0, 0)
    assert [row[2:] for row in rows(database, "queue_failures")] == [
        ("production", "no_space", "site", 1),
        ("production", "vanished", "site", 1),
    ]
    queues = answer(database).queues
    assert [(queue.kind, queue.finished, queue.failed, queue.failed_percent, queue.wait_min) for queue in queues] == [
        ("production", 3, 2, 40.0, 32.0), ("analysis", 1, 0, 0.0, 32.0),
    ]  # fmt: skip
    assert (queues[0].by_fault, queues[0].walltime_ratio, queues[1].walltime_ratio) == ({"site": 2}, 0.5, None)


def test_each_end_is_folded_once_even_if_it_is_written_late(database: Database) -> None:
    archive(database, ended_job(1, 118), failed_job(2, 119))
    run_once(database)
    second, _ = run_once(database, NOW + timedelta(minutes=1))
    assert second.counts["ended"] == 0
    archive(database, ended_job(1, 118), failed_job(2, 119), ended_job(3, 117.5), ended_job(4, 100))
    late, _ = run_once(database, NOW + timedelta(minutes=2))
    assert late.counts["ended"] == 1  # within the overlap of ten minutes; the other job came too late
    assert [row[5:7] for row in rows(database, "queue_record")] == [(2, 1)]


@pytest.mark.slow
def test_batches_and_cycles_of_any_size_give_the_same(make_database: Any) -> None:
    jobs = [(failed_job if number % 3 else ended_job)(number, number * 0.4) for number in range(200)]
    contents = []
    for batch in (1_000, 7):
        database = make_database()
        archive(database, *jobs)
        if batch == 7:
            for minute in (20, 50, 51, 80):
                run_once(database, datetime(2026, 8, 1, 10, minute % 60, tzinfo=UTC) + timedelta(hours=minute // 60),
                         jobs_of_a_batch=batch)  # fmt: skip
        run_once(database, jobs_of_a_batch=batch)
        contents.append([rows(database, table) for table in TABLES])
    assert contents[0] == contents[1]


def test_folded_ends_are_not_read_again(database: Database) -> None:
    archive(database, *(ended_job(number, 0.1 * number) for number in range(50)))
    run_once(database)
    archive(database, ended_job(1000, 119))
    record, _ = run_once(database, NOW + timedelta(minutes=1))
    assert record.counts["ended"] == 1 and rows(database, "queue_record")[0][5] == 50
    with database.read_snapshot() as connection:
        assert connection.scalar(sa.text("SELECT count(*) FROM broker.folded_ends")) == 1


def test_a_failing_queue_is_closed_and_emitted(database: Database) -> None:
    archive(database, *(failed_job(number, number) for number in range(9)))
    _, objects = run_once(database)
    closed_queues = [item for item in objects if item["node"] == ""]
    assert [(item["queue"], item["kind"], item["state"], item["failed"], item["tasks"]) for item in closed_queues] == [
        ("Q", "production", "probation", 8, 3)  # closed at 10:07, and half an hour later open for probes
    ]
    queue, node = answer(database).unhealthy
    assert (queue.node, queue.state, node.node) == ("", "probation", "node1")
    assert queue.sentence.startswith("8 of 8 production jobs, of 3 tasks, failed in 0.1 h, limit 44 %")


@pytest.mark.parametrize(
    "columns",
    [{"prodsourcelabel": "ptest"}, {"piloterrorcode": 1144}, {"piloterrorcode": 1379}, {"piloterrorcode": 1305},
     {"jobstatus": "closed"}],
    ids=["test job", "killed by the server", "preempted", "payload", "closed"],
)  # fmt: skip
def test_failures_that_are_not_the_queues_fault_close_none(database: Database, columns: dict[str, Any]) -> None:
    archive(database, *(failed_job(number, number, **columns) for number in range(30)))
    run_once(database)
    assert answer(database).unhealthy == ()


def test_a_dry_run_emits_objects_and_writes_nothing(database: Database) -> None:
    archive(database, *(failed_job(number, number) for number in range(9)))
    record, objects = run_once(database, dry_run=True)
    assert record.counts["ended"] == 9 and objects
    assert [rows(database, table) for table in TABLES] == [[], [], [], []]


def test_the_first_cycle_looks_back_for_a_day_only(database: Database) -> None:
    archive(database, ended_job(1, -1441), ended_job(2, -1319))
    record, _ = run_once(database)
    assert record.counts["ended"] == 1


def test_the_most_running_cores_are_recorded(database: Database) -> None:
    running = [ended_job(number, 0, jobstatus="running", endtime=None) for number in range(3)]
    users = ended_job(9, 0, jobstatus="running", prodsourcelabel="user", actualcorecount=None, corecount=None)
    put(database, "jobsactive4", [*running, users])
    run_once(database)
    put(database, "jobsactive4", running[:1])
    run_once(database, NOW + timedelta(minutes=1))
    assert [row[1:] for row in rows(database, "queue_cores")] == [
        ("Q", "all", 25), ("Q", "analysis", 1), ("Q", "production", 24),
    ]  # fmt: skip


def test_the_jobs_that_started_in_an_hour_are_counted_while_it_goes_on_and_once_more(database: Database) -> None:
    def at(minutes: float) -> str:
        return (NOW + timedelta(minutes=minutes)).replace(tzinfo=None).isoformat()

    def starts_by_hour() -> list[int]:
        with database.read_snapshot() as connection:
            return list(connection.scalars(sa.text("SELECT started FROM broker.job_starts ORDER BY hour")))

    running = {"jobstatus": "running", "endtime": None}
    put(
        database,
        "jobsactive4",
        [ended_job(1, 0, starttime=at(-1), **running), ended_job(2, 0, starttime=at(-200), **running)],
    )
    run_once(database)
    assert starts_by_hour() == [1, 0]
    put(database, "jobsactive4", [])
    archive(database, ended_job(3, 121, starttime=at(0)), ended_job(4, 121, starttime=at(-200)))
    run_once(database, NOW + timedelta(minutes=2))
    assert starts_by_hour() == [1, 1]  # jobs that have left the tables meanwhile are counted
