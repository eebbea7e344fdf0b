"""The newest of the last decisions and their number: no more states are read than shown."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

import sqlalchemy as sa

from broker.history.answers.stored_states import MOST_READ, ChunkState, chunk_states, last_states
from broker.store.connection.database import Database
from broker.store.summaries.newest_states import newest_states
from tests.store.summaries.test_decision_summaries import BROKERED, NOW, add

DAY = timedelta(days=1)
MANY = 450
_COPIES = sa.text("""
    INSERT INTO broker.chunk_states
    SELECT (s).* FROM (SELECT jsonb_populate_record(one, jsonb_build_object('jeditaskid', one.jeditaskid + 10 * n,
        'decision', one.decision + 10 * n)) AS s
        FROM broker.chunk_states AS one, generate_series(1, :more) AS n) AS copied""")


def add_many_states(database: Database) -> None:
    """Add ``MANY`` waiting states for each of two brokerages, and ``MANY`` brokered states for one."""
    add(
        database,
        {"jeditaskid": 1, "decision": 3},
        {"jeditaskid": 2, "decision": 1, "last_seen_at": NOW - DAY / 2, **BROKERED},
        {"jeditaskid": 3, "decision": 2, "brokerage": "analysis_job", "last_seen_at": NOW - DAY / 4},
    )
    with database.begin() as connection:
        connection.execute(_COPIES, {"more": MANY - 1})
    add(database, {"jeditaskid": 4, "decision": 9999, "last_seen_at": NOW - DAY})


def numbers(states: Iterable[ChunkState]) -> list[int]:
    return [state.decision for state in states]


def test_a_limited_number_of_each_kind_is_read_and_all_are_counted(database: Database) -> None:
    add_many_states(database)
    with database.read_snapshot() as connection:
        groups = newest_states(connection, NOW - DAY, 5, brokered=True)
        waiting = newest_states(connection, NOW - DAY, 5, brokered=False)
    assert {(group.brokerage, group.is_brokered): (group.states, group.last_seen_at) for group in groups} == {
        ("production_job", False): (MANY, NOW),
        ("production_job", True): (MANY, NOW - DAY / 2),
        ("analysis_job", False): (MANY, NOW - DAY / 4),
    }
    first = 10 * (MANY - 1)
    newest = {(group.brokerage, group.is_brokered): [state.decision for state in group.newest] for group in groups}
    assert newest["production_job", False] == [first + 3 - 10 * n for n in range(5)]
    assert all(len(group.newest) == 5 for group in groups)
    assert {group.is_brokered: len(group.newest) for group in waiting} == {False: 5, True: 0}
    assert [group.states for group in waiting] == [group.states for group in groups]


def test_the_newest_states_are_the_newest_in_the_full_list(database: Database) -> None:
    add_many_states(database)

    def expected(brokerage: str, now: datetime) -> tuple[int, datetime, list[int], list[int]]:
        own_states = [state for state in chunk_states(connection, now) if state.brokerage == brokerage]
        waiting = sorted(numbers(state for state in own_states if state.outcome != "brokered"), reverse=True)
        brokered = sorted(numbers(state for state in own_states if state.outcome == "brokered"), reverse=True)
        return len(waiting), max(state.decided_at for state in own_states), waiting[:MOST_READ], brokered[:MOST_READ]

    with database.read_snapshot() as connection:
        newest_by_name = last_states(connection, NOW)
        assert set(newest_by_name) == {"production_job", "analysis_job"}
        for name, newest in newest_by_name.items():
            waiting = numbers(entry for entry in newest.newest if entry.outcome != "brokered")
            brokered = numbers(entry for entry in newest.newest if entry.outcome == "brokered")
            assert (newest.waiting, newest.decided_at, waiting, brokered) == expected(name, NOW)
        waiting_only = last_states(connection, NOW, brokered=False)["production_job"]
    assert (len(waiting_only.newest), waiting_only.waiting, waiting_only.decided_at) == (MOST_READ, MANY, NOW)
