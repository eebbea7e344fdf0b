"""A chain: the ordered rules of one brokerage, ready to run, each with the view of the tuning that it declared."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from broker.engine.compiled.loop_steps import step_fault
from broker.engine.job.steps import JobSteps
from broker.engine.shared.filter_cache import AlikeRules
from broker.engine.task.steps import TaskSteps
from broker.gdpconfig import Tuning
from broker.rules.contract import (
    AnyPairs,
    Configurable,
    Filter,
    GroupFilter,
    JobPairs,
    LoadCut,
    LoadWeight,
    NucleusLoadWeight,
    Rule,
    Step,
    TaskPairs,
    Weight,
)

ListT = TypeVar("ListT", bound="RuleChain")
PairsT = TypeVar("PairsT", bound=AnyPairs)
LoadT = TypeVar("LoadT", bound=Rule)


class RuleChainError(ValueError):
    """The rules of a chain do not go together: two of one name, or a weight among the filters."""


@dataclass(frozen=True)
class RuleChain:
    """The rules of a brokerage in the order in which they judge, whatever they judge.

    Attributes:
        brokerage: its name, as in ``broker run NAME``.
        kinds: for each list of rules, by the name of its field, the types that it may hold.
        judges: the pairs that the rules of the brokerage judge.
    """

    kinds: ClassVar[dict[str, tuple[type[Rule], ...]]] = {}
    judges: ClassVar[type[AnyPairs]] = JobPairs

    brokerage: str

    def __post_init__(self) -> None:
        """Refuse two rules of one name, and a rule that reads facts which the brokerage does not gather.

        Raises:
            RuleChainError: the same name twice, a rule of another brokerage, or a rule that differs from its compiled
                step.
        """
        seen: set[str] = set()
        for rule in self:
            if not issubclass(self.judges, rule.judges):
                raise RuleChainError(
                    f"{self.brokerage}: the rule {rule.name} judges {rule.judges.__name__}, and there are only "
                    f"{self.judges.__name__}; it belongs to another brokerage"
                )
            if rule.name in seen:
                raise RuleChainError(
                    f"{self.brokerage}: the rule {rule.name} is there twice; name it once in the profile"
                )
            if fault := step_fault(rule):
                raise RuleChainError(f"{self.brokerage}: the rule {rule.name} {fault}")
            seen.add(rule.name)

    def __iter__(self) -> Iterator[Rule]:
        """All rules, in order."""
        for name in self.kinds:
            yield from getattr(self, name)

    @property
    def named_steps(self) -> dict[str, Step]:
        """The steps of the brokerage that are not rules, by name; empty without replaceable steps."""
        steps = getattr(self, "steps", None)
        values = () if steps is None else (getattr(steps, part.name) for part in dataclasses.fields(steps))
        return {step.name: step for step in values}

    def with_steps(self: ListT, steps: Mapping[str, Step]) -> ListT:
        """A chain of the same rules with other steps, by name."""
        if not steps:
            return self
        return dataclasses.replace(self, steps=dataclasses.replace(self.steps, **steps))  # type: ignore[attr-defined, call-arg]

    def takes(self, rule: Rule) -> str | None:
        """The name of the list that may hold a rule; None if none may."""
        if not issubclass(self.judges, rule.judges):
            return None
        return next((name for name, kinds in self.kinds.items() if isinstance(rule, kinds)), None)

    def tunings(self, tuning: Tuning) -> Mapping[str, Tuning]:
        """For each rule, by name, the tuning with only the keys that it declares."""
        return {rule.name: tuning.only(rule.keys) for rule in self}


@dataclass(frozen=True)
class WeighingChain(RuleChain, Generic[PairsT, LoadT]):
    """The rules of a brokerage that filters candidates and weighs the rest.

    Attributes:
        filters: on the grid as the snapshot shows it.
        weights: factors that do not change within a cycle.
        load_weights: factors that move with the jobs or work that the cycle places.
    """

    filters: tuple[Filter[PairsT] | GroupFilter[PairsT], ...]
    weights: tuple[Weight[PairsT], ...]
    load_weights: tuple[LoadT, ...]


@dataclass(frozen=True)
class QueueChain(WeighingChain[Any, LoadWeight]):
    """The rules of a job brokerage.

    Attributes:
        cuts: filters on load and weight, after weighing.
        steps: the steps apart from the rules.
    """

    kinds = {  # noqa: RUF012 - declared as a class variable above
        "filters": (Filter, GroupFilter),
        "weights": (Weight,),
        "load_weights": (LoadWeight,),
        "cuts": (LoadCut,),
    }

    cuts: tuple[LoadCut, ...]
    steps: JobSteps = field(default_factory=JobSteps)

    def alike(self, other: QueueChain, differing: Collection[str]) -> AlikeRules:
        """Properties shared by the cycles of two chains over one grid and work, with some keys tuned differently.

        Args:
            other: the other chain.
            differing: gdpconfig keys, families by their names.
        """
        if not same_steps(self.steps, other.steps):
            return AlikeRules()
        there = {rule.name: rule for rule in other}
        here = [rule for rule in self if rule.name in there and same_part(rule, there[rule.name])]
        alike = {rule.name: rule for rule in here if not {*rule.keys} & {*differing}}
        # a rule may read facts that others prepare: those must be alike as well, or be in neither chain
        elsewhere = ({rule.name for rule in self} | there.keys()) - alike.keys()
        rules = frozenset(name for name, rule in alike.items() if elsewhere.isdisjoint(rule.reads))
        names = [[rule.name for rule in chain.filters] for chain in (self, other)]
        return AlikeRules(True, rules, names[0] == names[1] and rules.issuperset(names[0]))

    def moves_alike(self, other: QueueChain) -> bool:
        """Whether the rules that read placed jobs are the same, in the same order."""
        mine, theirs = ((*chain.load_weights, *chain.cuts) for chain in (self, other))
        return len(mine) == len(theirs) and all(map(same_part, mine, theirs))


def same_steps(one: Any, other: Any) -> bool:
    """Whether the steps of two brokerages of a kind, each a field of a dataclass, do the same."""
    fields = [[field.name for field in dataclasses.fields(steps)] for steps in (one, other)]
    return fields[0] == fields[1] and all(same_part(getattr(one, name), getattr(other, name)) for name in fields[0])


def same_rules(some: Iterable[Rule], others: Iterable[Rule], differing: Collection[str]) -> bool:
    """Whether two lists of rules decide alike: they are the same, and read no key in which the tuning differs."""
    mine, theirs = list(some), list(others)
    alike = len(mine) == len(theirs) and all(map(same_part, mine, theirs))
    return alike and all({*differing}.isdisjoint(rule.keys) for rule in mine)


def same_part(one: Configurable, other: Configurable) -> bool:
    """Whether two rules or steps do the same; those with more state than options equal only themselves."""
    if one is other:
        return True
    plain = {"options", "because"}.issuperset({*vars(one), *vars(other)})
    return plain and type(one) is type(other) and one.options == other.options


@dataclass(frozen=True)
class NucleusChain(WeighingChain[TaskPairs, NucleusLoadWeight]):
    """The rules of a task brokerage, which judge nuclei.

    Attributes:
        steps: the steps apart from the rules.
    """

    kinds = {  # noqa: RUF012 - declared as a class variable above
        "filters": (Filter, GroupFilter),
        "weights": (Weight,),
        "load_weights": (NucleusLoadWeight,),
    }
    judges = TaskPairs

    steps: TaskSteps = field(default_factory=TaskSteps)
