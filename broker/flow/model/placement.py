"""The placement ``flow`` of the production job brokerage: all chunks of a cycle in one linear program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from broker.brokerages.job.joint_placement import JointPlacement
from broker.domain.counted_load import ChunkPlan
from broker.engine.job.chunk_result import ChunkResult
from broker.engine.job.cycle import JobCycle
from broker.flow.model.cycle import binding_causes, decide
from broker.flow.model.flow_problem import FLOW_KEYS, TIME_LIMIT, program_of
from broker.rules.contract import Options, Reason
from broker.snapshot.sources.global_share_targets import SHARE_TARGETS
from broker.snapshot.sources.queue_capacity import QUEUE_CAPACITY
from broker.work.assemble import CycleWork

_TOGETHER = "the jobs of the cycle were placed together:"
LEFT_OVER = "flow_left_over"
#: Why a feasible queue got no job of a chunk, in the order of :data:`broker.flow.model.cycle.CAUSES`; the last for a
#: chunk with jobs left over.
FLOW_REASONS = (
    Reason(
        code="flow_dearer",
        title=f"{_TOGETHER} a job takes longer there, or moves more bytes",
        violation="a job takes longer there, or moves more bytes",
        no_candidate="is as quick and moves as few bytes as others",
        who="wait",
        cure="Nothing is wrong: the jobs went to queues that are cheaper for the grid.",
    ),
    Reason(
        code="flow_wait",
        title=f"{_TOGETHER} a job would wait longer there",
        violation="jobs would wait longer there",
        no_candidate="starts the jobs as soon as others",
        who="wait",
        cure="Nothing is wrong: the jobs start earlier elsewhere.",
    ),
    Reason(
        code="flow_queue_full",
        title=f"{_TOGETHER} others use the room of the share there better",
        violation="queue full: others use its room better",
        no_candidate="has room for more waiting jobs",
        who="wait",
        cure="Wait: the queue has room again as jobs start there. Operators may raise `NQUEUELIMITSITE`.",
        tuned_by="NQUEUELIMITSITE",
    ),
    Reason(
        code="flow_link_full",
        title=f"{_TOGETHER} others use the input that the site may get better",
        violation="link full: others use the input of the site better",
        no_candidate="may be sent more input",
        who="wait",
        cure="Wait: the site may get more input in the next cycle. Operators may change `FLOW_LINK_WINDOW`.",
        tuned_by="FLOW_LINK_WINDOW",
    ),
    Reason(
        code="flow_output_link_full",
        title=f"{_TOGETHER} others use the link to the nucleus better",
        violation="link full: others use the link to the nucleus better",
        no_candidate="may send more files to the nucleus",
        who="wait",
        cure="Wait until files have arrived at the nucleus. Operators may raise `NQUEUED_SAT_CAP`.",
        tuned_by="NQUEUED_SAT_CAP",
    ),
    Reason(
        code="flow_share_debt",
        title=f"{_TOGETHER} elsewhere the share gets more of what it lacks",
        violation="elsewhere the share gets more of what it lacks",
        no_candidate="gives the share more of what it lacks",
        who="wait",
        cure="Nothing is wrong: the share gets more elsewhere. Operators may change `FLOW_SHARE_PRICE`.",
        tuned_by="FLOW_SHARE_PRICE",
    ),
    Reason(
        code=LEFT_OVER,
        title=f"{_TOGETHER} room and links leave jobs of the chunk without a place",
        violation="left over: the limits leave jobs without a place",
        no_candidate="has room left after the jobs of the cycle were placed together",
        who="wait",
        cure="Wait for the next cycle: room and links are used up in this one.",
    ),
)
FLOW_CODES = tuple(reason.code for reason in FLOW_REASONS)
#: Significant digits of a stored reduced cost.
_DIGITS = 6
_GREEDY = "greedy"
#: The solver of a program with nothing to place.
_NOTHING = "none"


class FlowOptions(Options):
    """How the jobs of a cycle are given to queues.

    Attributes:
        by: ``flow``: all chunks, queues, links and shares in one linear program, over every queue that the filters and
            cuts leave.
    """

    by: Literal["flow"] = "flow"


class FlowPlacement(JointPlacement):
    """All chunks, queues, links and shares of a cycle in one linear program."""

    by = "flow"
    gives = FLOW_REASONS
    left_over = LEFT_OVER
    options: Options = FlowOptions()

    def needed_sources(self) -> tuple[str, ...]:
        """The targets of shares, where a missing share counts, and what queues can run."""
        return (SHARE_TARGETS, QUEUE_CAPACITY)

    def plans(
        self, cycle: JobCycle, results: Sequence[ChunkResult], work: CycleWork, seed: int, fallback: str | None
    ) -> list[ChunkPlan]:
        """Solve the program of the cycle and round its jobs; past FLOW_TIME_LIMIT the greedy order decides."""
        program = program_of(cycle, results, work)
        problem = program.problem
        if not len(problem.pairs):
            return [ChunkPlan((), (), (), (), 0, _NOTHING)] * len(results)
        limit_s = cycle.tuning.only(FLOW_KEYS).number(TIME_LIMIT)
        if fallback is not None:
            limit_s = 0.0 if fallback else float("inf")
        solution = decide(problem, abs(seed), time_limit_s=limit_s)
        solver = _GREEDY if solution.linear is None else solution.linear.solver
        names, cause = cycle.snapshot.queues.name, binding_causes(solution, problem)
        plans = [ChunkPlan((), (), (), (), 0, solver, solution.fallback)] * len(results)
        ends = np.searchsorted(problem.pairs.chunk, np.arange(len(program.row) + 1))
        for at, row in enumerate(program.row.tolist()):
            own = slice(ends[at], ends[at + 1])
            jobs = solution.jobs[own].tolist()
            plans[row - results[0].row] = ChunkPlan(
                queues=tuple(str(name) for name in names[program.candidate[own]]),
                jobs=tuple(jobs),
                dearer_hs06h=tuple(_rounded(value) for value in solution.reduced_hs06h[own].tolist()),
                codes=tuple("" if n else FLOW_CODES[why] for n, why in zip(jobs, cause[own].tolist(), strict=True)),
                left=int(solution.left[at]),
                solver=solver,
                fallback=solution.fallback,
            )
        return plans


def _rounded(value: float) -> float:
    """Round a cost to the stored digits; the solver's negative remainders become 0."""
    return max(0.0, float(f"{value:.{_DIGITS}g}")) if abs(value) > 1e-6 else 0.0
