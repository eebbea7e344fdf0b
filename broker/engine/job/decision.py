"""The result of a chunk as a decision: reasons and candidates packed, so that a cycle makes no names and no words."""

from __future__ import annotations

import math

import numpy as np

from broker.codec.packed_reasons import FunnelSteps, Reasons, RejectedNames
from broker.codec.packed_remarks import Notes, Remarks
from broker.domain.arrays import AnyArray
from broker.domain.chosen_candidates import ChosenCandidates, no_candidates
from broker.domain.decisions import Decision
from broker.engine.job.chunk_result import ChunkResult
from broker.engine.job.cycle import JobCycle
from broker.engine.shared.fixed_factors import factor_at
from broker.engine.shared.pair_state import FEASIBLE


def decision_of(cycle: JobCycle, result: ChunkResult) -> Decision:
    """The decision on one chunk: it is brokered when it has candidates, else it is pending."""
    # whatever the rules say of the queues, a chunk that is blocked cannot go: the queues that are left go with it
    blocked = result.reason if result.blocked else ""
    reasons = Reasons(cycle.legend, deciding(cycle, result), blocked, dict(cycle.refused_names(result.row)))
    chunks, row = cycle.work.chunks, result.row
    ramcount = float(chunks.ramcount[row])
    return Decision(
        jeditaskid=int(chunks.jeditaskid[row]),
        datasetid=int(chunks.datasetid[row]),
        ramcount=None if math.isnan(ramcount) else ramcount,
        brokerage=cycle.chain.brokerage,
        outcome=cycle.outcome(row, result.reason),
        reason=result.reason,
        candidates=_candidates(cycle, result),
        rejected=RejectedNames(reasons),
        funnel=FunnelSteps(reasons),
        notes=_notes(cycle, result),
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
        factors[at] = factor_at(fixed, inside, queue)
    bootstrap = ranking.bootstrap[place]
    return ChosenCandidates(
        legend=cycle.legend,
        place=queue,
        weight=np.where(bootstrap, 0.0, ranking.weight[place]),
        factors=factors,
        bootstrap=bootstrap,
    )


def _notes(cycle: JobCycle, result: ChunkResult) -> tuple[str, ...] | Notes:
    """Codes of missing facts, ``source:state`` and ``rule:fault``, then the remarks of the brokerage."""
    codes = (*noted_codes(cycle), *cycle.remarks(result.row, result.plan))
    stats = cycle.figures_of(result)
    return codes if stats is None else Notes(codes, Remarks(cycle.legend, *stats))


def noted_codes(cycle: JobCycle) -> tuple[str, ...]:
    """The codes that all decisions note which are made now: unusable sources, and rules that could not be run."""
    faults = sorted({f"rule_fault:{fault.rule}" for fault in cycle.faults}) if cycle.faults else ()
    return (*cycle.unusable_sources, *faults)
