"""Unchanged decisions get no new row; they are counted and shown, and whole cycles can be read back."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
import sqlalchemy as sa

from broker.domain.decisions import DecisionRecord, Origin
from broker.domain.rejection_counts import QueueCount
from broker.history.statements.history_reads import read_record
from broker.store.connection.database import Database
from broker.store.decisions import decision_writing
from broker.store.decisions.decision_rows import latest
from broker.store.decisions.stored_cycles import StoredCycle, stored_cycles
from broker.store.summaries.chunk_states import ChunkState, outcome_changes, read_states
from broker.store.summaries.reason_counts import queue_buckets, queue_totals, reason_counts, waited_at
from tests.store.decisions.packed_records import START, brokered, waiting


@pytest.fixture
def cycle(database: Database) -> Callable[..., None]:
    """Store the decisions of a cycle in batches, this many minutes after the start."""

    def store(minutes: float, *batches: list[DecisionRecord], tuning: int = 3, only_recorded: bool = False) -> None:
        now = START + timedelta(minutes=minutes)
        origin = Origin(int(minutes) + 1, now, f"snapshot {minutes}", tuning, 9, "1", only_recorded=only_recorded)
        for batch in batches:
            until = now + timedelta(minutes=30)
            records = [dataclasses.replace(record, pending_until=until) for record in batch]
            with database.begin() as connection:
                assert decision_writing.save(Database.raw(connection), origin, records) == len(batch)

    return store


def count_rows(database: Database) -> int:
    with database.read_snapshot() as connection:
        return int(connection.execute(sa.text("SELECT count(*) FROM broker.decisions")).scalar_one())


def cycles(database: Database) -> list[StoredCycle]:
    with database.read_snapshot() as connection:
        return list(stored_cycles(connection))


def states(database: Database) -> dict[int, ChunkState]:
    with database.read_snapshot() as connection:
        return {chunk_state.jeditaskid: chunk_state for chunk_state in read_states(connection)}


def test_an_unchanged_decision_is_counted_on_its_row(database: Database, cycle: Callable[..., None]) -> None:
    for minutes in (0, 5, 10):
        cycle(minutes, [waiting(1), waiting(2)])
    assert count_rows(database) == 2
    with database.read_snapshot() as connection:
        (stored_decision,) = latest(connection, 1)
        lines = read_record(connection, database.names, 1).decisions
    assert (stored_decision.seen_again, stored_decision.last_agent_run) == (2, 11)
    assert stored_decision.last_seen_at == START + timedelta(minutes=10)
    assert stored_decision.record.pending_until == START + timedelta(minutes=40)
    assert [(line.seen_again, line.last_seen_at) for line in lines] == [(2, stored_decision.last_seen_at)]
    state = states(database)[1]
    assert (state.decisions, state.seen_again, state.outcome_since, state.waiting_since) == (3, 2, START, START)
    assert state.pending_until == START + timedelta(minutes=40)


@pytest.mark.parametrize(
    "changed_record",
    [
        waiting(1, 0, 1, 1),
        waiting(1, reason="other"),
        dataclasses.replace(waiting(1), assigned={"B": 1}),
        brokered(1),
    ],
)
def test_a_changed_decision_gets_a_new_row(
    database: Database, cycle: Callable[..., None], changed_record: DecisionRecord
) -> None:
    cycle(0, [waiting(1)])
    cycle(5, [waiting(1)])
    cycle(10, [changed_record])
    assert count_rows(database) == 2
    first, second = (stored_cycle.decisions[0] for stored_cycle in (cycles(database)[0], cycles(database)[2]))
    assert (first.seen_again, first.last_seen_at) == (1, START + timedelta(minutes=5))
    assert (second.seen_again, second.last_seen_at) == (0, None)
    with database.read_snapshot() as connection:
        assert [stored_decision.id for stored_decision in latest(connection, 1)] == [second.id]
        assert [stored_decision.id for stored_decision in latest(connection, 1, START + timedelta(minutes=7))] == [
            first.id
        ]


def test_another_tuning_version_and_another_day_get_new_rows(database: Database, cycle: Callable[..., None]) -> None:
    cycle(0, [waiting(1)])
    cycle(5, [waiting(1)], tuning=4)
    assert count_rows(database) == 2
    cycle(12 * 60 - 0.01, [waiting(1)], tuning=4)
    assert count_rows(database) == 2
    cycle(12 * 60, [waiting(1)], tuning=4)
    assert count_rows(database) == 3
    assert states(database)[1].outcome_since == START


def test_two_decisions_at_the_same_instant_get_two_rows(database: Database, cycle: Callable[..., None]) -> None:
    cycle(0, [waiting(1)])
    cycle(0, [waiting(1)])
    assert count_rows(database) == 2


def test_jobs_with_other_files_are_not_a_repetition(database: Database, cycle: Callable[..., None]) -> None:
    cycle(0, [brokered(1)])
    cycle(5, [brokered(1)])
    assert count_rows(database) == 1
    cycle(10, [brokered(1, work=b"other files")])
    assert count_rows(database) == 2


def test_recorded_only_decisions_with_other_files_are_a_repetition(
    database: Database, cycle: Callable[..., None]
) -> None:
    """Alongside JEDI the files may differ, and each cycle is read back with its own."""
    cycle(0, [brokered(1)], only_recorded=True)
    cycle(5, [brokered(1, work=b"other files")], only_recorded=True)
    assert count_rows(database) == 1
    assert [stored_cycle.decisions[0].record.work for stored_cycle in cycles(database)][1] == b"other files"
    assert states(database)[1].pending_until == START + timedelta(minutes=35)


def test_a_deleted_row_is_written_again(database: Database, cycle: Callable[..., None]) -> None:
    cycle(0, [waiting(1)])
    with database.begin() as connection:
        connection.execute(sa.text("DELETE FROM broker.decisions"))
    cycle(5, [waiting(1)])
    assert count_rows(database) == 1


def test_a_cycle_is_read_back_whole_in_order_and_with_its_own_work(
    database: Database, cycle: Callable[..., None]
) -> None:
    cycle(0, [waiting(1), waiting(2), waiting(3)], [waiting(4)])
    cycle(5, [waiting(1), waiting(2, 1, 1, 1), waiting(3, work=b"w2", figure=5.5)], [waiting(9), waiting(4)])
    cycle(10, [waiting(3, work=b"w2"), waiting(5), waiting(1)])
    assert count_rows(database) == 7
    first, second, third = cycles(database)
    task_ids = [
        [stored_decision.record.decision.jeditaskid for stored_decision in stored_cycle.decisions]
        for stored_cycle in (first, second, third)
    ]
    assert task_ids == [[1, 2, 3, 4], [1, 2, 3, 9, 4], [3, 5, 1]]
    assert [stored_decision.record.work for stored_decision in second.decisions] == [
        b"work",
        b"work",
        b"w2",
        b"work",
        b"work",
    ]
    assert second.decisions[2].record.decision.notes == ("source_stale:links", "seen:B nQ=5.5")
    assert first.decisions[2].record.decision.notes[1] == third.decisions[0].record.decision.notes[1] == "seen:B nQ=1"
    assert {stored_decision.origin.snapshot for stored_decision in second.decisions} == {"snapshot 5"}
    assert {stored_decision.origin.agent_run for stored_decision in third.decisions} == {11}
    assert second.decisions[0].record.pending_until == START + timedelta(minutes=35)


def test_an_earlier_instant_does_not_replace_a_newer_state(database: Database, cycle: Callable[..., None]) -> None:
    cycle(10, [waiting(1)])
    cycle(0, [waiting(1, 1, 1, 1, reason="then")])
    assert states(database)[1].reason == "none"
    with database.read_snapshot() as connection:
        (stored_decision,) = latest(connection, 1)
    assert stored_decision.record.decision.reason == "none"


def test_decisions_are_counted_by_reason_and_by_queue(database: Database, cycle: Callable[..., None]) -> None:
    cycle(0, [waiting(1), waiting(2)], [brokered(3)])
    cycle(1, [waiting(1), waiting(2, reason="other")])
    with database.read_snapshot() as connection:
        reasons = reason_counts(connection, START, START + timedelta(minutes=5))
        totals = queue_totals(connection, START, START + timedelta(minutes=5))
        waiting_counts = waited_at(connection, START + timedelta(minutes=4))
    assert [(count.outcome, count.reason, count.decisions, count.chunks, count.jobs) for count in reasons] == [
        ("brokered", "", 1, 1, 7),
        ("pending", "none", 3, 2, 0),
        ("pending", "other", 1, 1, 0),
    ]
    assert totals == {
        "production_job": [
            QueueCount("B", "full", 5, 4, 0),
            QueueCount("A", "offline", 4, 3, 0),
            QueueCount("A", "candidate", 1, 1, 7),
        ]
    }
    assert [(count.reason, count.chunks, count.tasks) for count in waiting_counts] == [("none", 1, 1), ("other", 1, 1)]


@pytest.mark.parametrize(
    ("steps", "reason", "main"),
    [
        ((0, 0, 1), "none", "none"),
        ((0, 0, 1), "no_candidates", "full"),  # one queue each: the later rule wins a tie
        ((1, 0, 0), "no_candidates", "full"),  # the code of the candidate of A rejected last
        ((0, 0, 0), "no_candidates", "offline"),
        ((-2, -2, -2), "no_candidates", "no_candidates"),
    ],
)
def test_the_main_reason_is_the_code_that_rejected_most_queues(
    database: Database, cycle: Callable[..., None], steps: tuple[int, ...], reason: str, main: str
) -> None:
    cycle(0, [waiting(1, *steps, reason=reason)])
    assert states(database)[1].main_reason == main


def test_the_number_of_changes_of_a_chunk_is_known_without_its_decisions(
    database: Database, cycle: Callable[..., None]
) -> None:
    for minutes in range(40):
        cycle(minutes, [brokered(1) if minutes % 2 else waiting(1), waiting(2)])

    def changes(first: int, last: int) -> list[tuple[int, int, datetime]]:
        span = START + timedelta(minutes=first), START + timedelta(minutes=last)
        with database.read_snapshot() as connection:
            return [
                (outcome_change.jeditaskid, outcome_change.changes, outcome_change.first_at)
                for outcome_change in outcome_changes(connection, *span)
            ]

    assert changes(30, 60) == [(1, 9, START + timedelta(minutes=31))]
    assert changes(30, 35) == [(1, 5, START + timedelta(minutes=31))]
    assert changes(-60, 60) == [(1, 32, START + timedelta(minutes=8))]  # only the last 32 changes are stored
    assert changes(39, 60) == []


def test_a_past_hour_is_one_row_until_a_late_count(database: Database, cycle: Callable[..., None]) -> None:
    def buckets_and_decisions() -> tuple[int, int]:
        span = START - timedelta(hours=2), START + timedelta(hours=10)
        with database.read_snapshot() as connection:
            hours = list(queue_buckets(connection, *span))
            return len(hours), sum(int(bucket.counts.decisions.sum()) for bucket in hours)

    for minutes in (0, 5, 10):
        cycle(minutes, [waiting(1)])
    buckets, decisions = buckets_and_decisions()
    assert buckets == 3
    cycle(65, [waiting(1)])
    assert buckets_and_decisions() == (2, decisions // 3 * 4)
    cycle(15, [waiting(2)])  # late
    assert buckets_and_decisions() == (5, decisions // 3 * 5)
    cycle(70, [waiting(1)])
    assert buckets_and_decisions() == (3, decisions // 3 * 6)


@pytest.mark.slow
def test_10000_unchanged_chunks_of_a_day_take_less_than_100_mb(database: Database, cycle: Callable[..., None]) -> None:
    """A tenth of the chunks, every half hour, takes a tenth of the space."""
    records = [waiting(task, work=b"w" * 1000) for task in range(1, 1001)]
    for half_hours in range(24):
        cycle(30 * half_hours, records[:500], records[500:])
    assert count_rows(database) == 1000 and len(cycles(database)[-1].decisions) == 1000
    tables = ("decisions_default", "decision_repeats", "chunk_states", "queue_counts")
    assert sum(size_of_rows(database, table) for table in tables) < 5_000_000


def size_of_rows(database: Database, table: str) -> int:
    """Return the bytes of a fresh copy of the table and its indexes; the server decides when it frees replaced rows."""
    with database.begin() as connection:
        connection.execute(sa.text(f"CREATE TABLE broker.copy_of_rows (LIKE broker.{table} INCLUDING ALL)"))
        connection.execute(sa.text(f"INSERT INTO broker.copy_of_rows SELECT * FROM broker.{table}"))
        size = connection.execute(sa.text("SELECT pg_total_relation_size('broker.copy_of_rows')")).scalar_one()
        connection.execute(sa.text("DROP TABLE broker.copy_of_rows"))
    return int(size)
