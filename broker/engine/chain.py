"""A chain: the ordered rules of one brokerage, ready to run, each with the view of the tuning that it declared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from broker.gdpconfig import Tuning
from broker.rules.contract import (
    Filter,
    GroupFilter,
    LoadCut,
    LoadWeight,
    NucleusFilter,
    NucleusGroupFilter,
    NucleusLoadWeight,
    NucleusWeight,
    Rule,
    Weight,
)


class ChainError(ValueError):
    """The rules of a chain do not go together: two of one name, or a weight among the filters."""


@dataclass(frozen=True)
class RuleList:
    """The rules of a brokerage in the order in which they judge, whatever they judge.

    Attributes:
        brokerage: its name, as in ``broker run NAME``.
        kinds: for each list of rules, by the name of its field, what may stand in it.
    """

    kinds: ClassVar[dict[str, tuple[type[Rule], ...]]] = {}

    brokerage: str

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
        for name in self.kinds:
            yield from getattr(self, name)

    def tunings(self, tuning: Tuning) -> Mapping[str, Tuning]:
        """For each rule, by name, the tuning with only the keys that it declares."""
        return {rule.name: tuning.only(rule.keys) for rule in self}


@dataclass(frozen=True)
class Chain(RuleList):
    """The rules of a job brokerage.

    Attributes:
        filters: on the grid as the snapshot shows it.
        weights: factors that stay as they are within a cycle.
        load_weights: factors that move with the jobs that the cycle places.
        cuts: filters on load and weight, after weighing.
    """

    kinds = {  # noqa: RUF012 - declared as a class variable above
        "filters": (Filter, GroupFilter),
        "weights": (Weight,),
        "load_weights": (LoadWeight,),
        "cuts": (LoadCut,),
    }

    filters: tuple[Filter | GroupFilter, ...]
    weights: tuple[Weight, ...]
    load_weights: tuple[LoadWeight, ...]
    cuts: tuple[LoadCut, ...]


@dataclass(frozen=True)
class NucleusChain(RuleList):
    """The rules of a task brokerage.

    Attributes:
        filters: on the nuclei as the snapshot shows them.
        weights: factors that stay as they are within a cycle.
        load_weights: factors that move with the tasks that the cycle places.
    """

    kinds = {  # noqa: RUF012 - declared as a class variable above
        "filters": (NucleusFilter, NucleusGroupFilter),
        "weights": (NucleusWeight,),
        "load_weights": (NucleusLoadWeight,),
    }

    filters: tuple[NucleusFilter | NucleusGroupFilter, ...]
    weights: tuple[NucleusWeight, ...]
    load_weights: tuple[NucleusLoadWeight, ...]
