"""Lists of the last decisions and of counts by bucket."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import given, settings, strategies as st

from broker.codec.decision_counts import counts_of
from broker.domain.decisions import Candidate, Decision, DecisionRecord
from broker.domain.rejection_counts import CANDIDATE, CountsCorruptError, QueueCount, QueueCounts
from broker.service.statements.flow_reads import first_bucket
from broker.store.connection.database import Database
from broker.store.summaries import chunk_states, count_writing, reason_counts
from broker.store.summaries.reason_counts import bucket_of
from tests.fault.processes import wait_until

NOW = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
STATE = {
    "brokerage": "production_job",
    "jeditaskid": 1,
    "datasetid": 7,
    "ramcount": 2000.0,
    "decision": 1,
    "decided_at": NOW,
    "outcome": "pending",
    "reason": "no_candidates",
    "outcome_since": NOW - timedelta(hours=3),
    "waiting_since": NOW - timedelta(hours=4),
    "last_seen_at": NOW,
    "last_agent_run": 9,
    "decisions": 4,
    "seen_again": 3,
    "pending_until": NOW + timedelta(minutes=30),
    "candidate_count": 0,
    "jobs": 0,
    "assigned": "{}",
    "state": b"s",
    "work_state": b"w",
    "main_reason": "full",
}


def add(database: Database, *changes: dict[str, Any]) -> None:
    """Add chunk states that differ from ``STATE`` by these changes."""
    names = ", ".join(STATE)
    values = ", ".join(f"CAST(:{name} AS jsonb)" if name == "assigned" else f":{name}" for name in STATE)
    statement = sa.text(f"INSERT INTO broker.chunk_states ({names}) VALUES ({values})")
    with database.begin() as connection:
        connection.execute(statement, [STATE | change for change in changes])


BROKERED = {"outcome": "brokered", "reason": "", "waiting_since": None, "jobs": 5, "assigned": '{"CERN": 5}'}


@pytest.mark.parametrize(
    ("filters", "tasks"),
    [
        ({}, [2, 1, 3]),
        ({"tasks": [1, 3, 9]}, [1, 3]),
        ({"brokerages": ["analysis_job"]}, [3]),
        ({"outcomes": ["brokered"]}, [2]),
        ({"reasons": ["throttled"]}, [3]),
        ({"reasons": ["full"]}, [2, 1, 3]),
        ({"queue": "CERN"}, [2]),
        ({"queue": "CER"}, []),
        ({"waiting": True}, [1, 3]),
        ({"waiting": False}, [2]),
        ({"changed_since": NOW - timedelta(hours=3)}, [1, 3]),
        ({"changed_since": NOW - timedelta(hours=3) + timedelta(seconds=1)}, [3]),
        ({"now": NOW + timedelta(hours=1)}, [2, 1, 3]),
        ({"now": NOW + timedelta(hours=1, seconds=1)}, [1, 3]),
        ({"most": 1}, [2]),
    ],
)
def test_states_are_selected_by_every_filter(database: Database, filters: dict[str, Any], tasks: list[int]) -> None:
    add(
        database,
        {},
        BROKERED | {"jeditaskid": 2, "outcome_since": NOW - timedelta(hours=5), "pending_until": None},
        {"jeditaskid": 3, "brokerage": "analysis_job", "reason": "throttled", "waiting_since": NOW, "ramcount": None}
        | {"outcome_since": NOW},
    )
    with database.read_snapshot() as connection:
        states = chunk_states.read_states(connection, **filters)
    assert [state.jeditaskid for state in states] == tasks


def test_a_state_is_read_as_stored_and_unique_for_each_chunk(database: Database) -> None:
    add(database, BROKERED, {"datasetid": None, "ramcount": None})
    with database.read_snapshot() as connection:
        first = chunk_states.read_states(connection, outcomes=["brokered"])[0]
    assert (first.assigned, first.jobs, first.ramcount, first.waiting_since) == ({"CERN": 5}, 5, 2000.0, None)
    with pytest.raises(sa.exc.IntegrityError):
        add(database, {"datasetid": None, "ramcount": None})


def test_waiting_chunks_are_counted_by_reason_without_expired_ones(database: Database) -> None:
    add(
        database,
        {},
        {"datasetid": 8, "waiting_since": NOW - timedelta(hours=9)},
        {"jeditaskid": 2, "reason": "lost", "last_seen_at": NOW - timedelta(hours=2), "pending_until": None},
        BROKERED | {"jeditaskid": 3},
    )
    with database.read_snapshot() as connection:
        waiting_groups = chunk_states.waiting_by_reason(connection, NOW)
    assert waiting_groups == [
        chunk_states.Waiting(
            "production_job",
            "pending",
            "no_candidates",
            "full",
            2,
            1,
            NOW - timedelta(hours=9),
            NOW + timedelta(minutes=30),
        )
    ]


def test_buckets_range_from_the_one_that_contains_since_up_to_until(database: Database) -> None:
    starts = [NOW + timedelta(minutes=5 * n) for n in range(3)]
    with database.begin() as connection:
        for moment in starts:
            connection.execute(
                sa.text("INSERT INTO broker.reason_counts VALUES (300, :at, 'p', 'pending', 'r', 5, 3, 0, 'full')"),
                {"at": moment},
            )
            connection.execute(
                sa.text("INSERT INTO broker.waiting_counts VALUES (300, :at, 'p', 'pending', 'r', 3, 2, 'full')"),
                {"at": moment},
            )
    with database.read_snapshot() as connection:
        reason_buckets = reason_counts.reason_counts(connection, NOW + timedelta(minutes=7), starts[2])
        assert [(bucket.bucket_at, bucket.decisions, bucket.chunks) for bucket in reason_buckets] == [(starts[1], 5, 3)]
        waiting_buckets = reason_counts.waiting_counts(connection, NOW, starts[2], ["p"])
        assert [(bucket.bucket_at, bucket.chunks, bucket.tasks) for bucket in waiting_buckets] == [
            (starts[0], 3, 2),
            (starts[1], 3, 2),
        ]
        assert [
            bucket.bucket_at for bucket in reason_counts.waited_at(connection, starts[2] - timedelta(seconds=1))
        ] == [starts[1]]
        assert not reason_counts.waited_at(connection, starts[2] + timedelta(hours=1, seconds=1))


@pytest.mark.parametrize(
    ("moment", "width_s", "start"),
    [
        (NOW, 300, NOW),
        (NOW + timedelta(seconds=299.9), 300, NOW),
        (NOW + timedelta(seconds=300), 300, NOW + timedelta(minutes=5)),
        (NOW - timedelta(microseconds=1), 3600, NOW - timedelta(hours=1)),
    ],
)
def test_a_bucket_starts_at_a_multiple_of_its_width(moment: datetime, width_s: int, start: datetime) -> None:
    assert bucket_of(moment, width_s) == start


def counts(queues: str, codes: str, stats: list[list[int]]) -> QueueCounts:
    table = np.array(stats, dtype=np.int64).reshape(len(codes), len(queues))
    return QueueCounts(tuple(queues), (*codes[:-1], CANDIDATE), table, table // 2, table[-1] * 10)


SIDES = st.tuples(
    st.sampled_from(["AB", "BA", "CB", "D"]), st.sampled_from(["x!", "yx!"]), st.lists(st.integers(0, 9), min_size=6)
).map(lambda one: counts(one[0], one[1], [one[2][: len(one[0])]] * len(one[1])))


@settings(max_examples=40)
@given(SIDES, SIDES)
def test_counts_add_up_for_any_queues_and_codes(left: QueueCounts, right: QueueCounts) -> None:
    total = left.plus(right)
    for name in ("decisions", "chunks", "jobs"):
        assert getattr(total, name).sum() == getattr(left, name).sum() + getattr(right, name).sum()
    by_cell = {(row.queue, row.code): row.decisions for row in total.rows()}
    for side in (left, right):
        for row in side.rows():
            assert by_cell[row.queue, row.code] >= row.decisions
    assert list(QueueCounts.unpack(total.pack()).rows()) == list(total.rows())


@pytest.mark.parametrize("data", [b"", b"\x02abc", b"\x01abc", QueueCounts.none("AB", "x").pack()[:-3]])
def test_damaged_counts_are_rejected(data: bytes) -> None:
    with pytest.raises(CountsCorruptError):
        QueueCounts.unpack(data)


def test_the_totals_of_a_queue(database: Database) -> None:
    with database.begin() as connection:
        for n in range(3):
            values = {
                "at": NOW + timedelta(minutes=5 * n),
                "counts": counts("AB", "x!", [[n, 1], [4, 0]]).pack(),
            }
            connection.execute(sa.text("INSERT INTO broker.queue_counts VALUES (300, :at, 'p', :counts)"), values)
    with database.read_snapshot() as connection:
        totals = reason_counts.queue_totals(connection, NOW, NOW + timedelta(minutes=10), queue="A")
        assert totals == {"p": [QueueCount("A", CANDIDATE, 8, 4, 80), QueueCount("A", "x", 1, 0, 0)]}
        assert reason_counts.queue_totals(connection, NOW, NOW + timedelta(minutes=10), queue="Z") == {"p": []}


def record(task: int, outcome: str, reason: str, *queues: str) -> DecisionRecord:
    candidates = tuple(Candidate(name, 1.0, {}) for name in queues)
    decision = Decision(task, 10 * task, None, "production_job", outcome, reason, candidates, {}, ())  # type: ignore[arg-type]
    return DecisionRecord(decision, dict.fromkeys(queues, 1))


def test_two_brokers_that_start_a_bucket_at_once_both_count(database: Database) -> None:
    """Each has a part of the work, and they share no reason on which they would wait for each other."""
    brokered, pending = [record(1, "brokered", "", "CERN")], [record(2, "pending", "full", "BNL")]

    def count(connection: sa.Connection, records: list[DecisionRecord], main: str) -> None:
        count_writing.add(Database.raw(connection), "production_job", NOW, records, [True], [main])

    def count_alone() -> None:
        with database.begin() as connection:
            count(connection, pending, "full")

    second_broker = threading.Thread(target=count_alone)
    with database.begin() as connection:
        count(connection, brokered, "")
        second_broker.start()
        waiting = sa.text("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'")
        wait_until(lambda: connection.execute(waiting).scalar_one() > 0, "the second broker waits for the first")
    second_broker.join()
    with database.begin() as connection:
        (data,) = connection.execute(sa.text("SELECT counts FROM broker.queue_counts")).scalars()
    assert bytes(data) == counts_of(brokered, [True]).plus(counts_of(pending, [True])).pack()


COUNTED = [  # width, minutes before NOW, outcome, chunks
    (300, 5, "brokered", 1),
    (300, 10, "pending", 2),
    (300, 15, "pending", 4),
    (300, 65, "brokered", 8),
    (3600, 3000, "brokered", 16),
]


def count(database: Database) -> None:
    statement = sa.text("""
        INSERT INTO broker.reason_counts (bucket_s, bucket_at, brokerage, outcome, reason, main_reason, decisions,
            chunks, jobs)
        VALUES (:width, :at, 'production_job', :outcome, '', '', 1, :chunks, 1)""")
    with database.begin() as connection:
        for width, minutes, outcome, chunks in COUNTED:
            at = NOW - timedelta(minutes=minutes)
            connection.execute(statement, {"width": width, "at": at, "outcome": outcome, "chunks": chunks})


def test_outcomes_are_summed_by_step(database: Database) -> None:
    count(database)
    with database.begin() as connection:
        hourly = reason_counts.outcome_counts(connection, NOW - timedelta(minutes=65), NOW, 3600.0)
        fine = reason_counts.outcome_counts(connection, NOW - timedelta(minutes=15), NOW, 600.0)
    eleven, ten = NOW - timedelta(hours=1), NOW - timedelta(hours=2)
    assert hourly == [(ten, "brokered", 8), (eleven, "brokered", 1), (eleven, "pending", 6)]
    minutes = [(round((NOW - at).total_seconds() / 60), outcome, chunks) for at, outcome, chunks in fine]
    assert minutes == [(20, "pending", 4), (10, "brokered", 1), (10, "pending", 2)]


@pytest.mark.parametrize(
    ("minutes_back", "first_back"),
    [(3001, 3000), (3000, 3000), (2999, 65), (65, 65), (64, 15), (5, 5), (4, None)],
)
def test_the_first_bucket_of_either_width_since_an_instant(
    shared_database: Database, minutes_back: int, first_back: int | None
) -> None:
    with shared_database.begin() as connection:
        connection.execute(sa.text("TRUNCATE broker.reason_counts"))
    count(shared_database)
    with shared_database.begin() as connection:
        bucket = first_bucket(connection, NOW - timedelta(minutes=minutes_back))
    assert bucket == (None if first_back is None else NOW - timedelta(minutes=first_back))
