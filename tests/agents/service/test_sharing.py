"""Parts of an agent are spread over the brokers that are alive, and taken over from brokers that died."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from agents.service import leadership
from agents.service.leadership import LeaseKeeper
from broker.domain.parts import division_of
from broker.store.connection.database import Database
from broker.store.service import services
from broker.store.service.leases import LeaseTerms

NAMES = division_of("a#1/2")


class Clock:
    """A monotonic clock that is moved by hand."""

    def __init__(self) -> None:
        self.s = 1000.0

    def __call__(self) -> float:
        return self.s


class Brokers:
    """Brokers that check their leases only when the test says so."""

    def __init__(self, database: Database) -> None:
        self.database, self.clock = database, Clock()
        self.keepers: dict[str, LeaseKeeper] = {}

    def start(self, holder: str, parts: int = 2) -> LeaseKeeper:
        keeper = self.keepers[holder] = LeaseKeeper(self.database, holder, LeaseTerms(), self.clock)
        for name in division_of(f"a#1/{parts}"):
            keeper.want(name)
        self.beat(holder, parts)
        return keeper

    def beat(self, holder: str, parts: int = 2) -> None:
        with self.database.begin() as connection:
            services.beat(connection, holder, "host", "1", ["a"], {"parts": {"a": parts}})

    def die(self, holder: str) -> None:
        """Make its last heartbeat older than a lease, and let its leases expire."""
        del self.keepers[holder]
        with self.database.begin() as connection:
            for query in (
                "UPDATE broker.services SET seen_at = clock_timestamp() - interval '16 s' WHERE holder = :h",
                "UPDATE broker.leases SET expires_at = clock_timestamp() WHERE holder = :h",
            ):
                connection.execute(sa.text(query), {"h": holder})

    def parts_of(self, holder: str) -> list[str]:
        return [name for name in NAMES if self.keepers[holder].lease(name) is not None]


@pytest.fixture
def brokers(shared_database: Database) -> Brokers:
    with shared_database.begin() as connection:
        connection.execute(sa.text("DELETE FROM broker.leases"))
        connection.execute(sa.text("DELETE FROM broker.services"))
    return Brokers(shared_database)


@pytest.mark.parametrize(("parts", "others", "fair"), [(2, 0, 2), (2, 1, 1), (3, 1, 2), (2, 5, 1), (8, 2, 3)])
def test_the_fair_number(parts: int, others: int, fair: int) -> None:
    assert leadership.fair_number(f"a#1/{parts}", others) == fair


def test_only_brokers_with_the_same_division_count() -> None:
    divisions = {"me": {"a": 2}, "one": {"a": 2}, "two": {"a": 3}, "three": {}, "four": {"b": 2}}
    assert leadership.brokers_beside("a#1/2", "me", divisions) == 1


def test_one_broker_alone_takes_every_part_at_once(brokers: Brokers) -> None:
    brokers.start("one").tick()
    assert brokers.parts_of("one") == list(NAMES)


def test_two_brokers_have_one_part_each(brokers: Brokers) -> None:
    first, second = brokers.start("one"), brokers.start("two")
    first.tick()
    second.tick()
    assert (brokers.parts_of("one"), brokers.parts_of("two")) == ([NAMES[0]], [NAMES[1]])
    for keeper, name in ((first, NAMES[0]), (second, NAMES[1])):
        assert not keeper.hand_over(name)


def test_a_newcomer_is_handed_a_part_after_a_cycle(brokers: Brokers) -> None:
    first = brokers.start("one")
    first.tick()
    assert not first.hand_over(NAMES[0])
    second = brokers.start("two")
    second.tick()
    assert brokers.parts_of("two") == []
    assert first.hand_over(NAMES[0])
    assert not first.hand_over(NAMES[1])
    first.tick()
    second.tick()
    assert (brokers.parts_of("one"), brokers.parts_of("two")) == ([NAMES[1]], [NAMES[0]])


def test_the_part_of_a_broker_that_died_is_taken_over_at_once(brokers: Brokers) -> None:
    first, second = brokers.start("one"), brokers.start("two")
    first.tick()
    second.tick()
    brokers.die("two")
    first.tick()
    assert brokers.parts_of("one") == list(NAMES)


def test_a_part_that_a_living_broker_does_not_take_is_taken_after_a_while(brokers: Brokers) -> None:
    first = brokers.start("one")
    brokers.start("two")
    first.tick()
    assert brokers.parts_of("one") == [NAMES[0]]
    for _ in range(3):
        brokers.clock.s += 4.9
        first.tick()
    assert brokers.parts_of("one") == [NAMES[0]]
    brokers.clock.s += 0.4
    first.tick()
    assert brokers.parts_of("one") == list(NAMES)


def test_a_broker_with_another_division_waits_until_all_parts_are_free(brokers: Brokers) -> None:
    first, newcomer = brokers.start("one"), brokers.start("other", parts=3)
    first.tick()
    newcomer.tick()
    assert brokers.parts_of("one") == list(NAMES)
    assert [newcomer.lease(name) for name in division_of("a#1/3")] == [None] * 3
    first.give_up(NAMES[0])
    first.tick()
    newcomer.tick()
    assert newcomer.lease("a#1/3") is None
    first.give_up(NAMES[1])
    first.tick()
    newcomer.tick()
    assert all(newcomer.lease(name) for name in division_of("a#1/3"))


def test_an_agent_that_is_not_divided_is_never_handed_over(brokers: Brokers) -> None:
    keeper = brokers.start("one")
    assert keeper.acquire("b") is not None
    assert not keeper.hand_over("b")
