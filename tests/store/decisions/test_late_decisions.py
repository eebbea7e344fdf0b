"""A decision that came too late to be written is recorded and changes nothing about its chunk."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta

import pytest

from broker.domain.decisions import DecisionRecord, Origin
from broker.history.statements.history_reads import read_record
from broker.store.connection.database import Database
from broker.store.decisions import decision_writing
from broker.store.decisions.decision_rows import latest
from broker.store.decisions.stored_cycles import stored_cycles
from broker.store.summaries.chunk_states import ChunkState, outcome_changes, read_states, waiting_by_reason
from broker.store.summaries.reason_counts import queue_totals, reason_counts
from broker.store.summaries.states_until import states_until
from tests.store.decisions.packed_records import START, brokered, waiting


def late(record: DecisionRecord, reason: str = "task_changed") -> DecisionRecord:
    decision = dataclasses.replace(record.decision, outcome="skipped", reason=reason)
    return dataclasses.replace(record, decision=decision, assigned={})


def at(minutes: int) -> datetime:
    return START + timedelta(minutes=minutes)


def store(database: Database, minutes: int, record: DecisionRecord) -> None:
    origin = Origin(minutes + 1, at(minutes), f"snapshot {minutes}", 3, 9, "1")
    with database.begin() as connection:
        decision_writing.save(Database.raw(connection), origin, [record])


def state(database: Database) -> ChunkState:
    with database.read_snapshot() as connection:
        (chunk_state,) = read_states(connection)
    return chunk_state


@pytest.mark.parametrize("before", [brokered(1), waiting(1)])
@pytest.mark.parametrize("reason", ["task_changed", "files_changed"])
def test_a_chunk_keeps_the_state_of_its_previous_decision(
    database: Database, before: DecisionRecord, reason: str
) -> None:
    store(database, 0, before)
    state_before = state(database)
    for minutes in (5, 10):
        store(database, minutes, late(brokered(1), reason))
    assert state(database) == state_before
    with database.read_snapshot() as connection:
        for until in (None, at(10)):
            (last,) = latest(connection, 1, until)
            assert (last.record.decision.outcome, last.origin.decided_at) == (before.decision.outcome, START)
        (past,) = states_until(connection, START - timedelta(hours=1), at(10))
        assert (past.outcome, past.reason) == (before.decision.outcome, before.decision.reason)
        assert outcome_changes(connection, START - timedelta(hours=1), at(10), least=2) == []
        outcomes = [entry.outcome for entry in read_record(connection, database.names, 1).decisions]
        assert outcomes == [before.decision.outcome, "skipped", "skipped"]
        assert [len(entry.decisions) for entry in stored_cycles(connection)] == [1, 1, 1]


def test_a_late_decision_does_not_end_a_wait(database: Database) -> None:
    for minutes, record in ((0, waiting(1)), (5, late(brokered(1))), (10, waiting(1))):
        store(database, minutes, record)
    chunk_state = state(database)
    assert (chunk_state.waiting_since, chunk_state.outcome_since, chunk_state.decisions) == (START, START, 2)


def test_a_chunk_with_only_a_late_decision_does_not_wait(database: Database) -> None:
    store(database, 0, late(brokered(1)))
    with database.read_snapshot() as connection:
        assert read_states(connection) == [] and waiting_by_reason(connection, at(1)) == []
        (last,) = latest(connection, 1)
        assert last.record.decision.reason == "task_changed"


def test_a_late_decision_counts_as_a_decision_and_not_as_a_chunk(database: Database) -> None:
    store(database, 0, late(brokered(1)))
    store(database, 1, brokered(1))
    with database.read_snapshot() as connection:
        reasons = reason_counts(connection, START - timedelta(hours=1), at(5))
        queues = queue_totals(connection, START - timedelta(hours=1), at(5))
    assert sorted((count.outcome, count.decisions, count.chunks) for count in reasons) == [
        ("brokered", 1, 1),
        ("skipped", 1, 0),
    ]
    (counts,) = queues.values()
    assert {(count.queue, count.code): (count.decisions, count.chunks) for count in counts} == {
        ("A", "candidate"): (2, 1),
        ("B", "full"): (2, 1),
    }
