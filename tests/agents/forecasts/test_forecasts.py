"""The agent of forecasts: what it forecasts, how forecasts are judged, and when it forecasts nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from broker.forecasts.model.subjects import together
from broker.store.connection.database import Database
from tests.pilots.panda.pilot_grid import NOW, dataset, fill, job, queue, rows, run_agent, task

QUEUE = together("Q", "A")
TEN_MINUTES = timedelta(minutes=10)


@pytest.fixture
def database(shared_database: Database) -> Database:
    """One database for all tests; each test fills it anew."""
    return shared_database


def moment(minutes: float) -> str:
    return (NOW + timedelta(minutes=minutes)).replace(tzinfo=None).isoformat()


def waiting_job(pandaid: int, minutes: float = -60.0, **columns: Any) -> dict[str, Any]:
    """A job of share A that came to Q ``minutes`` after noon."""
    return job(pandaid, **{"gshare": "A", "creationtime": moment(minutes), "resource_type": "SCORE"} | columns)


def running_job(pandaid: int, came: float, started: float, **columns: Any) -> dict[str, Any]:
    return waiting_job(pandaid, came, jobstatus="running", starttime=moment(started), **columns)


def remember(database: Database, count: int, waited_s: float, kind: str = "queue", cell: str = QUEUE) -> None:
    """Insert past forecasts of a queue and share that came true after ``waited_s``."""
    columns = (
        "kind, subject, cell, situation, made_at, horizon_s, ahead_s, n, unknown, status, status_since, is_newest, "
        "is_judged, outcome, waited_s, resolved_at"
    )
    values = (
        ":kind, :cell, :cell, 'waiting', :made, 172800, 600, 0, '', 'online', :made, false, true, 'started', :waited, "
        ":made"
    )
    instants = [NOW - timedelta(hours=10) + timedelta(minutes=number) for number in range(count)]
    parameters = [{"kind": kind, "cell": cell, "made": at, "waited": waited_s} for at in instants]
    with database.begin() as connection:
        connection.execute(sa.text(f"INSERT INTO broker.forecasts ({columns}) VALUES ({values})"), parameters)


def remember_open(database: Database) -> None:
    """Insert a forecast of a queue and share, made at noon, that is not judged yet."""
    remember(database, 1, 0.0)
    with database.begin() as connection:
        connection.execute(
            sa.text("UPDATE broker.forecasts SET made_at = :now, outcome = NULL, resolved_at = NULL"), {"now": NOW}
        )


def newest_forecasts(database: Database, kind: str = "queue") -> list[Any]:
    query = f"SELECT subject, p10_s, p50_s, p90_s, n, unknown FROM broker.forecasts WHERE is_newest AND kind = '{kind}'"
    return rows(database, f"{query} ORDER BY subject")


def judged_forecasts(database: Database, kind: str = "queue") -> list[Any]:
    query = f"SELECT subject, outcome, waited_s FROM broker.forecasts WHERE is_judged AND kind = '{kind}'"
    return rows(database, f"{query} ORDER BY made_at, subject")


def cycle(database: Database, minutes: float = 0.0, **arguments: Any) -> dict[str, Any]:
    record, _ = run_agent(database, "forecasts", now=NOW + timedelta(minutes=minutes), **arguments)
    assert record.outcome == "done", record.error
    return dict(record.counts)


def test_a_queue_has_a_forecast_only_after_past_forecasts_came_true(database: Database) -> None:
    fill(database, [waiting_job(1), waiting_job(2), running_job(3, -90, -60)])
    cycle(database)
    assert newest_forecasts(database)[0][1:4] == (None, None, None)
    assert newest_forecasts(database)[0][5] == "0 forecasts of its kind have come true, 100 are needed"
    remember(database, 120, 300.0)
    counts = cycle(database, 10)
    subject, *quantiles, n, unknown = newest_forecasts(database)[0]
    assert (subject, n, unknown) == (QUEUE, 120, "")
    assert all(abs(value - 300.0) < 1e-6 for value in quantiles)
    assert counts["known"] == 1


def test_the_first_job_that_comes_afterwards_judges_the_forecast_of_a_queue(database: Database) -> None:
    fill(database, [waiting_job(1), running_job(2, -90, -60)])
    cycle(database)
    other_share = waiting_job(8, 1, gshare="B")
    fill_more(database, [other_share, running_job(9, 2, 6), waiting_job(10, 3)])
    counts = cycle(database, 10)
    assert counts["resolved"] == 1 and (QUEUE, "started", 240.0) in judged_forecasts(database)


def fill_more(database: Database, jobs: list[dict[str, Any]]) -> None:
    """Insert more jobs, and keep everything else."""
    with database.begin() as connection:
        for row in jobs:
            columns, values = ", ".join(row), ", ".join(f":{name}" for name in row)
            connection.execute(sa.text(f"INSERT INTO doma_panda.jobsactive4 ({columns}) VALUES ({values})"), row)


def test_a_job_that_ends_unstarted_is_gone_and_a_forecast_without_a_job_is_not_judged(database: Database) -> None:
    fill(database, [waiting_job(1), waiting_job(2, gshare="B")])
    cycle(database)
    fill_more(database, [waiting_job(9, 5)])
    cycle(database, 10)
    with database.begin() as connection:
        connection.execute(sa.text("DELETE FROM doma_panda.jobsactive4 WHERE pandaid = 9"))
    cycle(database, 20)
    assert judged_forecasts(database)[0] == (QUEUE, "gone", 0.0)
    cycle(database, 65)
    first = NOW + timedelta(minutes=1)
    subjects = rows(
        database,
        f"SELECT subject FROM broker.forecasts WHERE is_judged AND made_at < '{first.isoformat()}' AND kind = 'queue'",
    )
    assert subjects == [(QUEUE,)]


def test_a_task_is_judged_by_its_next_start_and_after_the_horizon_it_is_late(database: Database) -> None:
    tasks = [task(1, gshare="A", resource_type="SCORE", creationdate=moment(-120)),
             task(2, gshare="A", resource_type="SCORE", creationdate=moment(-60), status="pending")]  # fmt: skip
    fill(database, [waiting_job(1)], jedi_tasks=tasks, jedi_datasets=[dataset(20, jeditaskid=2)])
    cycle(database)
    assert [line[0] for line in newest_forecasts(database, "task")] == ["1", "2"]
    assert newest_forecasts(database, "task_kind")[0][0] == together("A", "SCORE")
    with database.begin() as connection:
        statement = "UPDATE doma_panda.jobsactive4 SET jobstatus = 'running', starttime = :at WHERE pandaid = 1"
        connection.execute(sa.text(statement), {"at": moment(7)})
    cycle(database, 10)
    assert [line[0] for line in newest_forecasts(database, "task")] == ["2"]
    assert judged_forecasts(database, "task")[0] == ("1", "started", 420.0)
    cycle(database, 60 * 48)
    assert ("2", "late", 172_800.0) in judged_forecasts(database, "task")


def test_one_forecast_an_hour_is_judged_and_the_others_are_replaced(database: Database) -> None:
    fill(database, [waiting_job(1)])
    for minutes in range(0, 120, 10):
        cycle(database, minutes)
    counts = rows(
        database, "SELECT count(*), count(*) FILTER (WHERE is_newest) FROM broker.forecasts WHERE kind = 'queue'"
    )
    assert counts[0][1] == 1 and counts[0][0] <= 3


def test_a_queue_whose_status_changed_within_the_hour_is_not_known(database: Database) -> None:
    fill(database, [waiting_job(1)])
    remember(database, 120, 300.0)
    cycle(database)
    with database.begin() as connection:
        statement = "UPDATE doma_panda.schedconfig_json SET data = CAST(:data AS json) WHERE panda_queue = 'Q'"
        connection.execute(sa.text(statement), {"data": '{"nickname": "Q", "status": "brokeroff"}'})
    cycle(database, 10)
    assert newest_forecasts(database)[0][5] == "the status of the queue changed to brokeroff within the hour"
    cycle(database, 75)
    assert newest_forecasts(database)[0][5] == ""


def test_a_dry_run_counts_forecasts_and_writes_nothing(database: Database) -> None:
    fill(database, [waiting_job(1)])
    assert cycle(database, dry=True)["told"] > 0 and newest_forecasts(database) == []


def test_a_grid_without_work_has_no_forecasts(database: Database) -> None:
    fill(database, [], jedi_tasks=[], schedconfig_json=[queue("Q")])
    assert cycle(database) == {"open": 0, "resolved": 0, "told": 0, "known": 0, "past": 0}
