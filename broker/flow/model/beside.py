"""Compare the cost of PanDA's placement of a cycle's chunks with ours, by the same program. Pure.

The cost is time, bytes and wait.
"""

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

#: Reasons why jobs placed by PanDA are not compared.
QUEUE_UNKNOWN, OURS_NOTHING = "queue_not_in_snapshot", "ours_placed_nothing"


@dataclass(frozen=True)
class PlacementComparison:
    """The same jobs as placed by PanDA and by us.

    Attributes:
        chunks: number of chunks that both placed.
        jobs: jobs of these chunks in our placement; PanDA's are scaled to the same number for each chunk.
        ours, panda: cost of each placement; limits are not checked.
        our_gb, panda_gb: GB moved by each placement.
        unknown: jobs placed by PanDA that are not compared, by reason.
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
) -> PlacementComparison:
    """Price PanDA's placement of a cycle's chunks next to ours.

    Args:
        cycle: the cycle over its work, in which every chunk meets the grid of the snapshot.
        work: its chunks with their files.
        ours: our placement of each chunk, in order, by pseudo-queue.
        panda: PanDA's placement of each chunk, in order, by queue; None if PanDA placed nothing.
        prices: values of the keys of the program.
    """
    results, unknown = list(cycle.results()), Counter[str]()
    theirs = [_at_candidates(cycle, one, jobs, unknown) for one, jobs in zip(results, panda, strict=True)]
    both = [bool(one) and bool(two) for one, two in zip(ours, theirs, strict=True)]
    unknown[OURS_NOTHING] += sum(
        sum((jobs or {}).values()) for jobs, known in zip(theirs, both, strict=True) if not known
    )
    place = place_of(cycle)
    compared = [
        ({**(one or {})}, two) if known else ({}, {}) for one, two, known in zip(ours, theirs, both, strict=True)
    ]
    candidates: list[Ints] = [
        np.array(sorted({place[name] for name in (*one, *two) if name in place}), dtype=np.int64)
        for one, two in compared
    ]
    program = program_of(cycle, results, work, candidates, prices)
    problem, chunk = program.problem, program.problem.pairs.chunk
    own = amounts_of(cycle, work, program, [one for one, _ in compared])
    other = amounts_of(cycle, work, program, [two for _, two in compared])
    size = len(problem.chunks)
    our_jobs, panda_jobs = (np.bincount(chunk, weights=one, minlength=size) for one in (own, other))
    # scale to the number of jobs of each chunk in our placement
    other = other * (our_jobs / np.where(panda_jobs > 0, panda_jobs, 1.0))[chunk]
    own = own * (panda_jobs > 0)[chunk]
    no_costs: Floats = np.zeros(size)
    gb = moved_gb(problem)
    return PlacementComparison(
        chunks=int(((our_jobs > 0) & (panda_jobs > 0)).sum()),
        jobs=float(own.sum()),
        ours=cost_parts(problem, own, no_costs, problem.share_debt_hs06),
        panda=cost_parts(problem, other, no_costs, problem.share_debt_hs06),
        our_gb=float((gb * own).sum()),
        panda_gb=float((gb * other).sum()),
        unknown={reason: count for reason, count in sorted(unknown.items()) if count},
    )


def _at_candidates(cycle: JobCycle, result: ChunkResult, jobs: Placed, unknown: Counter[str]) -> dict[str, int]:
    """PanDA's jobs by pseudo-queue: the first one of the queue that passed, or else the first."""
    queues, by_candidate = cycle.snapshot.queues, Counter[str]()
    for name, count in (jobs or {}).items():
        candidates = np.flatnonzero(queues.unified_name == unified_of(name))
        if not len(candidates):
            unknown[QUEUE_UNKNOWN] += count
            continue
        passed = candidates[np.isin(candidates, result.feasible)]
        by_candidate[str(queues.name[passed[0] if len(passed) else candidates[0]])] += count
    return dict(by_candidate)
