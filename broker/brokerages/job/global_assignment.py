"""A cycle of a job brokerage that decides all its chunks together, by one linear program, and then cuts their jobs.

Pure and seeded like the order by weight. Each chunk carries its part of the plan, with which it is stored: by that a
decision is explained and made again alone. A whole cycle is decided again from its chunks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter

import numpy as np

from broker.brokerages.base import StageTimes
from broker.brokerages.job.assign import JobMaker
from broker.brokerages.job.assigned import AssignedChunk
from broker.domain.counted_load import ChunkPlan, CountedLoad
from broker.engine.job.chunk_result import ChunkResult
from broker.engine.job.cycle import JobCycle
from broker.engine.job.decision import decision_of
from broker.engine.job.placement import FLOW_CODES, LEFT_OVER
from broker.engine.shared.rank import cut_codes
from broker.flow.model.cycle import binding_causes, decide
from broker.flow.model.flow_problem import FLOW_KEYS, TIME_LIMIT, program_of
from broker.work.assemble import CycleWork

#: Digits of a reduced cost that are kept.
_DIGITS = 6
_GREEDY = "greedy"
#: What solved a program without anything to place.
_NOTHING = "none"


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
        before: for each chunk what was stored with it; parts of a plan in it hold instead of a plan made here.
        fallback: what the cycle fell back to when it was decided first, so that it does so again; None: it is decided
            for the first time, within its time limit.
    """
    spent = times if times is not None else StageTimes()
    started = clock()
    results = list(cycle.results())
    given = [one.plan for one in before] if before is not None else [None] * len(results)
    if None in given:
        plans = plan_chunks(cycle, results, work, seed, fallback)
    else:
        plans = [plan for plan in given if plan is not None]
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


def plan_chunks(
    cycle: JobCycle, results: Sequence[ChunkResult], work: CycleWork, seed: int, fallback: str | None
) -> list[ChunkPlan]:
    """Plan the jobs of each chunk; see :func:`assign_together`."""
    program = program_of(cycle, results, work)
    problem = program.problem
    if not len(problem.pairs):
        return [ChunkPlan((), (), (), (), 0, _NOTHING)] * len(results)
    limit_s = cycle.tuning.only(FLOW_KEYS).number(TIME_LIMIT)
    if fallback is not None:
        limit_s = 0.0 if fallback else float("inf")
    found = decide(problem, abs(seed), time_limit_s=limit_s)
    solver = _GREEDY if found.linear is None else found.linear.solver
    names, cause = cycle.snapshot.queues.name, binding_causes(found, problem)
    plans = [ChunkPlan((), (), (), (), 0, solver, found.fallback)] * len(results)
    ends = np.searchsorted(problem.pairs.chunk, np.arange(len(program.row) + 1))
    for at, row in enumerate(program.row.tolist()):
        own = slice(ends[at], ends[at + 1])
        jobs = found.jobs[own].tolist()
        plans[row - results[0].row] = ChunkPlan(
            queues=tuple(str(name) for name in names[program.candidate[own]]),
            jobs=tuple(jobs),
            dearer_hs06h=tuple(_rounded(value) for value in found.reduced_hs06h[own].tolist()),
            codes=tuple("" if n else FLOW_CODES[why] for n, why in zip(jobs, cause[own].tolist(), strict=True)),
            left=int(found.left[at]),
            solver=solver,
            fallback=found.fallback,
        )
    return plans


def _rounded(value: float) -> float:
    """A cost rounded to the stored digits; the solver's negative remainders are 0."""
    return max(0.0, float(f"{value:.{_DIGITS}g}")) if abs(value) > 1e-6 else 0.0


def with_plan(cycle: JobCycle, result: ChunkResult, plan: ChunkPlan | None) -> ChunkResult:
    """The outcome of a chunk with its part of the plan: chosen are the queues that get jobs, most first.

    Without a plan, or where there is nothing to rank, it is as it is. A queue that is feasible now and was not when the
    plan was made, with other values or rules, counts as chosen too, behind the others and without jobs.
    """
    ranking = result.ranking
    if plan is None or ranking is None or not len(ranking.chosen):
        return result
    behind = len(cut_codes(cycle.chain.cuts))
    cut, jobs = ranking.cut.copy(), np.zeros(len(ranking.cut), dtype=np.int64)
    unplanned = cut < 0
    inside = {str(cycle.snapshot.queues.name[at]): place for place, at in enumerate(result.feasible.tolist())}
    for name, count, code in zip(plan.queues, plan.jobs, plan.codes, strict=True):
        if name in inside:
            jobs[inside[name]], unplanned[inside[name]] = count, False
            cut[inside[name]] = -1 if count else behind + FLOW_CODES.index(code)
    given = np.flatnonzero(jobs)
    chosen = np.concatenate([given[np.argsort(-jobs[given], kind="stable")], np.flatnonzero(unplanned)])
    planned = dataclasses.replace(ranking, chosen=chosen, cut=cut)
    reason = result.reason if len(chosen) else LEFT_OVER
    return dataclasses.replace(result, ranked_alone=planned, reason=reason, plan=plan)


def _places(cycle: JobCycle, plan: ChunkPlan) -> dict[int, int]:
    """Jobs by position in the snapshot's queue table."""
    place = cycle.legend.place_of
    return {place[name]: jobs for name, jobs in zip(plan.queues, plan.jobs, strict=True) if jobs}
