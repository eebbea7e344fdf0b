"""The result of a task as a decision: funnel, candidates with factors, and a code for every rejected nucleus."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Ints
from broker.domain.decisions import Decision, Outcome
from broker.domain.packed_candidates import ChosenCandidates
from broker.domain.packed_reasons import FunnelSteps, Reasons, RejectedNames
from broker.engine.shared.evaluate import FEASIBLE, NOT_A_CANDIDATE
from broker.engine.task.cycle import PRESET, TaskCycle, TaskResult


def task_decision(cycle: TaskCycle, result: TaskResult, chosen: int | None) -> Decision:
    """The decision on one task.

    Args:
        cycle: that gave the result.
        result: of the task.
        chosen: position of the nucleus that was drawn, None for none. It stands first among the candidates, the others
            follow by weight and name.
    """
    outcome: Outcome = "pending" if chosen is None else "brokered"
    # whatever the rules say of the nuclei, a task that is blocked cannot go: the nuclei that are left go with it
    reasons = Reasons(cycle.legend, decisive_position(cycle, result), result.reason if result.blocked else "")
    return Decision(
        jeditaskid=int(cycle.work.tasks.jeditaskid[result.row]),
        datasetid=None,
        ramcount=None,
        brokerage=cycle.chain.brokerage,
        outcome=outcome,
        reason=result.reason,
        candidates=_candidates(cycle, result, chosen),
        rejected=RejectedNames(reasons),
        funnel=FunnelSteps(reasons),
        notes=_notes(cycle, result),
    )


def decisive_position(cycle: TaskCycle, result: TaskResult) -> Ints:
    """(N,): for each nucleus the index of its code in the legend of the cycle.

    FEASIBLE marks candidates, lower values nuclei that never were ones.
    """
    reasons = cycle.evaluation.reason[result.row].astype(np.int16)
    if result.reason == PRESET:
        reasons = np.full(len(reasons), NOT_A_CANDIDATE, dtype=np.int16)
        reasons[result.feasible] = FEASIBLE
    reasons[result.not_finite] = 2 * len(cycle.chain.filters)
    return np.asarray(reasons)


def _candidates(cycle: TaskCycle, result: TaskResult, chosen: int | None) -> ChosenCandidates:
    ranked = sorted(range(len(result.feasible)), key=lambda at: (result.feasible[at] != chosen, -result.weight[at], at))
    order = np.array(ranked, dtype=np.int64)
    factors = result.factors[:, order] if len(result.factors) else np.zeros((0, len(order)))
    return ChosenCandidates(
        cycle.legend, result.feasible[order], result.weight[order], factors, np.zeros(len(order), dtype=np.bool_)
    )


def _notes(cycle: TaskCycle, result: TaskResult) -> tuple[str, ...]:
    """What could not be known, as codes: ``source:state``, ``rule:fault``, and what stopped the check of jobs."""
    sources = [f"source_{state.state}:{state.name}" for state in cycle.snapshot.states if not state.usable]
    faults = sorted({f"rule_fault:{fault.rule}" for fault in cycle.faults})
    job_fault = str(cycle.dry_run.fault[result.row])
    return (*sources, *faults, *([f"job_check:{job_fault}"] if job_fault else []))
