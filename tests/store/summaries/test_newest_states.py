"""The newest of the last decisions, and how many there are: no more is read than is shown."""

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


def many(database: Database) -> None:
    """Of each of two brokerages as many that wait, and of one as many that are brokered."""
    add(
        database,
        {"jeditaskid": 1, "decision": 3},
        {"jeditaskid": 2, "decision": 1, "last_seen_at": NOW - DAY / 2, **BROKERED},
        {"jeditaskid": 3, "decision": 2, "brokerage": "analysis_job", "last_seen_at": NOW - DAY / 4},
    )
    with database.begin() as connection:
        connection.execute(_COPIES, {"more": MANY - 1})
    add(database, {"jeditaskid": 4, "decision": 9999, "last_seen_at": NOW - DAY})


def numbers(found: Iterable[ChunkState]) -> list[int]:
    return [one.decision for one in found]


def test_so_many_of_each_kind_are_read_and_all_are_counted(database: Database) -> None:
    many(database)
    with database.read_snapshot() as connection:
        found = newest_states(connection, NOW - DAY, 5, brokered=True)
        waiting = newest_states(connection, NOW - DAY, 5, brokered=False)
    assert {(one.brokerage, one.is_brokered): (one.states, one.last_seen_at) for one in found} == {
        ("production_job", False): (MANY, NOW),
        ("production_job", True): (MANY, NOW - DAY / 2),
        ("analysis_job", False): (MANY, NOW - DAY / 4),
    }
    first = 10 * (MANY - 1)
    newest = {(one.brokerage, one.is_brokered): [each.decision for each in one.newest] for one in found}
    assert newest["production_job", False] == [first + 3 - 10 * n for n in range(5)]
    assert all(len(one.newest) == 5 for one in found)
    assert {one.is_brokered: len(one.newest) for one in waiting} == {False: 5, True: 0}
    assert [one.states for one in waiting] == [one.states for one in found]


def test_the_newest_are_those_of_the_list_of_all(database: Database) -> None:
    many(database)

    def of_all(brokerage: str, now: datetime) -> tuple[int, datetime, list[int], list[int]]:
        own = [one for one in chunk_states(connection, now) if one.brokerage == brokerage]
        waiting = sorted(numbers(one for one in own if one.outcome != "brokered"), reverse=True)
        brokered = sorted(numbers(one for one in own if one.outcome == "brokered"), reverse=True)
        return len(waiting), max(one.decided_at for one in own), waiting[:MOST_READ], brokered[:MOST_READ]

    with database.read_snapshot() as connection:
        found = last_states(connection, NOW)
        assert set(found) == {"production_job", "analysis_job"}
        for name, some in found.items():
            waiting = numbers(one for one in some.newest if one.outcome != "brokered")
            brokered = numbers(one for one in some.newest if one.outcome == "brokered")
            assert (some.waiting, some.decided_at, waiting, brokered) == of_all(name, NOW)
        alone = last_states(connection, NOW, brokered=False)["production_job"]
    assert (len(alone.newest), alone.waiting, alone.decided_at) == (MOST_READ, MANY, NOW)
