"""What PanDA's placement of a cycle's chunks costs beside ours, by the same program: time, bytes and wait. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from broker.domain.arrays import Floats, Ints
from broker.domain.rejection_counts import unified_of
from broker.engine.job.chunk_result import ChunkResult
from broker.engine.job.cycle import JobCycle
from broker.flow.model.flow_problem import program_of
from broker.flow.model.placed import Placed, amounts_of, place_of
from broker.flow.model.problem import CostParts, cost_parts, moved_gb
from broker.gdpconfig.catalogue import Value
from broker.work.assemble import CycleWork

#: Why jobs that PanDA placed are not compared.
QUEUE_UNKNOWN, OURS_NOTHING = "queue_not_in_snapshot", "ours_placed_nothing"


@dataclass(frozen=True)
class Beside:
    """The same jobs where PanDA placed them and where ours did.

    Attributes:
        chunks: that both placed.
        jobs: of these, as ours placed them; PanDA's count by the parts of a chunk that its queues got.
        ours, panda: what they cost there; limits are not looked at.
        our_gb, panda_gb: that are moved.
        unknown: jobs that PanDA placed and that are not compared, by why.
    """

    chunks: int
    jobs: float
    ours: CostParts
    panda: CostParts
    our_gb: float
    panda_gb: float
    unknown: Mapping[str, int]


def beside(
    cycle: JobCycle,
    work: CycleWork,
    ours: Sequence[Placed],
    panda: Sequence[Placed],
    prices: Mapping[str, Value],
) -> Beside:
    """Price what PanDA placed of a cycle's chunks beside what ours did.

    Args:
        cycle: over its work, in which every chunk meets the grid of the snapshot.
        work: its chunks with their files.
        ours: of each chunk, in order, by pseudo-queue.
        panda: of each chunk, in order, by queue; None where PanDA placed nothing.
        prices: values of the keys of the program.
    """
    results, unknown = list(cycle.results()), Counter[str]()
    theirs = [_at_candidates(cycle, one, jobs, unknown) for one, jobs in zip(results, panda, strict=True)]
    both = [bool(one) and bool(two) for one, two in zip(ours, theirs, strict=True)]
    unknown[OURS_NOTHING] += sum(
        sum((jobs or {}).values()) for jobs, known in zip(theirs, both, strict=True) if not known
    )
    place = place_of(cycle)
    kept = [({**(one or {})}, two) if known else ({}, {}) for one, two, known in zip(ours, theirs, both, strict=True)]
    candidates: list[Ints] = [
        np.array(sorted({place[name] for name in (*one, *two) if name in place}), dtype=np.int64) for one, two in kept
    ]
    program = program_of(cycle, results, work, candidates, prices)
    problem, chunk = program.problem, program.problem.pairs.chunk
    own = amounts_of(cycle, work, program, [one for one, _ in kept])
    other = amounts_of(cycle, work, program, [two for _, two in kept])
    size = len(problem.chunks)
    total, asked = (np.bincount(chunk, weights=one, minlength=size) for one in (own, other))
    # as many jobs of each chunk as ours placed
    other = other * (total / np.where(asked > 0, asked, 1.0))[chunk]
    own = own * (asked > 0)[chunk]
    nothing: Floats = np.zeros(size)
    gb = moved_gb(problem)
    return Beside(
        chunks=int(((total > 0) & (asked > 0)).sum()),
        jobs=float(own.sum()),
        ours=cost_parts(problem, own, nothing, problem.share_debt_hs06),
        panda=cost_parts(problem, other, nothing, problem.share_debt_hs06),
        our_gb=float((gb * own).sum()),
        panda_gb=float((gb * other).sum()),
        unknown={reason: count for reason, count in sorted(unknown.items()) if count},
    )


def _at_candidates(cycle: JobCycle, result: ChunkResult, jobs: Placed, unknown: Counter[str]) -> dict[str, int]:
    """PanDA's jobs by pseudo-queue: of those of its queue the first that passed, else the first."""
    queues, found = cycle.snapshot.queues, Counter[str]()
    for name, count in (jobs or {}).items():
        there = np.flatnonzero(queues.unified_name == unified_of(name))
        if not len(there):
            unknown[QUEUE_UNKNOWN] += count
            continue
        passed = there[np.isin(there, result.feasible)]
        found[str(queues.name[passed[0] if len(passed) else there[0]])] += count
    return dict(found)
