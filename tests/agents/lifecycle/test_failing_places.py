"""Jobs that wait where jobs fail are taken back: which, when, under the brake, and none while a key is off."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from broker.domain.instants import HOUR_S
from broker.store.connection.database import Database
from tests.agents.moving_jobs import NOW, closed_jobs, column, config, fill, job, run

FAST = "fast_rebrokerage"
KEYS = ("LEARNED_TAKE_BACK", "LEARNED_FAILING_QUEUES", "LEARNED_TASK_FAILS_HERE")


def keys_on(*keys: str) -> list[dict[str, Any]]:
    return [config(key, "True", "jobbroker") | {"app": "jedi", "type": "boolean"} for key in keys]


def waiting_jobs() -> list[dict[str, Any]]:
    """Jobs 1 to 3 wait at Q, 4 starts, 5 runs, 6 is a user's, 7 may not move, 8 waits at R, 9 has another task."""
    of_user = {"prodsourcelabel": "user"}
    plain = {"prodsourcelabel": "managed"}
    return [
        job(1, **plain), job(2, "defined", **plain), job(3, "assigned", **plain), job(4, "starting", **plain),
        job(5, "running", **plain), job(6, **of_user), job(7, relocationflag=2, **plain),
        job(8, computingsite="R", **plain), job(9, jeditaskid=2, **plain),
    ]  # fmt: skip


def learn(database: Database, state: str | None, *ends: tuple[int, str, int, int], age_s: float = 10.0) -> None:
    """Record a state of queue Q for production; ``ends``: task, queue, finished and failed jobs of this hour."""
    hour = int(NOW.timestamp() // HOUR_S)
    with database.begin() as connection:
        if state is not None:
            connection.execute(
                sa.text(
                    "INSERT INTO broker.queue_health VALUES ('Q', 'production', '', :state, 11, 1, 20, 19, '{1,2,3}',"
                    " '{}', 1, NULL, 1, 20, 19, 1801, 1, 1, 0, 0)"
                ),
                {"state": state},
            )
        for task, queue, finished, failed in ends:
            values = {"task": task, "queue": queue, "hour": hour, "finished": finished, "failed": failed}
            connection.execute(
                sa.text("INSERT INTO broker.task_ends VALUES (:task, :queue, :hour, :finished, :failed)"), values
            )
        connection.execute(
            sa.text("INSERT INTO broker.summary_refreshes (summary, refreshed_for) VALUES ('outcomes', :at)"),
            {"at": NOW - timedelta(seconds=age_s)},
        )


@pytest.mark.parametrize(
    ("state", "ends", "keys", "age_s", "expected"),
    [
        ("excluded", (), KEYS, 10, [1, 2, 3, 9]),
        ("probation", (), KEYS, 10, []),
        ("suspected", (), KEYS, 10, []),
        (None, (), KEYS, 10, []),
        ("excluded", (), KEYS[1:], 10, []),
        ("excluded", (), KEYS[::2], 10, []),
        ("excluded", (), KEYS, 240, [1, 2, 3, 9]),
        ("excluded", (), KEYS, 241, []),
        (None, ((1, "Q", 0, 3),), KEYS, 10, [1, 2, 3, 6]),
        (None, ((1, "Q", 0, 2),), KEYS, 10, []),
        (None, ((1, "Q", 0, 3), (1, "R", 0, 3)), KEYS, 10, []),
        (None, ((1, "Q", 0, 3),), KEYS[:2], 10, []),
        (None, ((1, "R", 0, 3),), KEYS, 10, [8]),
    ],
)
def test_which_jobs_are_taken_back(
    shared_database: Database, state: str | None, ends: Any, keys: tuple[str, ...], age_s: float, expected: list[int]
) -> None:
    fill(shared_database, waiting_jobs(), config=keys_on(*keys))
    learn(shared_database, state, *ends, age_s=age_s)
    dry, _ = run(shared_database, FAST, dry=True)
    assert (dry.outcome, dry.counts["where_jobs_fail"], closed_jobs(shared_database)) == ("done", len(expected), [])
    record, _ = run(shared_database, FAST)
    assert (record.outcome, record.error, closed_jobs(shared_database)) == ("done", None, expected)


def test_the_reason_is_emitted_once_a_queue(shared_database: Database) -> None:
    fill(shared_database, waiting_jobs(), config=keys_on(*KEYS))
    learn(shared_database, "excluded")
    _, objects = run(shared_database, FAST)
    assert [item for item in objects if "reason" in item] == [
        {"queue": "Q", "reason": "queue_unhealthy", "picked": [9, 3, 2, 1], "dry_run": False, "moved": 4, "skipped": 0}
    ]
    query = "SELECT DISTINCT concat_ws(' ', rule, action, code, detail ->> 'failed_jobs', detail ->> 'ended_jobs') FROM"
    assert column(shared_database, f"{query} broker.job_actions") == ["failing_places reassigned 10 19 20"]
    assert run(shared_database, FAST)[0].counts["where_jobs_fail"] == 0


def test_a_task_pinned_to_a_queue_stays(shared_database: Database) -> None:
    fill(
        shared_database,
        waiting_jobs(),
        config=keys_on(*KEYS),
        jedi_tasks=[{"jeditaskid": 1, "site": "Q"}, {"jeditaskid": 2}],
    )
    learn(shared_database, "excluded")
    run(shared_database, FAST)
    assert closed_jobs(shared_database) == [9]


def test_the_brake_holds_jobs_back(shared_database: Database) -> None:
    fill(shared_database, [job(number, prodsourcelabel="managed") for number in range(1, 300)], config=keys_on(*KEYS))
    learn(shared_database, "excluded")
    record, _ = run(shared_database, FAST)
    assert (record.counts["where_jobs_fail"], record.counts["held_back"], len(closed_jobs(shared_database))) == (
        299,
        199,
        100,
    )
