"""The contract between rules, inside this tree or outside, and the engine that runs them.

A rule gets :class:`Pairs`: the chunks as columns of shape (T, 1), the candidates as columns of shape (1, Q), the facts
of both, and the tuning. It returns an array that broadcasts to (T, Q). It reads no clock, no database and no key that
it did not declare. See ``docs/how-to/add-a-rule.md``.

A rule is generic in the pairs that it judges. A type checker thus refuses a rule of analysis, which reads facts that
only the analysis brokerage gathers, in the list of production; the chain refuses it when the process starts.

:func:`number`, :func:`limit_number`, :func:`text` and :func:`flag` turn cells of arrays into plain values for
observations: NaN becomes ``None``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar, Generic, TypeVar, get_args

import numpy as np
from pydantic import BaseModel, ConfigDict

from broker.domain.arrays import AnyArray, Bools, Floats, Ints, RowsByKind, Texts
from broker.domain.decisions import Observation, Operator, Persistence, Reason, UnknownPolicy, Value, undeclared
from broker.rules.pairs import (
    LOAD_FAMILIES,
    AnalysisPairs,
    AnyPairs,
    CompiledStep,
    JobPairs,
    Load,
    LoadDetails,
    Pairs,
    PairsT_contra,
    TaskPairs,
    TuningView,
)
from broker.snapshot.snapshot import Snapshot

#: Everything that a rule imports, whether declared here or in another module.
__all__ = [
    "LOAD_FAMILIES",
    "AnalysisPairs",
    "AnyArray",
    "AnyPairs",
    "Bools",
    "CompiledStep",
    "Configurable",
    "ConfigurableT",
    "Filter",
    "Floats",
    "GroupCut",
    "GroupFilter",
    "Ints",
    "JobPairs",
    "Load",
    "LoadCut",
    "LoadDetails",
    "LoadWeight",
    "NucleusLoadWeight",
    "Observation",
    "Operator",
    "Options",
    "Pairs",
    "PairsT_contra",
    "Persistence",
    "Reason",
    "Rule",
    "Step",
    "TaskPairs",
    "Texts",
    "TuningView",
    "UnknownPolicy",
    "Value",
    "Weight",
    "flag",
    "limit_number",
    "number",
    "text",
]


class Options(BaseModel):
    """Options of a rule or step that a profile may set; defaults are those of the profile ``seed``."""

    model_config = ConfigDict(extra="forbid", frozen=True)


ConfigurableT = TypeVar("ConfigurableT", bound="Configurable")


class Configurable:
    """A rule, or a step that is no rule, with options that a profile may choose.

    Attributes:
        options: typed by the class; a class that has options declares them with their defaults.
        because: why the profile deviates from the defaults; empty if it does not.
    """

    options: Options = Options()
    because: str = ""

    def configured(self: ConfigurableT, given: Mapping[str, Any], because: str = "") -> ConfigurableT:
        """A copy with other options.

        Args:
            given: values by the name of the option; the others stay.
            because: the reason.

        Raises:
            pydantic.ValidationError: an option does not exist, or a value has the wrong type.
        """
        copied = copy(self)
        copied.options = type(self.options).model_validate({**self.options.model_dump(), **given})
        copied.because = because or self.because
        return copied

    @property
    def chosen(self) -> dict[str, Any]:
        """The options that differ from their defaults, by name."""
        defaults = type(self.options)()
        return {name: value for name, value in self.options.model_dump().items() if value != getattr(defaults, name)}


class Step(Configurable):
    """A part of a brokerage that is no rule: it provides facts or candidates, which the rules then judge.

    Attributes:
        name: used in profiles.
        title: one line for operators.
        gives: the reasons for which the step keeps candidates out, or makes a chunk or task wait.
        named_by: the option that may also name another implementation of the step, as ``use`` does; empty without one.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    sources: ClassVar[tuple[str, ...]] = ()
    gives: ClassVar[tuple[Reason, ...]] = ()
    named_by: ClassVar[str] = ""

    def needed_sources(self) -> tuple[str, ...]:
        """Snapshot sources that the step reads with its present options."""
        return self.sources


class Rule(Configurable, ABC):
    """Declarations common to all rules.

    Attributes:
        name: unique name, that of its file.
        reason: for a rule that rejects: what its code means, who can act and how. For a rule of an older package, which
            declares ``code`` and ``title`` instead, it is built from those.
        code: the reason code shown for a rejection, from ``reason``; for a weight, the name of its factor.
        title: one line for operators, from ``reason``.
        keys: gdpconfig keys that the rule reads (families by their name without suffix).
        sources: snapshot sources without which the rule cannot judge. If one is missing or too old, the engine does not
            call the rule: ``unknown_policy`` decides about the candidates, and the decision notes it.
        after_temporary: the rule judges only candidates that no rule before it has skipped for now.
        provenance: the public document and section that the rule follows.
        pair_by_pair: for a filter: ``keep`` and ``unknown`` compare only columns and facts, pair by pair; called for N
            pairs, all arrays have the shape (N, 1). A derived class must declare it again.
        same_in_passes: for a filter of analysis: its result for a chunk is the same in the passes with and without the
            locality check, as it reads none of the facts that differ. A derived class must declare it again.
        temporary_issue: for a filter of analysis: queues that it rejects still count when the first pass is judged, so
            that they are no reason for a second one. ``kind`` has no part in this.
        problem_for_user: for such a filter: its rejections are problems of the user with the queue, which the step
            ``passes`` may not count.
        lacks_files: for such a filter: the queues that it rejects lack files of the input, and may keep a place among
            the best by the step ``candidate_number``.
        moving: for a filter of analysis: it judges a chunk again with the jobs that the cycle has placed before. For a
            weight: its factor is ``facts.new_weight``, which the cycle computes anew with these jobs.
        stabilizer: for a filter of analysis: the figures of the stabilizer are stored for the queues that it rejects.
        reads: names of other rules of the chain whose :meth:`prepare` results it may read, too.
        judges: the pairs that it judges; taken from the class that it is derived from.
    """

    rejects: ClassVar[bool] = False
    """Whether rules of this kind reject candidates."""

    name: ClassVar[str]
    reason: ClassVar[Reason]
    code: ClassVar[str]
    title: ClassVar[str]
    keys: ClassVar[tuple[str, ...]] = ()
    sources: ClassVar[tuple[str, ...]] = ()
    unknown_policy: ClassVar[UnknownPolicy] = "reject"
    after_temporary: ClassVar[bool] = False
    provenance: ClassVar[str] = "ATLAS Production Job Brokerage"
    pair_by_pair: ClassVar[bool] = False
    same_in_passes: ClassVar[bool] = False
    temporary_issue: ClassVar[bool] = False
    problem_for_user: ClassVar[bool] = False
    lacks_files: ClassVar[bool] = False
    moving: ClassVar[bool] = False
    stabilizer: ClassVar[bool] = False
    reads: ClassVar[tuple[str, ...]] = ()
    judges: ClassVar[type[AnyPairs]] = JobPairs

    def __init_subclass__(cls, **options: Any) -> None:
        """Set the reason and the pairs that the rule judges: ``Filter[AnalysisPairs]`` judges those of analysis."""
        super().__init_subclass__(**options)
        if "reason" in cls.__dict__:
            cls.code, cls.title = cls.reason.code, cls.reason.title
        elif cls.rejects and {"code", "title"} & cls.__dict__.keys():
            cls.reason = _reason_of(cls)
        for base in cls.__dict__.get("__orig_bases__", ()):
            for argument in get_args(base):
                if isinstance(argument, type) and issubclass(argument, Pairs):
                    cls.judges = argument

    def prepare(self, snapshot: Snapshot, work: Any, tuning: TuningView) -> Any:
        """The rule's own facts, computed once a cycle and available as ``pairs.prepared[name]``; None without any.

        Args:
            snapshot: the grid, with the sources of other distributions in ``snapshot.offered``.
            work: of the cycle, all chunks or tasks of one VO; ``pairs.rows`` are positions in it.
            tuning: the gdpconfig values that the rule declares.
        """
        return None

    @property
    def compiled_step(self) -> CompiledStep | None:
        """The step of the compiled loop that equals a moving rule bit for bit; None if there is none.

        Each class declares its own; a derived class does not inherit it. See :mod:`broker.engine.compiled`.
        """
        return None

    def needs(self, tuning: TuningView) -> tuple[str, ...]:
        """The ``sources`` without which the rule cannot judge by this tuning; by default all of them."""
        return self.sources


def _reason_of(rule: type[Rule]) -> Reason:
    """The reason of a rule that declares its own code and title."""
    code, title = (str(getattr(rule, attribute, "")) for attribute in ("code", "title"))
    inherited: Reason | None = getattr(rule, "reason", None)
    return undeclared(code, title) if inherited is None else replace(inherited, code=code, title=title)


class Filter(Rule, Generic[PairsT_contra]):
    """A rule that keeps or rejects candidates.

    ``kind`` is ``persistent`` if only a change of the task, the queue or the tuning clears the rejection, ``temporary``
    if it may clear by itself.
    """

    rejects: ClassVar[bool] = True
    kind: ClassVar[Persistence] = "persistent"

    def applies(self, pairs: PairsT_contra) -> Bools | None:
        """(T, 1): the chunks that the rule judges; None for all. The others pass at no cost."""
        return None

    @abstractmethod
    def keep(self, pairs: PairsT_contra) -> Bools:
        """Broadcastable to (T, Q): True where the candidate passes."""

    def unknown(self, pairs: PairsT_contra) -> Bools | None:
        """Broadcastable to (T, Q): True where an input of the rule is missing; None if none can be."""
        return None

    def may_reject(self, facts: Any, tuning: TuningView) -> Bools | None:
        """(T, Q): pairs that the filter might reject when it judges again with placed jobs; None for all.

        This is cheap to compute and mostly saves the call of the filter. A derived class must define it again.
        """
        return None

    @abstractmethod
    def observe(self, pairs: PairsT_contra) -> Observation:
        """The value and the limit, for exactly one chunk and one candidate (all arrays of shape (1, 1))."""


class GroupFilter(Rule, Generic[PairsT_contra]):
    """A filter that judges a candidate by the other candidates of the chunk."""

    rejects: ClassVar[bool] = True
    kind: ClassVar[Persistence] = "persistent"

    def applies(self, pairs: PairsT_contra) -> Bools | None:
        """(T, 1): the chunks that the rule judges; None for all."""
        return None

    @abstractmethod
    def keep_among(self, alive: Bools, pairs: PairsT_contra) -> Bools:
        """(T, Q): True where the candidate passes, given the candidates not yet rejected for good by any rule."""

    @abstractmethod
    def observe(self, pairs: PairsT_contra) -> Observation:
        """The value and the limit, for exactly one chunk and one candidate (all arrays of shape (1, 1))."""


class Weight(Rule, Generic[PairsT_contra]):
    """A factor of the weight that does not change within a cycle. Its code is the name under which it is stored."""

    @abstractmethod
    def factor(self, pairs: PairsT_contra) -> Floats | RowsByKind:
        """The factor over (T, Q), as an array that broadcasts or by kind; finite and not negative."""


class LoadWeight(Rule):
    """A factor of the weight that changes within the cycle with the placed jobs."""

    @abstractmethod
    def factor(self, load: Load) -> Floats:
        """The factor in the shape of ``load.running``; finite and not negative."""


class LoadCut(Rule):
    """A filter on the load of a candidate and its weight, applied after weighing and not remembered between cycles.

    ``exempts_bootstrap``: the rule does not judge a candidate that has no jobs at all.
    """

    rejects: ClassVar[bool] = True
    exempts_bootstrap: ClassVar[bool] = False

    @property
    def reads_details(self) -> bool:
        """Whether the rule, with its options, reads ``load.details``, which are computed only for such rules."""
        return False

    @abstractmethod
    def keep(self, load: Load, weight: Floats) -> Bools:
        """Same shape as ``load.running``: True where the candidate passes."""

    @abstractmethod
    def observe(self, load: Load, weight: Floats) -> Observation:
        """The value and the limit, for one chunk and one candidate (arrays of one element)."""


class GroupCut(LoadCut):
    """A cut that judges a candidate by the others."""

    def keep(self, load: Load, weight: Floats) -> Bools:
        """The result if no other cut has removed a candidate."""
        return self.keep_among(np.ones(np.shape(weight), dtype=np.bool_), load, weight)

    @abstractmethod
    def keep_among(self, alive: Bools, load: Load, weight: Floats) -> Bools:
        """Same shape as ``weight``: True where the candidate passes, given the candidates not yet removed by a cut."""


class NucleusLoadWeight(Rule):
    """A factor of the weight of a nucleus that changes with the tasks that the cycle has placed."""

    provenance: ClassVar[str] = "ATLAS Production Task Brokerage"
    judges: ClassVar[type[AnyPairs]] = TaskPairs

    @abstractmethod
    def factor(self, remaining_work_hs06s: Floats) -> Floats:
        """The factor in the same shape, from the work of the task's share at its priority and above, in HS06 s."""


def number(cell: AnyArray) -> float | None:
    """The only element as a number; ``None`` for NaN. Whole numbers and infinities are left as they are."""
    value = float(cell.item())
    return None if math.isnan(value) else value


def limit_number(cell: AnyArray) -> float | None:
    """The only element as a limit; ``None`` for NaN and infinity, which both mean that there is no limit."""
    value = float(cell.item())
    return value if math.isfinite(value) else None


def text(cell: AnyArray) -> str | None:
    """The only element as a text; ``None`` for NULL."""
    value = cell.item()
    return None if value is None else str(value)


def flag(cell: AnyArray) -> bool:
    """The only element as a truth value."""
    return bool(cell.item())
