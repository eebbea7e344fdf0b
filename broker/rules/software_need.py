"""What chunks need of software and hardware, judged once for each distinct need at the queues of a snapshot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from broker.domain.arrays import Ints
from broker.domain.decisions import Observation
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.software import QueueOffer
from broker.domain.work import WorkTable
from broker.matching.availability import job_platform
from broker.matching.explanation import explain
from broker.matching.judge import Judge, JudgeMemory
from broker.matching.need import Need, production_need
from broker.matching.outcomes import Outcome
from broker.matching.requirement import with_base

#: What was judged for the queues as they were last published. It changes no answer, only how soon there is one.
_memory = JudgeMemory()


def judge_of(facts: JobFacts) -> Judge:
    """The judge of the queues of a snapshot."""
    return _memory.judge_of(facts.software.queues, facts.software.sources, facts.software.gpus_known)


def chunk_needs(work: WorkTable) -> list[Need]:
    """What each chunk needs; columns may have the shape (T,) or (T, 1)."""
    return [production_need(*written) for written in _written(work)]


def _written(work: WorkTable) -> list[tuple[Any, ...]]:
    columns = (work.architecture, work.transhome, work.container_name, work.only_tags_for_fc)
    return list(zip(*(column.ravel().tolist() for column in columns), strict=True))


@dataclass(frozen=True)
class NeedReading:
    """How a brokerage reads from the columns of chunks what they need.

    Attributes:
        written: what decides about the need, one a chunk; chunks for which it is equal need the same.
        need: what it means.
    """

    written: Callable[[WorkTable, JobFacts], list[tuple[Any, ...]]]
    need: Callable[[tuple[Any, ...]], Need]

    def outcomes(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts) -> Ints:
        """(T, Q): the :class:`~broker.matching.outcomes.Outcome` of each chunk at each candidate."""
        judge = judge_of(facts)
        position: dict[tuple[Any, ...], int] = {}
        written = self.written(tasks, facts)
        codes = np.array([position.setdefault(key, len(position)) for key in written], dtype=np.int64)
        if not position:
            return np.zeros((0, candidates.unified.shape[1]), dtype=np.int64)
        table = np.stack([judge.outcomes(self.need(key)) for key in position])
        return np.asarray(table[:, candidates.unified[0]][codes])

    def observed(
        self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, keeps: Outcome | None = None
    ) -> Observation:
        """The deciding comparison for one chunk and one candidate; an outcome that the rule ``keeps`` counts as fit."""
        outcome = Outcome(self.outcomes(tasks, candidates, facts).item())
        if outcome in (Outcome.FITS, keeps):
            return Observation("fits", "==", "fits", "-", "task.architecture", {"part": Outcome.FITS.code})
        offer: QueueOffer = facts.software.queues[int(candidates.unified.item())]
        found = explain(self.need(self.written(tasks, facts)[0]), offer, outcome)
        inputs = {"part": found.part, **found.inputs}
        return Observation(found.value, found.operator, found.limit, found.unit, found.key, inputs)


PRODUCTION_NEED = NeedReading(lambda tasks, facts: _written(tasks), lambda written: production_need(*written))


def platform_of_jobs(need: Need, offer: QueueOffer) -> str:
    """The platform for the jobs of a need at a queue: a pattern becomes a platform of the queue.

    Source: PanDA software and hardware matching, platform resolution.
    """
    concrete = job_platform(need, offer.software)
    wanted = need.requirement
    return wanted.job_platform if concrete is None else with_base(concrete, wanted.base_platform)
