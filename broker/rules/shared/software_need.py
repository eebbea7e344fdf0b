"""Software and hardware needs of chunks, judged once for each distinct need, and the base classes of the rules on them.

Each job brokerage derives its own rules, with its own reading of the need.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, TypeVar

import numpy as np

from broker.domain.arrays import RowsByKind
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueOffer
from broker.domain.work import WorkTable
from broker.matching.availability import job_platform
from broker.matching.explanation import explain
from broker.matching.match_queue import SoftwareMatcher, SoftwareMatcherCache
from broker.matching.need import Need, production_need
from broker.matching.outcomes import Outcome
from broker.matching.panda_dialect import PandaJudge, PandaNeed, panda_need
from broker.matching.requirement import with_base
from broker.rules.contract import Bools, Filter, Ints, JobPairs, Observation, Options, Reason

PairsT = TypeVar("PairsT", bound=JobPairs)
Dialect = Literal["specification", "panda"]

#: Cached verdicts for the queues as last published. The cache changes no answer, only how fast it comes.
_memory = SoftwareMatcherCache()


def matcher_of(facts: JobFacts) -> SoftwareMatcher:
    """The matcher for the queues of a snapshot."""
    return _memory.matcher_of(facts.software.queues, facts.software.sources, facts.software.gpus_known)


_panda_memory = SoftwareMatcherCache(PandaJudge)


def panda_judge_of(facts: JobFacts) -> PandaJudge:
    """The matcher for the queues of a snapshot that judges as PanDA does."""
    software = facts.software
    match_queue = _panda_memory.matcher_of(software.queues, software.sources, software.gpus_known)
    assert isinstance(match_queue, PandaJudge)  # noqa: S101 - the memory makes no other
    return match_queue


def chunk_needs(work: WorkTable) -> list[Need]:
    """The need of each chunk; columns may have the shape (T,) or (T, 1)."""
    return [production_need(*written) for written in _written(work)]


def _written(work: WorkTable) -> list[tuple[Any, ...]]:
    columns = (work.architecture, work.transhome, work.container_name, work.only_tags_for_fc)
    return list(zip(*(column.ravel().tolist() for column in columns), strict=True))


@dataclass(frozen=True)
class NeedReading(Generic[PairsT]):
    """How a brokerage reads the needs of chunks from their columns.

    Attributes:
        written: the values that define the need, one tuple a chunk; chunks with equal values have the same need.
        need: converts these values into a need.
    """

    written: Callable[[PairsT], list[tuple[Any, ...]]]
    need: Callable[[tuple[Any, ...]], Need]
    as_panda: Callable[[tuple[Any, ...]], PandaNeed] | None = None

    def in_dialect(self, dialect: Dialect) -> NeedReading[PairsT]:
        """The reading in a dialect: this one, or PanDA's reading of the same columns."""
        return self if dialect == "specification" else PandaReading(self.written, self.need, self.as_panda)

    def outcomes(self, pairs: PairsT) -> Ints:
        """(T, Q): the :class:`~broker.matching.outcomes.Outcome` of each chunk at each candidate."""
        return self.by_need(pairs).every

    def by_need(self, pairs: PairsT) -> RowsByKind:
        """The outcomes of each distinct need at the candidates, by kind."""
        match_queue, unified = matcher_of(pairs.facts), pairs.candidates.unified
        position: dict[tuple[Any, ...], int] = {}
        written = self.written(pairs)
        codes = np.array([position.setdefault(key, len(position)) for key in written], dtype=np.int64)
        if not position:
            return RowsByKind(np.zeros((1, unified.shape[1]), dtype=np.int64), codes)
        table = np.stack([match_queue.outcomes(self.need(key)) for key in position])
        return RowsByKind(table[:, unified[0]], codes)

    def observed(self, pairs: PairsT, keeps: Outcome | None = None) -> Observation:
        """The deciding comparison for one chunk and one candidate; the outcome ``keeps`` counts as a fit."""
        outcome = Outcome(self.outcomes(pairs).item())
        if outcome in (Outcome.FITS, keeps):
            return Observation("fits", "==", "fits", "-", "task.architecture", {"part": Outcome.FITS.code})
        offer: QueueOffer = pairs.facts.software.queues[int(pairs.candidates.unified.item())]
        explanation = explain(self.need(self.written(pairs)[0]), offer, outcome)
        inputs = {"part": explanation.part, **explanation.inputs}
        return Observation(
            explanation.value, explanation.operator, explanation.limit, explanation.unit, explanation.key, inputs
        )


@dataclass(frozen=True)
class PandaReading(NeedReading[PairsT]):
    """The columns of chunks as PanDA reads them."""

    def by_need(self, pairs: PairsT) -> RowsByKind:
        """The outcomes of each distinct need as PanDA judges them, by kind."""
        match_queue, unified = panda_judge_of(pairs.facts), pairs.candidates.unified
        position: dict[tuple[Any, ...], int] = {}
        written = self.written(pairs)
        codes = np.array([position.setdefault(key, len(position)) for key in written], dtype=np.int64)
        if not position or self.as_panda is None:
            return RowsByKind(np.zeros((1, unified.shape[1]), dtype=np.int64), np.zeros_like(codes))
        table = np.stack([match_queue.panda_outcomes(self.as_panda(key)) for key in position])
        return RowsByKind(table[:, unified[0]], codes)


def _production_as_panda(written: tuple[Any, ...]) -> PandaNeed:
    architecture, transhome, _, _ = written
    return panda_need(production_need(*written), architecture, unchecked=transhome is None)


PRODUCTION_NEED: NeedReading[JobPairs] = NeedReading(
    lambda pairs: _written(pairs.chunks), lambda written: production_need(*written), _production_as_panda
)


def platform_of_jobs(need: Need, offer: QueueOffer) -> str:
    """The platform for the jobs of a need at a queue; a pattern is resolved to a platform of the queue.

    Source: PanDA software and hardware matching, platform resolution.
    """
    concrete = job_platform(need, offer.software)
    wanted = need.requirement
    return wanted.job_platform if concrete is None else with_base(concrete, wanted.base_platform)


class SoftwareOptions(Options):
    """The dialect in which architectures, platforms and tags are read and compared."""

    dialect: Dialect = "specification"


class SoftwareRule(Filter[PairsT], Generic[PairsT]):
    """Rejects queues without the release, cache, nightly or container of the task, or without its CPU or GPU.

    The ``part`` of the observation names what is missing. A platform pattern that matches no platform of the queue is
    left to the next rule. ``reading``: how the brokerage reads the needs of chunks.
    """

    reason = Reason(
        code="cache",
        title="The queue has the software and the hardware of the task",
        violation="The queue lacks the software or the hardware that the task asks for",
        no_candidate="has the software",
        who="you",
        cure="Ask for a release, a container or hardware that queues publish: `broker match REQUIREMENT` shows who has "
        "what.",
    )
    sources = ("queues", "software")
    reading: ClassVar[NeedReading[Any]]
    options: SoftwareOptions = SoftwareOptions()

    @property
    def _reading(self) -> NeedReading[Any]:
        return self.reading.in_dialect(self.options.dialect)

    def keep(self, pairs: PairsT) -> Bools:
        """(T, Q): true where the queue has the software and the hardware of the task."""
        outcomes = self._reading.by_need(pairs)
        return outcomes.of_table(
            (outcomes.table == Outcome.FITS) | (outcomes.table == Outcome.PLATFORM_UNRESOLVED)
        ).every

    def unknown(self, pairs: PairsT) -> Bools | None:
        """(T, Q): the task requests particular GPUs, and the summary of GPUs is unusable; None if it is usable."""
        if pairs.facts.software.gpus_known:
            return None
        outcomes = self._reading.by_need(pairs)
        return outcomes.of_table(outcomes.table == Outcome.GPU_SOURCE).every

    def observe(self, pairs: PairsT) -> Observation:
        """The need and what the queue publishes, with its best match."""
        return self._reading.observed(pairs, keeps=Outcome.PLATFORM_UNRESOLVED)


class PlatformRule(Filter[PairsT], Generic[PairsT]):
    """Rejects queues that have everything else, but no platform that matches the pattern of the task."""

    reason = Reason(
        code="regexpcmtconfig",
        title="The pattern of the platform matches a platform of the queue",
        violation="No platform of the queue matches the pattern of the task",
        no_candidate="has the platform",
        who="you",
        cure="Ask for a platform that queues have (`prun --cmtConfig`, `--architecture`): `broker match REQUIREMENT` "
        "shows who has what.",
    )
    sources = ("queues", "software")
    reading: ClassVar[NeedReading[Any]]
    options: SoftwareOptions = SoftwareOptions()

    @property
    def _reading(self) -> NeedReading[Any]:
        return self.reading.in_dialect(self.options.dialect)

    def keep(self, pairs: PairsT) -> Bools:
        """(T, Q): true where the queue has the software and the hardware of the task."""
        outcomes = self._reading.by_need(pairs)
        return outcomes.of_table(outcomes.table != Outcome.PLATFORM_UNRESOLVED).every

    def observe(self, pairs: PairsT) -> Observation:
        """The pattern, and the platforms of the queue."""
        outcome = self._reading.outcomes(pairs).item()
        keeps = None if outcome == Outcome.PLATFORM_UNRESOLVED else Outcome(outcome)
        return self._reading.observed(pairs, keeps)
