"""The result of a task as a decision: funnel, candidates with factors, and a code for every rejected nucleus."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from broker.domain.arrays import AnyArray, Bools, Floats, Ints
from broker.domain.decisions import Decision
from broker.domain.packed_candidates import ChosenCandidates, no_candidates
from broker.domain.packed_reasons import FunnelSteps, Reasons, RejectedNames
from broker.engine.shared.evaluate import FEASIBLE, NOT_A_CANDIDATE
from broker.engine.task.cycle import JOB_CHECK_FAILED, NO_CANDIDATES, PRESET, TaskCycle, TaskResult
from broker.engine.task.task_block import PlacedTasks, TaskBlock, ranked


@dataclass(frozen=True)
class DecidedBlock:
    """The tasks of a block with what came of them; decisions are made when somebody asks for them.

    Attributes:
        cycle: that judged the tasks.
        block: their pairs.
        out: what was drawn and weighed.
    """

    cycle: TaskCycle
    block: TaskBlock
    out: PlacedTasks

    @cached_property
    def finite(self) -> Bools:
        """(P,) pairs whose weight is a number."""
        return np.asarray((self.out.weight >= 0) & (self.out.weight < np.inf))

    @cached_property
    def count(self) -> Ints:
        """(B,) candidates of each task: its pairs whose weight is a number."""
        ends = np.append(0, np.cumsum(self.finite))
        return np.asarray(ends[self.block.offset[1:]] - ends[self.block.offset[:-1]])

    @cached_property
    def position(self) -> AnyArray:
        """(B, N): for each nucleus the index of its code in the legend of the cycle.

        FEASIBLE marks candidates, lower values nuclei that never were ones.
        """
        cycle, block = self.cycle, self.block
        found = np.array(cycle.evaluation.reason[block.first : block.first + len(block)], dtype=np.int16)
        preset = np.flatnonzero(block.preset >= 0)
        found[preset] = NOT_A_CANDIDATE
        found[preset, block.preset[preset]] = FEASIBLE
        if not self.finite.all():
            task = np.repeat(np.arange(len(block)), np.diff(block.offset))
            found[task[~self.finite], block.nucleus[~self.finite]] = weight_unknown(cycle)
        return found

    @cached_property
    def _ranked(self) -> tuple[Ints, Floats, Floats]:
        order, block, out = ranked(self.block, self.out, self.finite), self.block, self.out
        factors = np.concatenate((out.moving, block.fixed))[:, order]
        return block.nucleus[order], out.weight[order], factors

    def decision(self, at: int) -> Decision:
        """The decision on the task ``at`` of the block."""
        cycle, row, count = self.cycle, self.block.first + at, int(self.count[at])
        preset = self.block.preset[at] >= 0
        blocked = "" if preset else str(cycle.blocked[row])
        reason = PRESET if preset else blocked
        if not reason and not count:
            unjudged = self.block.offset[at] == self.block.offset[at + 1] and cycle.dry_run.failed[row]
            reason = JOB_CHECK_FAILED if unjudged else NO_CANDIDATES
        # whatever the rules say of the nuclei, a task that is blocked cannot go: the nuclei that are left go with it
        reasons = Reasons(cycle.legend, self.position[at], blocked)
        return Decision(
            jeditaskid=int(cycle.work.tasks.jeditaskid[row]),
            datasetid=None,
            ramcount=None,
            brokerage=cycle.chain.brokerage,
            outcome="brokered" if count or preset else "pending",
            reason=reason,
            candidates=self._preset(at) if preset else self._candidates(at, count),
            rejected=RejectedNames(reasons),
            funnel=FunnelSteps(reasons),
            notes=_notes(cycle, row, int(self.out.faults[at])),
        )

    def _preset(self, at: int) -> ChosenCandidates:
        only, none = self.block.preset[at : at + 1], np.zeros(1, dtype=np.bool_)
        return ChosenCandidates(self.cycle.legend, only, np.ones(1), np.zeros((0, 1)), none)

    def _candidates(self, at: int, count: int) -> ChosenCandidates:
        if not count:
            return no_candidates(self.cycle.legend)
        nucleus, weight, factors = self._ranked
        first = self.block.offset[at]
        these = slice(first, first + count)
        none = np.zeros(count, dtype=np.bool_)
        return ChosenCandidates(self.cycle.legend, nucleus[these], weight[these], factors[:, these], none)


def decisive_position(cycle: TaskCycle, result: TaskResult) -> Ints:
    """(N,): for each nucleus the index of its code in the legend of the cycle, as in :class:`DecidedBlock`."""
    reasons = cycle.evaluation.reason[result.row].astype(np.int16)
    if result.reason == PRESET:
        reasons = np.full(len(reasons), NOT_A_CANDIDATE, dtype=np.int16)
        reasons[result.feasible] = FEASIBLE
    reasons[result.not_finite] = weight_unknown(cycle)
    return np.asarray(reasons)


def weight_unknown(cycle: TaskCycle) -> int:
    """The index of the code for a weight that is no number."""
    return 2 * len(cycle.chain.filters)


def _notes(cycle: TaskCycle, row: int, faults: int) -> tuple[str, ...]:
    """What could not be known, as codes: ``source:state``, ``rule:fault``, and what stopped the check of jobs."""
    failed = sorted({f"rule_fault:{fault.rule}" for fault in cycle.faults[:faults]}) if faults else ()
    job_fault = str(cycle.dry_run.fault[row])
    return (*cycle.source_notes, *failed, *([f"job_check:{job_fault}"] if job_fault else []))
