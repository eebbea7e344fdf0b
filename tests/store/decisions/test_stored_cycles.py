"""Stored cycles are read back whole."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from broker.domain.decisions import Decision, DecisionRecord, Origin, StoredOutcome
from broker.store.connection.database import Database
from broker.store.decisions import decision_writing as decisions
from broker.store.decisions.stored_cycles import (
    NoSuchDecision,
    cycle_keys,
    decided_works,
    one_decision,
    read_cycle,
    stored_cycles,
)

NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)


def save(database: Database, run: int | None, hours: int, tasks: list[int], brokerage: str = "production_job") -> None:
    origin = Origin(run, NOON + timedelta(hours=hours), f"snapshot {hours}", 3, 9, "1")
    records = [
        DecisionRecord(Decision(task, 1, None, brokerage, "pending", "why", (), {}, ()), work=b"w") for task in tasks
    ]
    with database.begin() as connection:
        decisions.save(Database.raw(connection), origin, records)


@pytest.fixture
def cycle_database(database: Database) -> Database:
    save(database, 1, 0, [5, 3, 4])
    save(database, 2, 1, [9], "production_task")
    save(database, None, 2, [3])
    save(database, 1, 0, [2])  # a second batch of the first cycle
    return database


def tasks(database: Database, **filters: object) -> list[list[int]]:
    with database.begin() as connection:
        cycles_read = list(stored_cycles(connection, **filters))  # type: ignore[arg-type]
    return [[decision.record.decision.jeditaskid for decision in cycle.decisions] for cycle in cycles_read]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, [[5, 3, 4, 2], [9], [3]]),
        ({"since": NOON + timedelta(hours=1)}, [[9], [3]]),
        ({"since": NOON + timedelta(hours=1, seconds=1)}, [[3]]),
        ({"until": NOON}, [[5, 3, 4, 2]]),
        ({"until": NOON - timedelta(seconds=1)}, []),
        ({"snapshot": "snapshot 1"}, [[9]]),
        ({"brokerages": ["production_job"]}, [[5, 3, 4, 2], [3]]),
        ({"brokerages": []}, []),
    ],
)
def test_cycles_are_read_whole_and_in_order(
    cycle_database: Database, filters: dict[str, object], expected: list[list[int]]
) -> None:
    assert tasks(cycle_database, **filters) == expected


def test_a_cycle_has_the_common_values_of_its_decisions(cycle_database: Database) -> None:
    with cycle_database.begin() as connection:
        first = cycle_keys(connection)[0]
        assert (first.brokerage, first.size, first.origin.agent_run) == ("production_job", 4, 1)
        assert (first.origin.snapshot, first.origin.tuning, first.origin.seed) == ("snapshot 0", 3, 9)
        cycle = next(stored_cycles(connection))
        assert cycle.origin == first.origin and {decision.origin for decision in cycle.decisions} == {first.origin}
        assert cycle.decisions[0].record.work == b"w"


def test_one_decision_is_read_by_id(cycle_database: Database) -> None:
    with cycle_database.begin() as connection:
        expected = next(stored_cycles(connection)).decisions[1]
        assert one_decision(connection, expected.id) == expected
        with pytest.raises(NoSuchDecision, match="no decision 99"):
            one_decision(connection, 99)


def test_a_row_without_tuning_seed_or_engine_is_found_by_its_key(cycle_database: Database) -> None:
    with cycle_database.begin() as connection:
        connection.exec_driver_sql("UPDATE broker.decisions SET tuning = NULL, seed = NULL, engine = NULL")
        keys = cycle_keys(connection)
        assert [len(decided_works(connection, key)) for key in keys] == [key.size for key in keys] == [4, 1, 1]
        assert [len(read_cycle(connection, key).decisions) for key in keys] == [4, 1, 1]


def test_the_work_of_a_cycle_is_the_same_with_and_without_explanations(cycle_database: Database) -> None:
    with cycle_database.begin() as connection:
        for key in cycle_keys(connection):
            records = [decision.record for decision in read_cycle(connection, key).decisions]
            assert decided_works(connection, key) == [
                StoredOutcome(record.decision.outcome, record.decision.reason, record.assigned, record.work or b"")
                for record in records
            ]
