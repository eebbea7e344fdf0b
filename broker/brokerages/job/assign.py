"""A cycle of a job brokerage from chunks to jobs: rank, draw, cut, count, next chunk.

Pure and seeded: the same snapshot, work, tuning and seed give the same jobs.

A placement that a profile names may decide all chunks of the cycle together before their jobs are cut. Each chunk is
stored with its part of the plan, which suffices to explain and to repeat its decision alone; a whole cycle is replayed
from its chunks.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from time import perf_counter

import numpy as np

from broker.brokerages.base import StageTimes
from broker.brokerages.job.assign_compiled import compiled_cycle
from broker.brokerages.job.assigned import CANDIDATES_FULL as CANDIDATES_FULL, AssignedChunk
from broker.brokerages.job.chunk_jobs import ChunkJobs, QueueLimits
from broker.brokerages.job.joint_placement import JointPlacement
from broker.domain.arrays import Bools, Floats, Ints, codes_of
from broker.domain.counted_load import ChunkPlan, CountedLoad
from broker.domain.decisions import Decision
from broker.engine.job.chunk_result import Block, ChunkResult
from broker.engine.job.cycle import JobCycle
from broker.engine.job.decision import decision_of
from broker.engine.shared.distribute import Candidates, Distribution, JobSource, distribute, group_size
from broker.engine.shared.rank import cut_codes
from broker.rules.production_job.cuts.cap import cap_of
from broker.work.assemble import CycleWork
from broker.work.cut_jobs import CutJobs

#: Numbers below this fit into one word of a seed.
_ONE_WORD = 2**32


def assign_chunks(
    cycle: JobCycle,
    work: CycleWork,
    seed: int,
    times: StageTimes | None = None,
    clock: Callable[[], float] = perf_counter,
    before: Sequence[CountedLoad] | None = None,
) -> Iterator[AssignedChunk]:
    """Broker and cut the chunks in order; jobs of earlier chunks count for later ones.

    Args:
        cycle: over the same work.
        work: the chunks with their files.
        seed: of the random draws; each chunk draws from its own stream, so that omitting one changes no other.
        times: filled with the seconds of the two stages.
        clock: measures them; it has no influence on the result.
        before: for each chunk the load to count before it, instead of what was assigned here.
    """
    spent = times if times is not None else StageTimes()
    maker = JobMaker(cycle, work)
    compiled = compiled_cycle(cycle, work, seed) if before is None else None
    if compiled is not None:
        yield from compiled.assigned(partial(_placed_alone, maker, seed, spent, clock), spent, clock)
        return
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
        placed = _placed(maker, result, decision, seed)
        cycle.add_load(result.row, *placed.given)
        spent.cut_s += clock() - decided
        yield placed


def _placed_alone(
    maker: JobMaker, seed: int, spent: StageTimes, clock: Callable[[], float], block: Block, row: int
) -> AssignedChunk:
    """Decide one chunk of a block, and count what it places."""
    started = clock()
    result = maker.cycle.result(block, row)
    decision = decision_of(maker.cycle, result)
    decided = clock()
    placed = _placed(maker, result, decision, seed)
    maker.cycle.add_load(row, *placed.given)
    spent.decide_s += decided - started
    spent.cut_s += clock() - decided
    return placed


def _placed(maker: JobMaker, result: ChunkResult, decision: Decision, seed: int) -> AssignedChunk:
    candidate, jobs = maker.drawn(result, seed)
    if decision.outcome == "brokered" and not len(jobs):
        decision = decision.pending(CANDIDATES_FULL)
    return AssignedChunk(result.row, decision, candidate, jobs, maker.cycle.load_before(result.row))


class JobMaker:
    """Cuts the chunks of a cycle into jobs.

    Args:
        cycle: that judges the chunks.
        work: of the cycle, with the files.
    """

    def __init__(self, cycle: JobCycle, work: CycleWork) -> None:
        self.cycle, self._work = cycle, work
        self._limits = QueueLimits(work.work.chunks, cycle.snapshot.queues)

    def drawn(self, result: ChunkResult, seed: int) -> tuple[Ints, CutJobs]:
        """The jobs of a chunk, and for each the position of its candidate in the snapshot's queue table.

        Args:
            result: of the chunk.
            seed: of the draws.
        """
        source = self._jobs_of(result)
        draw_jobs(self.cycle, result, source, seed)
        candidate, jobs = source.result()
        return result.chosen[candidate], jobs

    def planned(self, result: ChunkResult, wanted: Mapping[int, int]) -> tuple[Ints, CutJobs]:
        """The jobs of a chunk for which the number at each candidate is already decided.

        Files left over, because jobs take fewer files than expected, wait for the next cycle.

        Args:
            result: of the chunk.
            wanted: jobs by position of the candidate in the snapshot's queue table.
        """
        source = self._jobs_of(result)
        for at, position in enumerate(result.chosen.tolist()):
            missing = wanted.get(position, 0)
            while missing > 0 and source.has_files():
                count = source.make(at, missing)
                if not count:
                    break
                missing -= count
        candidate, jobs = source.result()
        return result.chosen[candidate], jobs

    def count(self, result: ChunkResult, seed: int) -> dict[int, int]:
        """The number of jobs of :meth:`drawn` at each candidate, by its position in the snapshot's queue table."""
        distribution = draw_jobs(self.cycle, result, self._jobs_of(result), seed)
        counts: dict[int, int] = {}
        for group in distribution.groups if distribution is not None else ():
            position = int(result.chosen[group.candidate])
            counts[position] = counts.get(position, 0) + group.jobs
        return counts

    def _jobs_of(self, result: ChunkResult) -> ChunkJobs:
        chosen, row = result.chosen, result.row
        holds = _holds(self.cycle, self._work, row, chosen)
        return ChunkJobs(self._work.cutter(row), self._limits.of(row, chosen), holds)


def draw_jobs(cycle: JobCycle, result: ChunkResult, source: JobSource, seed: int) -> Distribution | None:
    """Give the jobs of any source to the candidates of a chunk; None if it has no candidates."""
    if result.ranking is None or not len(result.chosen):
        return None
    chunks, row = cycle.work.chunks, result.row
    size = group_size(bool(chunks.scout[row]), bool(chunks.merging[row]), hpo=False)
    return distribute(_candidates(cycle, result), source, size, _random(cycle, row, seed))


def _random(cycle: JobCycle, row: int, seed: int) -> np.random.Generator:
    chunks = cycle.work.chunks
    ramcount = chunks.ramcount[row]
    identity = (
        abs(seed),
        abs(int(chunks.jeditaskid[row])),
        abs(int(chunks.datasetid[row])),
        0 if ramcount != ramcount else abs(int(ramcount) + 1),
    )
    if max(identity) < _ONE_WORD:
        # the same words that numpy derives from these numbers, at a quarter of the cost
        return np.random.Generator(np.random.PCG64(np.array(identity, dtype=np.uint32)))
    return np.random.default_rng(identity)


def _candidates(cycle: JobCycle, result: ChunkResult) -> Candidates:
    ranking = result.ranking
    if ranking is None:
        raise ValueError(f"chunk {result.row} has no candidates to give jobs to")
    load = result.load if result.load is not None else cycle.load(result.block, result.row, result.chosen)
    waiting, limit = cap_of(cycle.chain.cuts).room(load)
    if result.load is not None:
        waiting, limit = waiting[ranking.chosen], limit[ranking.chosen]
    size = len(result.chosen)
    return Candidates(
        weight=ranking.weight[ranking.chosen],
        queued=_each(waiting, size),
        cap=np.full(size, np.nan) if bool(load.urgent) else _each(limit, size),
        bootstrap=ranking.bootstrap[ranking.chosen],
        chunk_size=cycle.jobs_at_a_time(result.row)[result.chosen],
    )


def _each(jobs: Floats, size: int) -> Floats:
    """(C,) one figure for each candidate; a scalar is repeated."""
    return jobs if jobs.shape == (size,) else np.broadcast_to(jobs, size)


def _holds(cycle: JobCycle, work: CycleWork, row: int, chosen: Ints) -> Bools | None:
    """(C, files) the files that each candidate holds of a distributed master dataset; None for any other dataset."""
    spread = work.spread_replicas.get(row)
    if spread is None:
        return None
    low, high = spread
    replicas = work.work.replicas
    storages = codes_of(replicas.rse[low:high], list(cycle.snapshot.storages.name))
    relations, unified = cycle.snapshot.relations, cycle.snapshot.queues.unified[chosen]
    holds = np.zeros((len(chosen), int(work.work.chunks.n_files[row])), dtype=np.bool_)
    readable = cycle.reading()
    for replica, storage in zip(range(low, high), storages, strict=True):
        held = work.held[replica]
        queues = relations.unified[readable & (relations.storage == storage)]
        holds[np.isin(unified, queues)] |= True if held is None else held
    return holds


def assign_together(
    cycle: JobCycle,
    work: CycleWork,
    seed: int,
    times: StageTimes | None = None,
    clock: Callable[[], float] = perf_counter,
    before: Sequence[CountedLoad] | None = None,
    fallback: str | None = None,
) -> Iterator[AssignedChunk]:
    """Broker the chunks together, and cut them in order.

    Args:
        cycle: over the same work, in which every chunk meets the grid of the snapshot.
        work: the chunks with their files.
        seed: of the rounding.
        times: filled with the seconds of the two stages.
        clock: measures them; it has no influence on the result.
        before: for each chunk what was stored with it; parts of a plan in it replace a plan made here, unless another
            placement made them.
        fallback: what the cycle fell back to when it was first decided, so that it does so again; None: it is decided
            for the first time, within its time limit.
    """
    spent = times if times is not None else StageTimes()
    placement = cycle.chain.steps.placement
    if not isinstance(placement, JointPlacement):
        raise TypeError(f"placement by {placement.by} does not decide chunks together")
    started = clock()
    results = list(cycle.results())
    plans = [one.plan for one in before or () if one.plan is not None and placement.knows(one.plan.codes)]
    if before is None or len(plans) < len(before):
        plans = _new_plans(placement, cycle, results, work, seed, fallback)
    maker = JobMaker(cycle, work)
    for result, plan in zip(results, plans, strict=True):
        planned = with_plan(cycle, result, plan)
        decision = decision_of(cycle, planned)
        decided = clock()
        spent.decide_s += decided - started
        candidate, jobs = maker.planned(planned, _places(cycle, plan))
        started = clock()
        spent.cut_s += started - decided
        yield AssignedChunk(result.row, decision, candidate, jobs, CountedLoad(plan=plan))


def _new_plans(
    placement: JointPlacement,
    cycle: JobCycle,
    results: Sequence[ChunkResult],
    work: CycleWork,
    seed: int,
    fallback: str | None,
) -> list[ChunkPlan]:
    plans = placement.plans(cycle, results, work, seed, fallback)
    for plan in plans:
        if not placement.knows(plan.codes):
            unknown = ", ".join(sorted({*plan.codes} - {"", *placement.codes}))
            raise ValueError(f"placement {placement.by} plans with codes of no reason in its gives: {unknown}")
    return plans


def with_plan(cycle: JobCycle, result: ChunkResult, plan: ChunkPlan | None) -> ChunkResult:
    """The outcome of a chunk with its part of the plan: the chosen queues are those that get jobs, most first.

    Without a plan, by a placement that makes none, or with nothing to rank, the outcome is unchanged; so it is with a
    plan of another placement, which this one cannot explain. A queue that is feasible now but was not when the plan was
    made, with other values or rules, counts as chosen too, after the others and without jobs.
    """
    ranking, placement = result.ranking, cycle.chain.steps.placement
    if plan is None or not placement.together or not placement.knows(plan.codes):
        return result
    if ranking is None or not len(ranking.chosen):
        return result
    behind = len(cut_codes(cycle.chain.cuts))
    cut, jobs = ranking.cut.copy(), np.zeros(len(ranking.cut), dtype=np.int64)
    unplanned = cut < 0
    inside = {str(cycle.snapshot.queues.name[at]): place for place, at in enumerate(result.feasible.tolist())}
    for name, count, code in zip(plan.queues, plan.jobs, plan.codes, strict=True):
        if name in inside:
            jobs[inside[name]], unplanned[inside[name]] = count, False
            cut[inside[name]] = -1 if count else behind + placement.codes.index(code)
    with_jobs = np.flatnonzero(jobs)
    chosen = np.concatenate([with_jobs[np.argsort(-jobs[with_jobs], kind="stable")], np.flatnonzero(unplanned)])
    planned = dataclasses.replace(ranking, chosen=chosen, cut=cut)
    reason = result.reason if len(chosen) else placement.left_over
    return dataclasses.replace(result, ranked_alone=planned, reason=reason, plan=plan)


def _places(cycle: JobCycle, plan: ChunkPlan) -> dict[int, int]:
    """Jobs by position in the snapshot's queue table."""
    place = cycle.legend.place_of
    return {place[name]: jobs for name, jobs in zip(plan.queues, plan.jobs, strict=True) if jobs}
