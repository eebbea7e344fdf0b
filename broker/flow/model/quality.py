"""How far a stored cycle is from the best placement of its jobs: the linear program over the same facts. Pure.

The cycle is judged again by its own snapshot, work, values and rules; what it placed is priced by the program, beside
the optimum and an even draw. Nothing of it reaches a decision.
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
from broker.flow.model.cost_parts import CostParts, cost_parts
from broker.flow.model.flow_problem import URGENT, CycleProgram, program_of
from broker.flow.model.placed import Placed, amounts_of, place_of
from broker.flow.model.problem import FlowProblem, moved_gb, rows_of
from broker.flow.model.program import FlowProgram, LinearSolution
from broker.flow.model.regret_split import queue_differences, regret_of_shares
from broker.flow.model.rule_worth import Rejections, RuleWorth, rule_worths
from broker.flow.model.warm_program import WarmProgram
from broker.gdpconfig.catalogue import Value
from broker.work.assemble import CycleWork

Unmeasured = Literal["nothing", "time_limit"]
WithoutRule = Callable[[str], JobCycle]


@dataclass(frozen=True)
class Yardstick:
    """By what cycles are measured.

    Attributes:
        prices: values of the keys ``FLOW_*`` that hold whatever the tuning says.
        time_limit_s: for the program, and for what rules cost together.
        rules: for how many the program is solved again.
    """

    prices: Mapping[str, Value]
    time_limit_s: float = 30.0
    rules: int = 3


@dataclass(frozen=True)
class ShareRegret:
    """Jobs of a share that the cycle had to place, and its part of the regret in HS06 h."""

    share: str
    jobs: int
    regret_hs06h: float


@dataclass(frozen=True)
class QueueCores:
    """Cores that the placed jobs ask for at a queue, and that the best placement would."""

    queue: str
    cores: float
    best_cores: float


@dataclass(frozen=True)
class Measured:
    """What a cycle cost beside the best placement of the same jobs.

    Attributes:
        chunks, jobs: that had to be placed, of which ``placed`` were.
        cost: of what was placed; ``best`` of the best placement.
        even_hs06h: of the same jobs in equal parts at every queue that passed; limits are not looked at.
        gb, best_gb: that are moved, of ``input_gb`` that the jobs read.
        shares: each with its part of the regret, the largest first; their sum is the regret.
        queues: that should have got more or less.
        rules: what each costs, beside the regret: a rule may be right.
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
        """What the cycle cost more than the best placement; not negative, for that would be no worse."""
        return max(0.0, self.cost.total - self.best.total)

    @property
    def range_hs06h(self) -> float:
        """What an even draw costs more than the best placement."""
        return max(0.0, self.even_hs06h - self.best.total)


def measure(
    cycle: JobCycle,
    work: CycleWork,
    placed: Sequence[Placed],
    yardstick: Yardstick,
    without: WithoutRule,
    clock: Callable[[], float],
) -> Measured | Unmeasured:
    """Measure a cycle; or why it cannot be: no queue passed for any chunk, or the time was not enough.

    Args:
        cycle: over its work, in which every chunk meets the grid of the snapshot.
        work: its chunks with their files.
        placed: of each chunk, in order.
        yardstick: by which it is measured.
        without: the same cycle without the rule of a name.
        clock: seconds, for the limit of time.
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

    found = Rejections(wide, inside, _rule_of(cycle, results, every), _codes(cycle), alone)
    rules = rule_worths(found, program, best, yardstick.rules, lambda: until - clock())
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
    asked = np.zeros(len(every.shares))
    np.add.at(asked, problem.chunks.share, problem.chunks.jobs)
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
        shares=_shares(every.shares, asked, regret_of_shares(program, best.prices, jobs)),
        queues=tuple(
            QueueCores(str(names[one.queue]), one.cores, one.best_cores)
            for one in queue_differences(problem, jobs, best.amount)
        ),
        rules=rules,
        solver=best.solver,
    )


def _shares(names: Sequence[str], jobs: Floats, regret: Floats) -> tuple[ShareRegret, ...]:
    """The shares; express chunks count for their share."""
    found: dict[str, tuple[float, float]] = {}
    for name, count, hs06h in zip(names, jobs.tolist(), regret.tolist(), strict=True):
        share = name.removesuffix(URGENT)
        before = found.get(share, (0.0, 0.0))
        found[share] = before[0] + count, before[1] + hs06h
    lines = [ShareRegret(share, int(count), hs06h) for share, (count, hs06h) in found.items() if count]
    return tuple(sorted(lines, key=lambda one: (-one.regret_hs06h, one.share)))


def _counts(result: ChunkResult, placed: Placed) -> bool:
    """Whether a chunk counts: nothing keeps it from being placed but the queues."""
    return placed is not None and not result.blocked


def _passed(cycle: JobCycle, results: Sequence[ChunkResult], placed: Sequence[Placed]) -> Bools:
    """(T, Q) the candidates that passed the filters, and those that were given jobs."""
    passed = np.zeros((len(results), len(cycle.snapshot.queues)), dtype=np.bool_)
    place = place_of(cycle)
    for at, (result, jobs) in enumerate(zip(results, placed, strict=True)):
        if _counts(result, jobs):
            passed[at, result.feasible] = True
            passed[at, [place[name] for name in jobs or {} if name in place]] = True
    return passed


def _every(cycle: JobCycle, results: Sequence[ChunkResult], placed: Sequence[Placed]) -> list[Ints]:
    """Of each chunk, by position, the candidates that passed or that a rule rejected."""
    found, passed = [], _passed(cycle, results, placed)
    for at, (result, jobs) in enumerate(zip(results, placed, strict=True)):
        reason = result.block.evaluation.reason[result.row - result.block.rows.start]
        found.append(((reason >= 0) | passed[at]).nonzero()[0] if _counts(result, jobs) else np.zeros(0, np.int64))
    return found


def _wide_enough(problem: FlowProblem, jobs: Floats) -> FlowProblem:
    """The problem with limits that what was placed keeps, so that the optimum is never dearer than it."""
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
    """(P,) the filter that decided about each pair, -1 where none rejected it."""
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
