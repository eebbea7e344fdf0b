"""A chain: the ordered rules of one brokerage, ready to run, each with the view of the tuning that it declared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from broker.gdpconfig import Tuning
from broker.rules.contract import Filter, GroupFilter, LoadCut, LoadWeight, Rule, Weight


class ChainError(ValueError):
    """The rules of a chain do not go together: two of one name, or a weight among the filters."""


@dataclass(frozen=True)
class Chain:
    """The rules of a brokerage in the order in which they judge.

    Attributes:
        brokerage: its name, as in ``broker run NAME``.
        filters: on the grid as the snapshot shows it.
        weights: factors that stay as they are within a cycle.
        load_weights: factors that move with the jobs that the cycle places.
        cuts: filters on load and weight, after weighing.
    """

    brokerage: str
    filters: tuple[Filter | GroupFilter, ...]
    weights: tuple[Weight, ...]
    load_weights: tuple[LoadWeight, ...]
    cuts: tuple[LoadCut, ...]

    def __post_init__(self) -> None:
        """Refuse two rules of one name.

        Raises:
            ChainError: the same name twice.
        """
        seen: set[str] = set()
        for rule in self:
            if rule.name in seen:
                raise ChainError(f"{self.brokerage}: the rule {rule.name} is there twice; name it once in the profile")
            seen.add(rule.name)

    def __iter__(self) -> Iterator[Rule]:
        """All rules, in order."""
        yield from self.filters
        yield from self.weights
        yield from self.load_weights
        yield from self.cuts

    def tunings(self, tuning: Tuning) -> Mapping[str, Tuning]:
        """For each rule, by name, the tuning with only the keys that it declares."""
        return {rule.name: tuning.only(rule.keys) for rule in self}
