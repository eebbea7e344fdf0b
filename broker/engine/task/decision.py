"""The result of a task as a decision, and why it did not get one nucleus.

A decision has the funnel, candidates with their factors, and a code for every rejected nucleus. The explanation names
the deciding rule, the value that it saw, the limit, and the key that set it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from broker.codec.packed_reasons import FunnelSteps, Reasons, RejectedNames
from broker.domain.arrays import AnyArray, Bools, Floats, Ints
from broker.domain.chosen_candidates import ChosenCandidates, no_candidates
from broker.domain.decisions import Decision, Observation, Reason
from broker.engine.shared.answer import CHOSEN, UNKNOWN_NUCLEUS, CandidateVerdict
from broker.engine.shared.evaluate import AnyFilter
from broker.engine.shared.pair_state import FEASIBLE, NOT_A_CANDIDATE
from broker.engine.task.cycle import JOB_CHECK_FAILED, NO_CANDIDATES, PRESET, WEIGHT_UNKNOWN, TaskCycle, TaskResult
from broker.engine.task.placing import PlacedTasks, TaskBlock, ranked


@dataclass(frozen=True)
class DecidedBlock:
    """The decided tasks of a block; each :class:`Decision` is built on access.

    Attributes:
        cycle: the cycle that judged the tasks.
        block: their pairs.
        out: the drawn nuclei and the weights.
    """

    cycle: TaskCycle
    block: TaskBlock
    out: PlacedTasks

    @cached_property
    def finite(self) -> Bools:
        """(P,) pairs whose weight is a finite number."""
        return np.asarray((self.out.weight >= 0) & (self.out.weight < np.inf))

    @cached_property
    def count(self) -> Ints:
        """(B,) number of candidates of each task: its pairs with a finite weight."""
        ends = np.append(0, np.cumsum(self.finite))
        return np.asarray(ends[self.block.offset[1:]] - ends[self.block.offset[:-1]])

    @cached_property
    def position(self) -> AnyArray:
        """(B, N): for each nucleus the index of its code in the legend of the cycle.

        FEASIBLE marks candidates; lower values mark nuclei that never were candidates.
        """
        cycle, block = self.cycle, self.block
        codes = np.array(cycle.evaluation.reason[block.first : block.first + len(block.preset)], dtype=np.int16)
        preset = np.flatnonzero(block.preset >= 0)
        codes[preset] = NOT_A_CANDIDATE
        codes[preset, block.preset[preset]] = FEASIBLE
        if not self.finite.all():
            task = np.repeat(np.arange(len(block.preset)), np.diff(block.offset))
            codes[task[~self.finite], block.nucleus[~self.finite]] = weight_unknown(cycle)
        return codes

    @cached_property
    def _ranked(self) -> tuple[Ints, Floats, Floats, Bools]:
        order, block, out = ranked(self.block, self.out, self.finite), self.block, self.out
        factors = np.concatenate((out.moving, block.fixed))[:, order]
        return block.nucleus[order], out.weight[order], factors, np.zeros(len(order), dtype=np.bool_)

    @cached_property
    def _rows(self) -> list[tuple[Any, ...]]:
        """For each task: number, whether it had a nucleus, what blocks it, reason, candidates, and more."""
        cycle, block, rows = self.cycle, self.block, slice(self.block.first, self.block.first + len(self.block.preset))
        preset = block.preset >= 0
        unjudged = cycle.dry_run.failed[rows] & (block.offset[1:] == block.offset[:-1])
        waits = np.where(self.count > 0, "", np.where(unjudged, JOB_CHECK_FAILED, NO_CANDIDATES))
        blocked = np.where(preset, "", cycle.blocked[rows])
        reason = np.where(preset, PRESET, np.where(blocked != "", blocked, waits))
        columns = (
            cycle.work.tasks.jeditaskid[rows], preset, blocked, reason, self.count, block.offset[:-1], self.out.faults,
            cycle.dry_run.fault[rows],
        )  # fmt: skip
        return list(zip(*(column.tolist() for column in columns), strict=True))

    @property
    def outcomes(self) -> list[tuple[str, str]]:
        """Outcome and reason of each task."""
        return [("brokered" if row[4] or row[1] else "pending", row[3]) for row in self._rows]

    @property
    def chosen(self) -> Bools:
        """(B, N): the candidates of each task; a blocked task has none."""
        blocked = np.array([bool(row[2]) for row in self._rows], dtype=np.bool_)
        return np.asarray((self.position == FEASIBLE) & ~blocked[:, None])

    @property
    def tasks_at(self) -> Ints:
        """(B, N): 1 at the nucleus of each task that got one."""
        tasks = np.zeros(self.position.shape, dtype=np.int64)
        placed = np.flatnonzero(self.out.chosen >= 0)
        tasks[placed, self.out.chosen[placed]] = 1
        return tasks

    def decision(self, at: int) -> Decision:
        """The decision on the task ``at`` of the block."""
        task, preset, blocked, reason, count, offset, faults, job_fault = self._rows[at]
        # a blocked task cannot be brokered whatever the rules say: the nuclei that they leave drop out, too
        reasons = Reasons(self.cycle.legend, self.position[at], blocked)
        return Decision(
            jeditaskid=task,
            datasetid=None,
            ramcount=None,
            brokerage=self.cycle.chain.brokerage,
            outcome="brokered" if count or preset else "pending",
            reason=reason,
            candidates=self._preset(at) if preset else self._candidates(offset, count),
            rejected=RejectedNames(reasons),
            funnel=FunnelSteps(reasons),
            notes=self._notes(faults, job_fault),
        )

    def _preset(self, at: int) -> ChosenCandidates:
        only, none = self.block.preset[at : at + 1], np.zeros(1, dtype=np.bool_)
        return ChosenCandidates(only, np.ones(1), np.zeros((0, 1)), none, self.cycle.legend)

    def _candidates(self, first: int, count: int) -> ChosenCandidates:
        if not count:
            return no_candidates(self.cycle.legend)
        nucleus, weight, factors, none = self._ranked
        these = slice(first, first + count)
        return ChosenCandidates(nucleus[these], weight[these], factors[:, these], none[these], self.cycle.legend)

    def _notes(self, faults: int, job_fault: str) -> tuple[str, ...]:
        """Codes of missing facts, ``source:state`` and ``rule:fault``, and why the check of jobs stopped."""
        notes = self.cycle.source_notes
        if faults:
            notes += tuple(sorted({f"rule_fault:{fault.rule}" for fault in self.cycle.faults[:faults]}))
        return (*notes, f"job_check:{job_fault}") if job_fault else notes


def decisive_position(cycle: TaskCycle, result: TaskResult) -> Ints:
    """(N,): for each nucleus the index of its code in the legend of the cycle, as in :class:`DecidedBlock`."""
    reasons = cycle.evaluation.reason[result.row].astype(np.int16)
    if result.reason == PRESET:
        reasons = np.full(len(reasons), NOT_A_CANDIDATE, dtype=np.int16)
        reasons[result.feasible] = FEASIBLE
    reasons[result.not_finite] = weight_unknown(cycle)
    return np.asarray(reasons)


def weight_unknown(cycle: TaskCycle) -> int:
    """The index of the code for a weight that is not a finite number."""
    return 2 * len(cycle.chain.filters)


NOT_A_NUCLEUS = Reason(
    code="not_a_nucleus",
    title="satellites collect output only for full chains, and only with bareNucleus",
    violation="the site is a satellite, which collects output only for full chains, and only with bareNucleus",
    who="wait",
    cure="Nothing is wrong: nuclei collect the output.",
)
OTHER_NUCLEUS_SET = Reason(
    code="other_nucleus_set",
    title="the task has its nucleus already, and this is another one",
    who="wait",
    cure="Nothing is wrong: a task keeps its nucleus.",
)
NOT_DRAWN = Reason(
    code="not_drawn",
    title="the nucleus was a candidate, but another one was drawn",
    who="wait",
    cure="Nothing is wrong: of all candidates one is drawn at random, by weight.",
)
REASONS = (NOT_A_NUCLEUS, OTHER_NUCLEUS_SET, NOT_DRAWN)


def why_not_nucleus(cycle: TaskCycle, result: TaskResult, nucleus: str, chosen: str | None) -> CandidateVerdict:
    """The answer for a nucleus; with code ``unknown_nucleus`` for a name that the snapshot does not have.

    Args:
        cycle: over the stored work of the task, with codes counted.
        result: of the task.
        nucleus: name of the nucleus, or of a satellite.
        chosen: the nucleus that was drawn, None for none.
    """
    positions = np.flatnonzero(cycle.snapshot.nuclei.name == nucleus)
    if not len(positions):
        title = "there was no nucleus of this name in the snapshot"
        return CandidateVerdict(nucleus, UNKNOWN_NUCLEUS, "candidates", "persistent", title, None)
    position = int(positions[0])
    codes, deciding = cycle.legend.codes, decisive_position(cycle, result)
    index, filters = int(deciding[position]), cycle.chain.filters
    if index == NOT_A_CANDIDATE:
        return _never_a_candidate(cycle, result, nucleus, position)
    if index == FEASIBLE:
        return _not_rejected(cycle, result, nucleus, position, chosen)
    if codes[index] == WEIGHT_UNKNOWN:
        return CandidateVerdict(
            nucleus, WEIGHT_UNKNOWN, "weights", "ranking", "the weight is not a finite number", None
        )
    rule = filters[index % len(filters)]
    seen = _observe(cycle, result, rule, position)
    if index >= len(filters):
        seen = _unknown(cycle, rule) or seen
    return CandidateVerdict(nucleus, codes[index], rule.name, rule.kind, rule.title, seen)


def _never_a_candidate(cycle: TaskCycle, result: TaskResult, nucleus: str, position: int) -> CandidateVerdict:
    if result.reason == PRESET:
        seen = Observation(nucleus, "==", cycle.work.tasks.nucleus[result.row], "-", "task.nucleus")
        return _answer(nucleus, OTHER_NUCLEUS_SET, "candidates", "persistent", seen)
    is_nucleus = bool(cycle.snapshot.nuclei.is_nucleus[position])
    seen = Observation("nucleus" if is_nucleus else "satellite", "==", "nucleus", "-", "site.role")
    return _answer(nucleus, NOT_A_NUCLEUS, "candidates", "persistent", seen)


def _answer(nucleus: str, why: Reason, step: str, kind: str, seen: Observation) -> CandidateVerdict:
    return CandidateVerdict(nucleus, why.code, step, kind, why.title, seen)


def _not_rejected(
    cycle: TaskCycle, result: TaskResult, nucleus: str, position: int, chosen: str | None
) -> CandidateVerdict:
    if result.blocked:
        title = f"no rule rejected the nucleus; the task waits for another reason: {result.reason}"
        return CandidateVerdict(nucleus, result.reason, "input", "temporary", title, None)
    if nucleus == chosen:
        return CandidateVerdict(nucleus, CHOSEN, "draw", "ranking", "the task got this nucleus", None)
    place = int(np.flatnonzero(result.feasible == position)[0])
    total = float(result.weight.sum())
    share = 100.0 * float(result.weight[place]) / total if total > 0 else 0.0
    seen = Observation(nucleus, "==", chosen, "-", "rule", {"weight": float(result.weight[place]), "chance": share})
    return _answer(nucleus, NOT_DRAWN, "draw", "ranking", seen)


def _observe(cycle: TaskCycle, result: TaskResult, rule: AnyFilter, position: int) -> Observation:
    return rule.observe(cycle.pairs_at(result, rule, position))


def _unknown(cycle: TaskCycle, rule: AnyFilter) -> Observation | None:
    for state in cycle.snapshot.unusable(rule.sources):
        return Observation(state.age_s, "<=", state.limit_s, "s", f"source.{state.name}", {"state": state.state})
    return None
