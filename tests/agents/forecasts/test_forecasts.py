"""The agent of forecasts: what it tells, by what it is judged, and when it says that it does not know."""

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
def database(shared: Database) -> Database:
    """One for all of them: each fills it anew."""
    return shared


def moment(minutes: float) -> str:
    return (NOW + timedelta(minutes=minutes)).replace(tzinfo=None).isoformat()


def waiting(pandaid: int, minutes: float = -60.0, **columns: Any) -> dict[str, Any]:
    """A job of share A that came to Q so many minutes after noon."""
    return job(pandaid, **{"gshare": "A", "creationtime": moment(minutes), "resource_type": "SCORE"} | columns)


def running(pandaid: int, came: float, started: float, **columns: Any) -> dict[str, Any]:
    return waiting(pandaid, came, jobstatus="running", starttime=moment(started), **columns)


def remember(database: Database, count: int, waited_s: float, kind: str = "queue", cell: str = QUEUE) -> None:
    """Past forecasts of a queue and share that came true after so long."""
    columns = (
        "kind, subject, cell, situation, made_at, horizon_s, ahead_s, n, unknown, status, status_since, is_newest, "
        "is_judged, outcome, waited_s, resolved_at"
    )
    values = (
        ":kind, :cell, :cell, 'waiting', :made, 172800, 600, 0, '', 'online', :made, false, true, 'started', :waited, "
        ":made"
    )
    made = [NOW - timedelta(hours=10) + timedelta(minutes=number) for number in range(count)]
    given = [{"kind": kind, "cell": cell, "made": at, "waited": waited_s} for at in made]
    with database.begin() as connection:
        connection.execute(sa.text(f"INSERT INTO broker.forecasts ({columns}) VALUES ({values})"), given)


def remember_open(database: Database) -> None:
    """A forecast of a queue and share, made at noon, that is not judged yet."""
    remember(database, 1, 0.0)
    with database.begin() as connection:
        connection.execute(
            sa.text("UPDATE broker.forecasts SET made_at = :now, outcome = NULL, resolved_at = NULL"), {"now": NOW}
        )


def told(database: Database, kind: str = "queue") -> list[Any]:
    query = f"SELECT subject, p10_s, p50_s, p90_s, n, unknown FROM broker.forecasts WHERE is_newest AND kind = '{kind}'"
    return rows(database, f"{query} ORDER BY subject")


def judged(database: Database, kind: str = "queue") -> list[Any]:
    query = f"SELECT subject, outcome, waited_s FROM broker.forecasts WHERE is_judged AND kind = '{kind}'"
    return rows(database, f"{query} ORDER BY made_at, subject")


def cycle(database: Database, minutes: float = 0.0, **how: Any) -> dict[str, Any]:
    record, _ = run_agent(database, "forecasts", now=NOW + timedelta(minutes=minutes), **how)
    assert record.outcome == "done", record.error
    return dict(record.counts)


def test_with_a_past_a_queue_is_told_and_without_one_it_is_not(database: Database) -> None:
    fill(database, [waiting(1), waiting(2), running(3, -90, -60)])
    cycle(database)
    assert told(database)[0][1:4] == (None, None, None)
    assert told(database)[0][5] == "0 forecasts of its kind have come true, 100 are needed"
    remember(database, 120, 300.0)
    counts = cycle(database, 10)
    subject, *quantiles, n, unknown = told(database)[0]
    assert (subject, n, unknown) == (QUEUE, 120, "")
    assert all(abs(value - 300.0) < 1e-6 for value in quantiles)
    assert counts["known"] == 1


def test_the_first_job_that_comes_afterwards_judges_the_forecast_of_a_queue(database: Database) -> None:
    fill(database, [waiting(1), running(2, -90, -60)])
    cycle(database)
    other = waiting(8, 1, gshare="B")
    fill_more(database, [other, running(9, 2, 6), waiting(10, 3)])
    counts = cycle(database, 10)
    assert counts["resolved"] == 1 and (QUEUE, "started", 240.0) in judged(database)


def fill_more(database: Database, jobs: list[dict[str, Any]]) -> None:
    """More jobs, with all that is known kept."""
    with database.begin() as connection:
        for one in jobs:
            columns, values = ", ".join(one), ", ".join(f":{name}" for name in one)
            connection.execute(sa.text(f"INSERT INTO doma_panda.jobsactive4 ({columns}) VALUES ({values})"), one)


def test_a_job_that_ends_without_a_start_is_gone_and_what_nobody_follows_is_not_judged(database: Database) -> None:
    fill(database, [waiting(1), waiting(2, gshare="B")])
    cycle(database)
    fill_more(database, [waiting(9, 5)])
    cycle(database, 10)
    with database.begin() as connection:
        connection.execute(sa.text("DELETE FROM doma_panda.jobsactive4 WHERE pandaid = 9"))
    cycle(database, 20)
    assert judged(database)[0] == (QUEUE, "gone", 0.0)
    cycle(database, 65)
    first = NOW + timedelta(minutes=1)
    left = rows(database, f"SELECT subject FROM broker.forecasts WHERE is_judged AND made_at < '{first.isoformat()}'"
                          " AND kind = 'queue'")  # fmt: skip
    assert left == [(QUEUE,)]


def test_a_task_is_judged_by_its_next_start_and_after_the_horizon_it_is_late(database: Database) -> None:
    tasks = [task(1, gshare="A", resource_type="SCORE", creationdate=moment(-120)),
             task(2, gshare="A", resource_type="SCORE", creationdate=moment(-60), status="pending")]  # fmt: skip
    fill(database, [waiting(1)], jedi_tasks=tasks, jedi_datasets=[dataset(20, jeditaskid=2)])
    cycle(database)
    assert [line[0] for line in told(database, "task")] == ["1", "2"]
    assert told(database, "task_kind")[0][0] == together("A", "SCORE")
    with database.begin() as connection:
        statement = "UPDATE doma_panda.jobsactive4 SET jobstatus = 'running', starttime = :at WHERE pandaid = 1"
        connection.execute(sa.text(statement), {"at": moment(7)})
    cycle(database, 10)
    assert [line[0] for line in told(database, "task")] == ["2"]
    assert judged(database, "task")[0] == ("1", "started", 420.0)
    cycle(database, 60 * 48)
    assert ("2", "late", 172_800.0) in judged(database, "task")


def test_one_forecast_an_hour_is_judged_and_the_others_are_replaced(database: Database) -> None:
    fill(database, [waiting(1)])
    for minutes in range(0, 120, 10):
        cycle(database, minutes)
    made = rows(
        database, "SELECT count(*), count(*) FILTER (WHERE is_newest) FROM broker.forecasts WHERE kind = 'queue'"
    )
    assert made[0][1] == 1 and made[0][0] <= 3


def test_a_queue_whose_status_changed_within_the_hour_is_not_known(database: Database) -> None:
    fill(database, [waiting(1)])
    remember(database, 120, 300.0)
    cycle(database)
    with database.begin() as connection:
        statement = "UPDATE doma_panda.schedconfig_json SET data = CAST(:data AS json) WHERE panda_queue = 'Q'"
        connection.execute(sa.text(statement), {"data": '{"nickname": "Q", "status": "brokeroff"}'})
    cycle(database, 10)
    assert told(database)[0][5] == "the status of the queue changed to brokeroff within the hour"
    cycle(database, 75)
    assert told(database)[0][5] == ""


def test_a_dry_run_tells_and_writes_nothing(database: Database) -> None:
    fill(database, [waiting(1)])
    assert cycle(database, dry=True)["told"] > 0 and told(database) == []


def test_a_grid_without_work_has_nothing_to_tell(database: Database) -> None:
    fill(database, [], jedi_tasks=[], schedconfig_json=[queue("Q")])
    assert cycle(database) == {"open": 0, "resolved": 0, "told": 0, "known": 0, "past": 0}
