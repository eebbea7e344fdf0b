"""The result of a chunk as a decision: reasons and candidates packed, so that a cycle makes no names and no words."""

from __future__ import annotations

import math

import numpy as np

from broker.domain.arrays import AnyArray, Floats, Ints, taken_at
from broker.domain.decisions import Decision, Outcome
from broker.domain.packed_candidates import ChosenCandidates, no_candidates
from broker.domain.packed_reasons import FunnelSteps, Reasons, RejectedNames
from broker.domain.packed_remarks import Notes, Remarks
from broker.engine.job.chunk_result import ChunkResult
from broker.engine.job.cycle import JobCycle
from broker.engine.shared.evaluate import FEASIBLE


def decision_of(cycle: JobCycle, result: ChunkResult) -> Decision:
    """The decision on one chunk: it is brokered when it has candidates, else it is pending."""
    # whatever the rules say of the queues, a chunk that is blocked cannot go: the queues that are left go with it
    blocked = result.reason if result.blocked else ""
    reasons = Reasons(cycle.legend, deciding(cycle, result), blocked, dict(cycle.refused_names(result.row)))
    said = cycle.outcome(result.row, result.reason), result.reason
    return _decision(cycle, result.row, *said, _candidates(cycle, result), reasons, _notes(cycle, result))


def decision_of_row(
    cycle: JobCycle,
    row: int,
    position: AnyArray,
    reason: str,
    blocked: str,
    candidates: ChosenCandidates | None,
    figures: tuple[Ints, Floats] | None = None,
) -> Decision:
    """The decision on a chunk that was ranked elsewhere.

    Args:
        cycle: that judged the chunk.
        row: of the chunk.
        position: (Q,) what decides about each candidate, as :func:`deciding` gives it.
        reason: why it is pending; empty for a chunk that is brokered.
        blocked: the reason again, where it holds whatever the queues are.
        candidates: the chosen ones; None where there was nothing to rank.
        figures: the candidates for which figures are kept, and these, shape (F, K); None for none.
    """
    reasons = Reasons(cycle.legend, position, blocked, dict(cycle.refused_names(row)))
    chosen = no_candidates(cycle.legend) if candidates is None else candidates
    codes = (*_codes(cycle), *cycle.remarks(row))
    notes = codes if figures is None else Notes(codes, Remarks(cycle.legend, *figures))
    return _decision(cycle, row, cycle.outcome(row, reason), reason, chosen, reasons, notes)


def _decision(
    cycle: JobCycle,
    row: int,
    outcome: Outcome,
    reason: str,
    candidates: ChosenCandidates,
    reasons: Reasons,
    notes: tuple[str, ...] | Notes,
) -> Decision:
    chunks = cycle.work.chunks
    ramcount = float(chunks.ramcount[row])
    return Decision(
        jeditaskid=int(chunks.jeditaskid[row]),
        datasetid=int(chunks.datasetid[row]),
        ramcount=None if math.isnan(ramcount) else ramcount,
        brokerage=cycle.chain.brokerage,
        outcome=outcome,
        reason=reason,
        candidates=candidates,
        rejected=RejectedNames(reasons),
        funnel=FunnelSteps(reasons),
        notes=notes,
    )


def deciding(cycle: JobCycle, result: ChunkResult) -> AnyArray:
    """(Q,): for each candidate the index of its code in the legend of the cycle.

    FEASIBLE marks those that nothing rejected, lower values those that never were candidates.
    """
    position: AnyArray = result.block.evaluation.reason[result.row - result.block.rows.start].astype(np.int16)
    ranking = result.ranking
    if ranking is not None:
        behind = 2 * len(cycle.chain.filters)
        position[result.feasible] = np.where(ranking.cut >= 0, ranking.cut + behind, FEASIBLE)
    return np.asarray(position)


def _candidates(cycle: JobCycle, result: ChunkResult) -> ChosenCandidates:
    ranking = result.ranking
    if ranking is None:
        return no_candidates(cycle.legend)
    inside, place, queue = result.row - result.block.rows.start, ranking.chosen, result.chosen
    factors = np.empty((len(ranking.load_factors) + len(result.block.factors), len(queue)))
    for at, moving in enumerate(ranking.load_factors):
        factors[at] = moving[place]
    for at, fixed in enumerate(result.block.factors, len(ranking.load_factors)):
        factors[at] = taken_at(fixed, inside, queue)
    bootstrap = ranking.bootstrap[place]
    return ChosenCandidates(
        legend=cycle.legend,
        place=queue,
        weight=np.where(bootstrap, 0.0, ranking.weight[place]),
        factors=factors,
        bootstrap=bootstrap,
    )


def _notes(cycle: JobCycle, result: ChunkResult) -> tuple[str, ...] | Notes:
    """What could not be known, as codes: ``source:state`` and ``rule:fault``; then the remarks of the brokerage."""
    codes = (*_codes(cycle), *cycle.remarks(result.row, result.plan))
    stats = cycle.figures_of(result)
    return codes if stats is None else Notes(codes, Remarks(cycle.legend, *stats))


def _codes(cycle: JobCycle) -> tuple[str, ...]:
    faults = sorted({f"rule_fault:{fault.rule}" for fault in cycle.faults}) if cycle.faults else ()
    return (*cycle.unusable_sources, *faults)
