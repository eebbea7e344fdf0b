"""What a rule is: the contract between the rules, inside this tree or out of it, and the engine that runs them.

A rule gets the chunks as columns of shape (T, 1), the candidates as columns of shape (1, Q), the facts of both, and the
tuning. It answers with an array that broadcasts to (T, Q). It reads no clock, no database and no key that it did not
declare. See ``docs/how-to/add-a-rule.md``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol

import numpy as np

from broker.domain.arrays import Bools, Floats
from broker.domain.decisions import Kind, Observation, UnknownPolicy
from broker.domain.facts import JobFacts
from broker.domain.grid import NucleusTable
from broker.domain.queues import QueueTable
from broker.domain.task_facts import TaskFacts
from broker.domain.task_work import AssigningTable
from broker.domain.work import WorkTable


class TuningView(Protocol):
    """The gdpconfig values that a rule may read: only the keys that it declares."""

    def number(self, key: str) -> float:
        """The value of a numeric key, or its default."""
        ...

    def flag(self, key: str) -> bool:
        """The value of a boolean key, or its default."""
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


class Rule(ABC):
    """What every rule declares.

    Attributes:
        name: unique name, that of its file.
        code: the reason code shown for a rejection: PanDA's criteria token without the sign where one exists.
        title: one line for operators.
        keys: gdpconfig keys that the rule reads (families by their name without suffix).
        sources: snapshot sources without which the rule cannot judge. When one is missing or too old, the engine does
            not call the rule: ``unknown_policy`` says what happens to the candidates, and the decision says so.
        after_temporary: the rule is asked only about candidates that no rule before it has skipped for now.
        provenance: the public document and section that the rule follows.
    """

    name: ClassVar[str]
    code: ClassVar[str]
    title: ClassVar[str]
    keys: ClassVar[tuple[str, ...]] = ()
    sources: ClassVar[tuple[str, ...]] = ()
    unknown_policy: ClassVar[UnknownPolicy] = "reject"
    after_temporary: ClassVar[bool] = False
    provenance: ClassVar[str] = "ATLAS Production Job Brokerage"


class Filter(Rule):
    """A rule that keeps or rejects candidates.

    ``kind`` is ``persistent`` when only a change of the task, the queue or the tuning clears the rejection,
    ``temporary`` when it may clear by itself.
    """

    kind: ClassVar[Kind] = "persistent"

    def applies(self, tasks: WorkTable, facts: JobFacts, tuning: TuningView) -> Bools | None:
        """(T, 1): the chunks that the rule looks at; None for all. The others pass without any work."""
        return None

    @abstractmethod
    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """Broadcastable to (T, Q): True where the candidate passes."""

    def unknown(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools | None:
        """Broadcastable to (T, Q): True where an input of the rule is missing; None when that cannot be."""
        return None

    @abstractmethod
    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """The value seen and the limit, for exactly one chunk and one candidate (all arrays of shape (1, 1))."""


class GroupFilter(Rule):
    """A filter that judges a candidate by what the other candidates of the chunk offer."""

    kind: ClassVar[Kind] = "persistent"

    def applies(self, tasks: WorkTable, facts: JobFacts, tuning: TuningView) -> Bools | None:
        """(T, 1): the chunks that the rule looks at; None for all."""
        return None

    @abstractmethod
    def keep_among(
        self, alive: Bools, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView
    ) -> Bools:
        """(T, Q): True where the candidate passes, given those that no rule has rejected for good so far."""

    @abstractmethod
    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """The value seen and the limit, for exactly one chunk and one candidate (all arrays of shape (1, 1))."""


class Weight(Rule):
    """A factor of the weight that does not move within a cycle. Its code is the name under which it is stored."""

    @abstractmethod
    def factor(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Floats:
        """Broadcastable to (T, Q): the factor, finite and not negative."""


@dataclass(frozen=True)
class Load:
    """The jobs at the candidates as the cycle goes on: ``defined`` includes what this cycle has already placed.

    Arrays are (Q,) when chunks are taken one by one, (T, Q) when each meets the same grid; the columns of the chunk are
    scalars in the first case and (T, 1) in the second.
    """

    running: Floats  # the largest reading of "running", see JobFacts.running_equivalent
    defined: Floats
    assigned: Floats
    activated: Floats
    starting: Floats
    all_local: Bools
    queue_limit: Floats  # NQUEUELIMITSITE of the chunk's share
    min_weight: Floats  # MIN_WEIGHT of the chunk's label and share
    express: Bools
    bootstrap_allowed: Bools  # priority at or below MAX_PRIO_TO_BOOTSTRAP, not merging, not express

    @cached_property
    def bootstrap(self) -> Bools:
        """Shape of ``running``: no jobs of the share at all, so that the candidate gets some to start with."""
        jobs = self.running + self.activated + self.assigned + self.starting + self.defined
        return np.asarray((jobs == 0) & self.bootstrap_allowed)


class LoadWeight(Rule):
    """A factor of the weight that moves within the cycle, with the jobs that were placed."""

    @abstractmethod
    def factor(self, load: Load) -> Floats:
        """Same shape as ``load.running``: the factor, finite and not negative."""


class LoadCut(Rule):
    """A filter on the load of a candidate and its weight, applied after weighing and not remembered between cycles.

    ``spares_bootstrap``: a candidate that has no jobs at all is not measured by this rule.
    """

    spares_bootstrap: ClassVar[bool] = False

    @abstractmethod
    def keep(self, load: Load, weight: Floats) -> Bools:
        """Same shape as ``load.running``: True where the candidate passes."""

    @abstractmethod
    def observe(self, load: Load, weight: Floats) -> Observation:
        """The value seen and the limit, for one chunk and one candidate (arrays of one element)."""


class NucleusFilter(Rule):
    """A rule of the task brokerage that keeps or rejects nuclei for tasks.

    A nucleus that is rejected is gone, whatever the kind: ``kind`` only says whether the reason may clear by itself.
    """

    kind: ClassVar[Kind] = "persistent"
    provenance: ClassVar[str] = "ATLAS Production Task Brokerage"

    def applies(self, tasks: AssigningTable, facts: TaskFacts, tuning: TuningView) -> Bools | None:
        """(T, 1): the tasks that the rule looks at; None for all."""
        return None

    @abstractmethod
    def keep(self, tasks: AssigningTable, nuclei: NucleusTable, facts: TaskFacts, tuning: TuningView) -> Bools:
        """Broadcastable to (T, N): True where the nucleus passes."""

    def unknown(
        self, tasks: AssigningTable, nuclei: NucleusTable, facts: TaskFacts, tuning: TuningView
    ) -> Bools | None:
        """Broadcastable to (T, N): True where an input of the rule is missing; None when that cannot be."""
        return None

    @abstractmethod
    def observe(self, tasks: AssigningTable, nuclei: NucleusTable, facts: TaskFacts, tuning: TuningView) -> Observation:
        """The value seen and the limit, for exactly one task and one nucleus (all arrays of shape (1, 1))."""


class NucleusGroupFilter(Rule):
    """A filter of the task brokerage that judges a nucleus by what the others that are left offer."""

    kind: ClassVar[Kind] = "persistent"
    provenance: ClassVar[str] = "ATLAS Production Task Brokerage"

    def applies(self, tasks: AssigningTable, facts: TaskFacts, tuning: TuningView) -> Bools | None:
        """(T, 1): the tasks that the rule looks at; None for all."""
        return None

    @abstractmethod
    def keep_among(
        self, alive: Bools, tasks: AssigningTable, nuclei: NucleusTable, facts: TaskFacts, tuning: TuningView
    ) -> Bools:
        """(T, N): True where the nucleus passes, given those that no rule has rejected so far."""

    @abstractmethod
    def observe(self, tasks: AssigningTable, nuclei: NucleusTable, facts: TaskFacts, tuning: TuningView) -> Observation:
        """The value seen and the limit, for exactly one task and one nucleus (all arrays of shape (1, 1))."""


class NucleusWeight(Rule):
    """A factor of the weight of a nucleus that does not move within a cycle."""

    provenance: ClassVar[str] = "ATLAS Production Task Brokerage"

    @abstractmethod
    def factor(self, tasks: AssigningTable, nuclei: NucleusTable, facts: TaskFacts, tuning: TuningView) -> Floats:
        """Broadcastable to (T, N): the factor, finite and not negative."""


class NucleusLoadWeight(Rule):
    """A factor of the weight of a nucleus that moves with the tasks that the cycle has placed."""

    provenance: ClassVar[str] = "ATLAS Production Task Brokerage"

    @abstractmethod
    def factor(self, remaining_work_hs06s: Floats) -> Floats:
        """Same shape: the factor, from the work of the task's share at its priority and above, in HS06 s."""
