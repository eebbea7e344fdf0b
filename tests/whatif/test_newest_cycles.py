"""The cycles of a preview: the newest of each brokerage, and further ones until there are enough decisions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from broker.domain.decisions import Origin
from broker.store.decisions.stored_cycles import CycleKey
from broker.whatif.answers.stored_cases import newest_keys

BEGIN = datetime(2026, 8, 1, tzinfo=UTC)
SIZES = [("job", 50), ("task", 9), ("job", 60), ("job", 70), ("task", 1), ("job", 2)]
"""Oldest first."""


def keys() -> list[CycleKey]:
    return [
        CycleKey(name, Origin(number, BEGIN + timedelta(minutes=number), "s", 1, 1, "1"), size)
        for number, (name, size) in enumerate(SIZES)
    ]


@pytest.mark.parametrize(
    ("count", "decisions", "chosen"),
    [
        (1, 0, [4, 5]),
        (2, 0, [1, 3, 4, 5]),
        (1, 3, [4, 5]),
        (1, 4, [3, 4, 5]),
        (1, 73, [3, 4, 5]),
        (1, 74, [2, 3, 4, 5]),
        (2, 83, [1, 2, 3, 4, 5]),
        (1, 10_000, [0, 1, 2, 3, 4, 5]),
        (9, 1, [0, 1, 2, 3, 4, 5]),
    ],
)
def test_the_newest_cycles_and_further_ones_until_the_decisions_suffice(
    count: int, decisions: int, chosen: list[int]
) -> None:
    assert [key.origin.agent_run for key in newest_keys(keys(), count, decisions)] == chosen


def test_all_cycles_since_an_instant_are_included() -> None:
    def chosen(minutes: int, count: int = 1, decisions: int = 0) -> list[int | None]:
        chosen_keys = newest_keys(keys(), count, decisions, BEGIN + timedelta(minutes=minutes))
        return [key.origin.agent_run for key in chosen_keys]

    assert chosen(9) == [4, 5] and chosen(2) == [2, 3, 4, 5] and chosen(0) == [0, 1, 2, 3, 4, 5]
    assert chosen(3, decisions=74) == [2, 3, 4, 5]


def test_without_cycles_none_are_chosen() -> None:
    assert newest_keys([], 3, 200) == []
