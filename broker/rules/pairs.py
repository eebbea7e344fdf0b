"""The argument of a rule: chunks and candidates as columns, the facts of both, and the tuning.

Rules import it from :mod:`broker.rules.contract`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np

from broker.domain.analysis import AnalysisFacts
from broker.domain.arrays import Floats, Ints
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

    def is_set(self, key: str) -> bool:
        """Whether an operator has set the key, so that its value is not the default."""
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
        facts: of both, see the classes of facts in :mod:`broker.domain`.
        tuning: the gdpconfig values that the rule declares.
        rows: (T,) positions of the chunks in the work of the cycle.
        positions: (Q,) positions of the candidates in the table of the snapshot.
        prepared: what :meth:`Rule.prepare` of this rule, and of those that it names in ``reads``, made for the cycle.
    """

    rejects_for_good: ClassVar[bool] = False
    """Whether a rejected candidate is gone for the rules that follow, whatever the kind of the rejection."""

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
    """Tasks against nuclei. A nucleus that is rejected is gone."""

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
