"""A cycle of a job brokerage from chunks to jobs: rank, draw, cut, count what was placed, and go on to the next chunk.

Pure and seeded: the same snapshot, work, tuning and seed give the same jobs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from broker.brokerages.base import StageTimes
from broker.brokerages.job.chunk_jobs import ChunkJobs, cut_limits
from broker.domain.arrays import Bools, Ints, Texts, codes_of
from broker.domain.counted_load import CountedLoad
from broker.domain.decisions import Decision
from broker.domain.work_codec import NO_LOAD
from broker.engine.job.cycle import ChunkResult, JobCycle
from broker.engine.job.decision import decision_of
from broker.engine.shared.distribute import Candidates, Distribution, JobSource, distribute, group_size
from broker.rules.production_job.cuts.cap import Cap
from broker.work.assemble import CycleWork
from broker.work.cut_jobs import CutJobs

CANDIDATES_FULL = "candidates_full"
_SHIPPED_CAP = Cap()


@dataclass(frozen=True)
class AssignedChunk:
    """One chunk with its decision and the jobs that were made of it.

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

    def assigned(self, names: Texts) -> dict[str, int]:
        """Number of jobs by candidate name; ``names`` is the name column of the queue table."""
        positions, counts = np.unique(self.candidate, return_counts=True)
        return {str(names[position]): int(count) for position, count in zip(positions, counts, strict=True)}


def assign_chunks(
    cycle: JobCycle,
    work: CycleWork,
    seed: int,
    times: StageTimes | None = None,
    clock: Callable[[], float] = perf_counter,
    before: Sequence[CountedLoad] | None = None,
) -> Iterator[AssignedChunk]:
    """Broker and cut the chunks in order; each finds what those before it have placed.

    Args:
        cycle: over the same work.
        work: the chunks with their files.
        seed: of the random draws; each chunk draws from a stream of its own, so that leaving out one changes no other.
        times: filled with the seconds of the two stages.
        clock: measures them; it has no influence on the result.
        before: for each chunk the load to count before it, instead of what was assigned here.
    """
    spent = times if times is not None else StageTimes()
    results = cycle.results()
    for row in itertools.count():
        if before is not None and row < len(before):
            cycle.set_load(row, before[row])
        started = clock()
        result = next(results, None)
        if result is None:
            spent.decide_s += clock() - started
            return
        decision = decision_of(cycle, result)
        decided = clock()
        spent.decide_s += decided - started
        placed = _placed(cycle, work, result, decision, seed)
        cycle.add_load(result.row, *np.unique(placed.candidate, return_counts=True))
        spent.cut_s += clock() - decided
        yield placed


def _placed(cycle: JobCycle, work: CycleWork, result: ChunkResult, decision: Decision, seed: int) -> AssignedChunk:
    candidate, jobs = drawn_jobs(cycle, work, result, seed)
    if decision.outcome == "brokered" and not len(jobs):
        decision = decision.pending(CANDIDATES_FULL)
    return AssignedChunk(result.row, decision, candidate, jobs, cycle.load_before(result.row))


def drawn_jobs(cycle: JobCycle, work: CycleWork, result: ChunkResult, seed: int) -> tuple[Ints, CutJobs]:
    """The jobs of a chunk, and of each the position of its candidate in the snapshot's queue table.

    Args:
        cycle: that gave the result.
        work: of the cycle, with the files.
        result: of the chunk.
        seed: of the draws.
    """
    source = _jobs_of(cycle, work, result)
    draw_jobs(cycle, result, source, seed)
    candidate, jobs = source.result()
    return result.chosen[candidate], jobs


def _jobs_of(cycle: JobCycle, work: CycleWork, result: ChunkResult) -> ChunkJobs:
    chosen, row = result.chosen, result.row
    return ChunkJobs(
        work.cutter(row),
        cut_limits(work.work.chunks, row, cycle.snapshot.queues, chosen),
        _holds(cycle, work, row, chosen),
    )


def count_jobs(cycle: JobCycle, work: CycleWork, result: ChunkResult, seed: int) -> dict[int, int]:
    """How many of the jobs of :func:`drawn_jobs` each candidate gets, by its position in the snapshot's queue table."""
    given = draw_jobs(cycle, result, _jobs_of(cycle, work, result), seed)
    counts: dict[int, int] = {}
    for group in given.groups if given is not None else ():
        at = int(result.chosen[group.candidate])
        counts[at] = counts.get(at, 0) + group.jobs
    return counts


def draw_jobs(cycle: JobCycle, result: ChunkResult, source: JobSource, seed: int) -> Distribution | None:
    """Give the jobs of any source to the candidates of a chunk; None if it has none."""
    if result.ranking is None or not len(result.chosen):
        return None
    chunks, row = cycle.work.chunks, result.row
    size = group_size(bool(chunks.scout[row]), bool(chunks.merging[row]), hpo=False)
    return distribute(_candidates(cycle, result), source, size, _random(cycle, row, seed))


def _random(cycle: JobCycle, row: int, seed: int) -> np.random.Generator:
    chunks = cycle.work.chunks
    ramcount = chunks.ramcount[row]
    identity = (
        seed,
        int(chunks.jeditaskid[row]),
        int(chunks.datasetid[row]),
        0 if ramcount != ramcount else int(ramcount) + 1,
    )
    return np.random.default_rng([abs(part) for part in identity])


def _candidates(cycle: JobCycle, result: ChunkResult) -> Candidates:
    ranking = result.ranking
    if ranking is None:
        raise ValueError(f"chunk {result.row} has no candidates to give jobs to")
    load = cycle.load(result.block, result.row, result.chosen)
    cap = next((rule for rule in cycle.chain.cuts if isinstance(rule, Cap)), _SHIPPED_CAP)
    waiting, limit = cap.room(load)
    size = len(result.chosen)
    unlimited = np.full(size, np.nan)
    chunk_size = np.nan_to_num(cycle.snapshot.queues.job_chunk_size[result.chosen])
    return Candidates(
        weight=ranking.weight[ranking.chosen],
        queued=np.broadcast_to(waiting, size),
        cap=unlimited if bool(load.urgent) else np.broadcast_to(limit, size),
        bootstrap=ranking.bootstrap[ranking.chosen],
        chunk_size=np.maximum(chunk_size, 0).astype(np.int64),
    )


def _holds(cycle: JobCycle, work: CycleWork, row: int, chosen: Ints) -> Bools | None:
    """(C, files) for a distributed master dataset of which parts are in different places, else None."""
    inputs, replicas = work.work.inputs, work.work.replicas
    first, last = np.searchsorted(inputs.chunk, (row, row + 1))
    if first == last or not inputs.distributed[first] or not inputs.is_master[first]:
        return None
    low, high = np.searchsorted(replicas.input, (first, first + 1))
    if all(work.held[replica] is None for replica in range(low, high)):
        return None
    storages = codes_of(replicas.rse[low:high], list(cycle.snapshot.storages.name))
    relations, unified = cycle.snapshot.relations, cycle.snapshot.queues.unified[chosen]
    holds = np.zeros((len(chosen), int(work.work.chunks.n_files[row])), dtype=np.bool_)
    readable = cycle.reading()
    for replica, storage in zip(range(low, high), storages, strict=True):
        held = work.held[replica]
        queues = relations.unified[readable & (relations.storage == storage)]
        holds[np.isin(unified, queues)] |= True if held is None else held
    return holds
