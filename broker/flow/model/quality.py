"""How far a stored cycle is from the best placement of its jobs: the linear program over the same facts. Pure.

The cycle is evaluated again with its own snapshot, work, values and rules. The program prices what it placed, the
optimum, and an even draw. No decision uses the result. The regret is split by share, at the optimal prices, and by
queue.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from broker.domain.arrays import Bools, Floats, Ints
from broker.engine.job.chunk_result import ChunkResult
from broker.engine.job.cycle import JobCycle
from broker.engine.shared.evaluate import reason_codes
from broker.flow.model.flow_problem import URGENT, CycleProgram, program_of
from broker.flow.model.placed import Placed, amounts_of, place_of
from broker.flow.model.problem import (
    SEGMENTS,
    CostParts,
    FlowProblem,
    cost_parts,
    moved_gb,
    pair_hs06,
    queue_cores,
    rows_of,
    segment_size,
    segment_waits,
    wait_costs,
)
from broker.flow.model.program import FlowProgram, LinearSolution, Prices
from broker.flow.model.rule_worth import Rejections, RuleWorth, rule_worths
from broker.flow.model.warm_program import WarmProgram
from broker.gdpconfig.catalogue import Value
from broker.work.assemble import CycleWork

#: Most queues listed, those with the largest difference in cores.
MOST_QUEUES = 10


@dataclass(frozen=True)
class QueueDifference:
    """Cores requested at a queue by the placed jobs, and by the best placement."""

    queue: int
    cores: float
    best_cores: float


def regret_of_shares(program: FlowProgram, prices: Prices, jobs: Floats) -> Floats:
    """(S,) regret of each share in HS06 h; the sum is the regret of the cycle, and none is negative.

    By duality the regret is the sum of all deviations from what the prices demand: jobs placed where they are dearer
    than at their best use, unplaced jobs, priced places left unused, and queues fuller or emptier than they should be.
    Jobs and places belong to one share; queues and links are divided by the jobs that the shares have there.

    Args:
        program: the program of the cycle.
        prices: the optimal prices.
        jobs: (P,) placed jobs, within all limits.
    """
    problem, rows = program.problem, program.rows
    pairs, chunks, shares = problem.pairs, problem.chunks, len(program.debt)
    share = chunks.share[pairs.chunk]
    placed = np.bincount(pairs.chunk, weights=jobs, minlength=len(chunks))
    own = np.asarray(np.bincount(share, weights=program.reduced_costs(prices) * jobs, minlength=shares), np.float64)
    over = (chunks.jobs - placed) * (program.unplaced - prices.chunk)
    own = own + np.bincount(chunks.share, weights=over, minlength=shares)
    used = np.bincount(rows.room_of, weights=jobs, minlength=len(rows.room))
    room = np.where(rows.limited, prices.room * (np.where(rows.limited, rows.room, 0.0) - used), 0.0)
    own = own + np.bincount(rows.cells % shares, weights=room, minlength=shares)
    got = np.bincount(share, weights=pair_hs06(problem) * jobs, minlength=shares)
    lacks = program.debt - got
    own = own + problem.costs.share_debt * np.maximum(lacks, 0.0) - prices.share * lacks
    own = own + _divided(
        _of_queues(problem, prices, jobs), pairs.queue, share, jobs * chunks.cores[pairs.chunk], shares
    )
    own = own + _of_limits(problem.link_gb, prices.link, rows.link_of, jobs * rows.gb, share, shares)
    own = own + _of_limits(problem.output_jobs, prices.output, pairs.output, jobs, share, shares)
    return np.maximum(own, 0.0)


def _of_queues(problem: FlowProblem, prices: Prices, jobs: Floats) -> Floats:
    """(Q,) HS06 h by which the wait at a queue is dearer than with the number of cores that its price demands."""
    cores = queue_cores(problem, jobs)
    size = np.repeat(segment_size(problem)[:, None], SEGMENTS - 1, axis=1)
    best = (np.minimum(segment_waits(problem)[:, :-1] - prices.wait[:, None], 0.0) * size).sum(axis=1)
    return np.asarray(wait_costs(problem, cores) - prices.wait * cores - best)


def _of_limits(limit: Floats, price: Floats, index: Ints, used: Floats, share: Ints, shares: int) -> Floats:
    """(S,) the value of the unused part of each limit."""
    if not len(limit):
        return np.zeros(shares)
    inside = index >= 0
    usage = np.bincount(index[inside], weights=used[inside], minlength=len(limit))
    return _divided(price * (limit - usage), index[inside], share[inside], used[inside], shares)


def _divided(cost: Floats, index: Ints, share: Ints, weight: Floats, shares: int) -> Floats:
    """(S,) costs (N,) divided among the shares by their weight at each; by total weight where no share has any."""
    cells = np.bincount(index * shares + share, weights=weight, minlength=len(cost) * shares).reshape(len(cost), shares)
    total = cells.sum(axis=1)
    every = cells.sum(axis=0) if total.sum() > 0 else np.ones(shares)
    parts = np.where(total[:, None] > 0, cells / np.where(total > 0, total, 1.0)[:, None], every / every.sum())
    return np.asarray((cost[:, None] * parts).sum(axis=0))


def queue_differences(problem: FlowProblem, jobs: Floats, best: Floats) -> tuple[QueueDifference, ...]:
    """The queues that should have received more or less, largest difference first."""
    cores, best_cores = queue_cores(problem, jobs), queue_cores(problem, best)
    order = np.argsort(-np.abs(cores - best_cores), kind="stable")[:MOST_QUEUES]
    return tuple(
        QueueDifference(int(queue), float(cores[queue]), float(best_cores[queue]))
        for queue in order
        if abs(cores[queue] - best_cores[queue]) >= 1.0
    )


Unmeasured = Literal["nothing", "time_limit"]
WithoutRule = Callable[[str], JobCycle]


@dataclass(frozen=True)
class Yardstick:
    """The parameters by which cycles are measured.

    Attributes:
        prices: values of the keys ``FLOW_*`` that override the tuning.
        time_limit_s: time limit for the program and the costs of rules together.
        rules: number of rules for which the program is solved again.
    """

    prices: Mapping[str, Value]
    time_limit_s: float = 30.0
    rules: int = 3


@dataclass(frozen=True)
class ShareRegret:
    """Jobs of a share that the cycle had to place, and the share's part of the regret in HS06 h."""

    share: str
    jobs: int
    regret_hs06h: float


@dataclass(frozen=True)
class QueueCores:
    """Cores requested at a queue by the placed jobs, and by the best placement."""

    queue: str
    cores: float
    best_cores: float


@dataclass(frozen=True)
class Measured:
    """The cost of a cycle compared with the best placement of the same jobs.

    Attributes:
        chunks, jobs: chunks and jobs that had to be placed; ``placed``: jobs that were.
        cost: cost of the actual placement; ``best``: of the best one.
        even_hs06h: cost with the jobs spread evenly over every queue that passed; limits are not checked.
        gb, best_gb: GB moved in each, of the ``input_gb`` that the jobs read.
        shares: each share with its part of the regret, largest first; they sum to the regret.
        queues: queues that should have received more or less.
        rules: the cost of each rule, not part of the regret, since a rule may be right.
        solver: name and version.
    """

    chunks: int
    jobs: int
    placed: float
    cost: CostParts
    best: CostParts
    even_hs06h: float
    gb: float
    best_gb: float
    input_gb: float
    shares: tuple[ShareRegret, ...]
    queues: tuple[QueueCores, ...]
    rules: tuple[RuleWorth, ...]
    solver: str

    @property
    def regret_hs06h(self) -> float:
        """The excess cost of the cycle over the best placement, never negative."""
        return max(0.0, self.cost.total - self.best.total)

    @property
    def range_hs06h(self) -> float:
        """The excess cost of an even draw over the best placement."""
        return max(0.0, self.even_hs06h - self.best.total)


def measure(
    cycle: JobCycle,
    work: CycleWork,
    placed: Sequence[Placed],
    yardstick: Yardstick,
    without: WithoutRule,
    clock: Callable[[], float],
) -> Measured | Unmeasured:
    """Measure a cycle, or say why it cannot be measured: no queue passed for any chunk, or the time ran out.

    Args:
        cycle: the cycle over its work, in which every chunk meets the grid of the snapshot.
        work: its chunks with their files.
        placed: the placement of each chunk, in order.
        yardstick: the parameters of the measurement.
        without: returns the same cycle without the named rule.
        clock: clock in seconds, for the time limit.
    """
    until = clock() + yardstick.time_limit_s
    results = list(cycle.results())
    passed, candidate = _passed(cycle, results, placed), _every(cycle, results, placed)
    every = program_of(cycle, results, work, candidate, yardstick.prices)
    chunk = every.problem.pairs.chunk
    inside = passed[every.row[chunk], every.candidate] if len(chunk) else np.zeros(0, dtype=np.bool_)
    if not inside.any():
        return "nothing"
    amounts = amounts_of(cycle, work, every, placed)
    wide = _wide_enough(every.problem, amounts)
    program = WarmProgram(wide, inside, yardstick.time_limit_s)
    best = program.solve()
    if best.status != "optimal":
        return "time_limit"

    def alone(rule: int) -> Bools:
        return _alone(without(cycle.chain.filters[rule].name), every)

    rejections = Rejections(wide, inside, _rule_of(cycle, results, every), _codes(cycle), alone)
    rules = rule_worths(rejections, program, best, yardstick.rules, lambda: until - clock())
    return _measured(cycle, every, program, best, amounts[inside], rules)


def _measured(
    cycle: JobCycle,
    every: CycleProgram,
    program: FlowProgram,
    best: LinearSolution,
    jobs: Floats,
    rules: tuple[RuleWorth, ...],
) -> Measured:
    problem, names = program.problem, cycle.snapshot.unified.name
    gb = moved_gb(problem)
    count = np.bincount(problem.pairs.chunk, minlength=len(problem.chunks))
    even = (problem.chunks.jobs / np.maximum(count, 1))[problem.pairs.chunk]
    jobs_by_share = np.zeros(len(every.shares))
    np.add.at(jobs_by_share, problem.chunks.share, problem.chunks.jobs)
    return Measured(
        chunks=len(problem.chunks),
        jobs=int(problem.chunks.jobs.sum()),
        placed=float(jobs.sum()),
        cost=cost_parts(problem, jobs, program.unplaced, program.debt),
        best=cost_parts(problem, best.amount, program.unplaced, program.debt),
        even_hs06h=cost_parts(problem, even, program.unplaced, program.debt).total,
        gb=float((gb * jobs).sum()),
        best_gb=float((gb * best.amount).sum()),
        input_gb=float((problem.chunks.jobs * problem.chunks.input_gb).sum()),
        shares=_shares(every.shares, jobs_by_share, regret_of_shares(program, best.prices, jobs)),
        queues=tuple(
            QueueCores(str(names[one.queue]), one.cores, one.best_cores)
            for one in queue_differences(problem, jobs, best.amount)
        ),
        rules=rules,
        solver=best.solver,
    )


def _shares(names: Sequence[str], jobs: Floats, regret: Floats) -> tuple[ShareRegret, ...]:
    """The shares; express chunks count for their share."""
    totals: dict[str, tuple[float, float]] = {}
    for name, count, hs06h in zip(names, jobs.tolist(), regret.tolist(), strict=True):
        share = name.removesuffix(URGENT)
        before = totals.get(share, (0.0, 0.0))
        totals[share] = before[0] + count, before[1] + hs06h
    lines = [ShareRegret(share, int(count), hs06h) for share, (count, hs06h) in totals.items() if count]
    return tuple(sorted(lines, key=lambda one: (-one.regret_hs06h, one.share)))


def _counts(result: ChunkResult, placed: Placed) -> bool:
    """Whether a chunk counts: only the queues can keep it from being placed."""
    return placed is not None and not result.blocked


def _passed(cycle: JobCycle, results: Sequence[ChunkResult], placed: Sequence[Placed]) -> Bools:
    """(T, Q) the candidates that passed the filters or were given jobs."""
    passed = np.zeros((len(results), len(cycle.snapshot.queues)), dtype=np.bool_)
    place = place_of(cycle)
    for chunk, (result, jobs) in enumerate(zip(results, placed, strict=True)):
        if _counts(result, jobs):
            passed[chunk, result.feasible] = True
            passed[chunk, [place[name] for name in jobs or {} if name in place]] = True
    return passed


def _every(cycle: JobCycle, results: Sequence[ChunkResult], placed: Sequence[Placed]) -> list[Ints]:
    """The positions of each chunk's candidates that passed or were rejected by a rule."""
    candidates, passed = [], _passed(cycle, results, placed)
    for chunk, (result, jobs) in enumerate(zip(results, placed, strict=True)):
        reason = result.block.evaluation.reason[result.row - result.block.rows.start]
        candidates.append(
            ((reason >= 0) | passed[chunk]).nonzero()[0] if _counts(result, jobs) else np.zeros(0, np.int64)
        )
    return candidates


def _wide_enough(problem: FlowProblem, jobs: Floats) -> FlowProblem:
    """Widen the limits to admit the actual placement, so that the optimum is never dearer."""
    rows, pairs = rows_of(problem), problem.pairs
    used = np.zeros_like(problem.queues.room)
    np.add.at(used, (pairs.queue, problem.chunks.share[pairs.chunk]), jobs)
    moving, sending = rows.link_of >= 0, pairs.output >= 0
    gb = np.bincount(rows.link_of[moving], weights=(jobs * rows.gb)[moving], minlength=len(problem.link_gb))
    files = np.bincount(pairs.output[sending], weights=jobs[sending], minlength=len(problem.output_jobs))
    return dataclasses.replace(
        problem,
        queues=dataclasses.replace(problem.queues, room=np.maximum(problem.queues.room, used)),
        link_gb=np.maximum(problem.link_gb, gb),
        output_jobs=np.maximum(problem.output_jobs, files),
    )


def _rule_of(cycle: JobCycle, results: Sequence[ChunkResult], program: CycleProgram) -> Ints:
    """(P,) the filter that rejected each pair, -1 if none did."""
    rules = np.full(len(program.candidate), -1, dtype=np.int64)
    starts = np.searchsorted(program.problem.pairs.chunk, np.arange(len(program.row) + 1))
    for at, row in enumerate(program.row.tolist()):
        block, own = results[row].block, slice(starts[at], starts[at + 1])
        rules[own] = block.evaluation.reason[row - block.rows.start, program.candidate[own]]
    return np.where(rules >= 0, rules % len(cycle.chain.filters), -1)


def _codes(cycle: JobCycle) -> Sequence[str]:
    return reason_codes(cycle.chain.filters)[: len(cycle.chain.filters)]


def _alone(cycle: JobCycle, program: CycleProgram) -> Bools:
    """(P,) the pairs that pass the filters of another cycle over the same chunks."""
    passed = np.zeros((len(cycle.work.chunks), len(cycle.snapshot.queues)), dtype=np.bool_)
    for rows in cycle.block_rows(ranked=False):
        passed[rows] = cycle.evaluate_block(rows).evaluation.feasible
    return np.asarray(passed[program.row[program.problem.pairs.chunk], program.candidate])
