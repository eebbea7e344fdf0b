"""The argument of a rule: chunks and candidates as columns, the facts of both, the tuning, and the load of the cycle.

Rules import these names from :mod:`broker.rules.contract`.

- :class:`Pairs` and its kinds: columns (T, 1) and (1, Q), with the keys of tuning that the rule declares.
- :class:`Load`, :class:`LoadDetails`: the current load of the candidates within a cycle, as moving rules see it.
- :class:`CompiledStep`: the step of the compiled loop that equals a moving rule, with the constants and keys that the
  step takes from the rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np

from broker.domain.analysis import AnalysisFacts
from broker.domain.arrays import Bools, Floats, Ints
from broker.domain.facts import JobFacts
from broker.domain.grid import NucleusTable
from broker.domain.queues import QueueTable
from broker.domain.task_work import AssigningTable, TaskFacts
from broker.domain.work import WorkTable


class TuningView(Protocol):
    """The gdpconfig values that a rule may read: only the keys that it declares."""

    def number(self, key: str) -> float:
        """The value of a numeric key, or its default."""
        ...

    def flag(self, key: str) -> bool:
        """The value of a boolean key, or its default."""
        ...

    def is_set(self, key: str) -> bool:
        """Whether an operator has set the key instead of leaving it at its default."""
        ...

    def text(self, key: str) -> str | None:
        """The value of a text key, or its default."""
        ...

    def by_suffix(self, family: str, suffixes: Sequence[str | None]) -> Floats:
        """The value of ``family_<suffix>`` for each suffix, falling back to the default of the family."""
        ...

    def by_two_suffixes(self, family: str, firsts: Sequence[str | None], seconds: Sequence[str | None]) -> Floats:
        """The value of ``family_<first>_<second>``, else of ``family_<first>``, else the default, for each pair."""
        ...


ChunksT_co = TypeVar("ChunksT_co", covariant=True)
CandidatesT_co = TypeVar("CandidatesT_co", covariant=True)
FactsT_co = TypeVar("FactsT_co", covariant=True)


@dataclass(frozen=True)
class Pairs(Generic[ChunksT_co, CandidatesT_co, FactsT_co]):
    """T pieces of work against Q candidates, as a rule sees them.

    Attributes:
        chunks: columns of shape (T, 1).
        candidates: columns of shape (1, Q).
        facts: of both; see the classes of facts in :mod:`broker.domain`.
        tuning: the gdpconfig values that the rule declares.
        rows: (T,) positions of the chunks in the work of the cycle.
        positions: (Q,) positions of the candidates in the table of the snapshot.
        prepared: the results of :meth:`Rule.prepare` of this rule, and of those named in its ``reads``, for the cycle.
    """

    rejects_for_good: ClassVar[bool] = False
    """Whether a rejected candidate is gone for the following rules, regardless of the kind of rejection."""

    chunks: ChunksT_co
    candidates: CandidatesT_co
    facts: FactsT_co
    tuning: TuningView
    rows: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    positions: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    prepared: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class JobPairs(Pairs[WorkTable, QueueTable, JobFacts]):
    """Input chunks against pseudo-queues."""

    facts: JobFacts


@dataclass(frozen=True)
class AnalysisPairs(JobPairs):
    """Input chunks of analysis tasks against pseudo-queues."""

    facts: AnalysisFacts


@dataclass(frozen=True)
class TaskPairs(Pairs[AssigningTable, NucleusTable, TaskFacts]):
    """Tasks against nuclei. A rejected nucleus is gone."""

    rejects_for_good: ClassVar[bool] = True

    @property
    def tasks(self) -> AssigningTable:
        """Columns of shape (T, 1)."""
        return self.chunks

    @property
    def nuclei(self) -> NucleusTable:
        """Columns of shape (1, N)."""
        return self.candidates


AnyPairs = Pairs[Any, Any, Any]
PairsT_contra = TypeVar("PairsT_contra", bound=AnyPairs, contravariant=True)


#: The gdpconfig families whose values for the chunk are columns of :class:`Load`, by the name of the column.
LOAD_FAMILIES = MappingProxyType({"queue_limit": "NQUEUELIMITSITE", "min_weight": "MIN_WEIGHT"})


@dataclass(frozen=True)
class LoadDetails:
    """Figures of candidates that only some options of rules read; shapes as in :class:`Load`.

    ``typed_*`` are jobs of the resource types that the task has at the queue; ``typed_known``: whether any was counted.
    """

    real_running: Floats  # running jobs of the accounting key, without any substitute for them
    all_running: Floats  # of all shares
    is_ucore: Bools
    one_nucleus_queue: Bools  # the chunk asks for the nucleus alone
    typed_running: Floats
    typed_queued: Floats  # defined, activated and starting
    typed_assigned: Floats
    typed_known: Bools


@dataclass(frozen=True)
class Load:
    """The current jobs at the candidates: ``defined`` includes those that this cycle has placed.

    Arrays are (Q,) if chunks are taken one by one, (T, Q) if each meets the same grid; the columns of the chunk are
    scalars in the first case and (T, 1) in the second.
    """

    running: Floats  # the largest reading of "running", see JobFacts.running_equivalent
    defined: Floats
    assigned: Floats
    activated: Floats
    starting: Floats
    all_local: Bools
    queue_limit: Floats  # of the chunk's share
    min_weight: Floats  # of the chunk's label and share
    urgent: Bools
    bootstrap_allowed: Bools  # priority at or below MAX_PRIO_TO_BOOTSTRAP, not merging, not express
    details: LoadDetails | None = None
    preferred: Bools | None = None  # candidates that come before the others, whatever their weights

    @cached_property
    def bootstrap(self) -> Bools:
        """Shape of ``running``: the candidate has no jobs of the share at all, and so gets some to start with."""
        jobs = self.running + self.activated + self.assigned + self.starting + self.defined
        return np.asarray((jobs == 0) & self.bootstrap_allowed)


@dataclass(frozen=True)
class CompiledStep:
    """A step of the compiled loop with the arguments that the rule passes to it.

    The loop holds no constants of the rule, because compiled code would keep old ones. A chain is refused when the
    process starts if one of its rules reads a gdpconfig key that its step does not get.

    Attributes:
        name: of the step; see ``broker.engine.compiled.loop_steps``.
        constants: arguments of the step that are numbers in the rule.
        keys: gdpconfig keys whose values the step gets, by the name of the argument; all keys of the rule.
    """

    name: str
    constants: Mapping[str, float] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
