"""The result of a task as a decision: funnel, candidates with factors, and a code for every rejected nucleus."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from broker.domain.arrays import Ints
from broker.domain.decisions import Candidate, Decision, FunnelStep, Outcome
from broker.engine.evaluate import LEFT, NOT_A_CANDIDATE, reason_codes
from broker.engine.task_cycle import PRESET, WEIGHT_UNKNOWN, TaskCycle, TaskResult


def task_decision(cycle: TaskCycle, result: TaskResult, chosen: int | None) -> Decision:
    """The decision on one task.

    Args:
        cycle: that gave the result.
        result: of the task.
        chosen: position of the nucleus that was drawn, None for none. It stands first among the candidates, the others
            follow by weight and name.
    """
    outcome: Outcome = "pending" if chosen is None else "brokered"
    codes, order, position = decisive_codes(cycle, result)
    names = cycle.snapshot.nuclei.name
    funnel = _funnel(codes, order, position)
    rejected = {str(names[at]): codes[position[at]] for at in np.flatnonzero(position >= 0)}
    if result.blocked:
        # whatever the rules say of the nuclei, the task itself cannot go: the nuclei that are left go with it
        left = np.flatnonzero(position == LEFT)
        funnel = (*funnel, FunnelStep(result.reason, len(left), 0))
        rejected.update((str(name), result.reason) for name in names[left])
    return Decision(
        jeditaskid=int(cycle.work.tasks.jeditaskid[result.row]),
        datasetid=None,
        ramcount=None,
        brokerage=cycle.chain.brokerage,
        outcome=outcome,
        reason=result.reason,
        candidates=_candidates(cycle, result, chosen),
        rejected=rejected,
        funnel=funnel,
        notes=_notes(cycle, result),
    )


def decisive_codes(cycle: TaskCycle, result: TaskResult) -> tuple[tuple[str, ...], Sequence[int], Ints]:
    """All codes, the order in which they stand in the funnel, and for each nucleus the index of its code.

    LEFT marks candidates, lower values nuclei that never were ones.
    """
    count = len(cycle.chain.filters)
    codes = (*reason_codes(cycle.chain.filters), WEIGHT_UNKNOWN)
    order = [step for index in range(count) for step in (index, index + count)] + [2 * count]
    reasons = cycle.evaluation.reason[result.row].astype(np.int64)
    if result.reason == PRESET:
        reasons = np.full(len(reasons), NOT_A_CANDIDATE, dtype=np.int64)
        reasons[result.left] = LEFT
    reasons[result.not_finite] = 2 * count
    return codes, order, reasons


def _funnel(codes: tuple[str, ...], order: Sequence[int], position: Ints) -> tuple[FunnelStep, ...]:
    current = int((position >= LEFT).sum())
    counts = np.bincount(position[position >= 0], minlength=len(codes))
    funnel = []
    for step in order:
        cut = int(counts[step])
        if cut or not (codes[step].startswith("unknown_") or codes[step] == WEIGHT_UNKNOWN):
            funnel.append(FunnelStep(codes[step], current, current - cut))
            current -= cut
    return tuple(funnel)


def _candidates(cycle: TaskCycle, result: TaskResult, chosen: int | None) -> tuple[Candidate, ...]:
    names, codes = cycle.snapshot.nuclei.name, cycle.factor_codes
    order = sorted(range(len(result.left)), key=lambda at: (result.left[at] != chosen, -result.weight[at], at))
    used = codes if len(result.factors) else []
    return tuple(
        Candidate(
            str(names[result.left[at]]),
            float(result.weight[at]),
            dict(zip(used, result.factors[:, at].tolist(), strict=True)),
        )
        for at in order
    )


def _notes(cycle: TaskCycle, result: TaskResult) -> tuple[str, ...]:
    """What could not be known, as codes: ``source:state``, ``rule:fault``, and what stopped the check of jobs."""
    sources = [f"source_{state.state}:{state.name}" for state in cycle.snapshot.states if not state.usable]
    faults = sorted({f"rule_fault:{fault.rule}" for fault in cycle.faults})
    job_fault = str(cycle.dry_run.fault[result.row])
    return (*sources, *faults, *([f"job_check:{job_fault}"] if job_fault else []))
