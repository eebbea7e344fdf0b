"""One chunk of a cycle with its decision and its jobs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from broker.codec.work_codec import NO_LOAD
from broker.domain.arrays import Bools, Ints, Texts
from broker.domain.counted_load import CountedLoad
from broker.domain.decisions import Decision
from broker.domain.reason import Reason
from broker.work.cut_jobs import CutJobs

CANDIDATES_FULL = "candidates_full"
CANDIDATES_FULL_REASON = Reason(
    code=CANDIDATES_FULL,
    title="candidates were left, but none took a job",
    who="wait",
    cure="Wait for the next cycle: the candidates have taken as many jobs as they may in this one.",
)


@dataclass(frozen=True)
class AssignedChunk:
    """One chunk with its decision and its jobs.

    Attributes:
        row: position of the chunk in the work.
        decision: the decision; ``pending`` also when the candidates took no job.
        candidate: for each job the position of its candidate in the snapshot's queue table.
        jobs: the jobs.
        before: the load that the cycle had counted before.
    """

    row: int
    decision: Decision
    candidate: Ints
    jobs: CutJobs
    before: CountedLoad = NO_LOAD

    @property
    def job_count(self) -> int:
        """How many jobs there are."""
        return len(self.candidate)

    def assigned(self, names: Texts) -> dict[str, int]:
        """Number of jobs by candidate name; ``names`` is the name column of the queue table."""
        return _assigned(self.given, names)

    def assigned_of(self, kept: Bools, names: Texts) -> dict[str, int]:
        """The assigned jobs by queue, of the jobs ``kept`` (J,)."""
        return _assigned(_given(self.candidate[kept]), names)

    @cached_property
    def given(self) -> tuple[Ints, Ints]:
        """The candidates that got jobs, ascending, and how many each got."""
        return _given(self.candidate)


def _assigned(given: tuple[Ints, Ints], names: Texts) -> dict[str, int]:
    """Jobs by candidate name, of candidates at these positions with so many jobs."""
    positions, counts = given
    return dict(zip(map(str, names[positions].tolist()), counts.tolist(), strict=True))


def _given(candidate: Ints) -> tuple[Ints, Ints]:
    counts = np.bincount(candidate)
    positions = counts.nonzero()[0]
    return positions, counts[positions]
