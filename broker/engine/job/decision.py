"""The result of a chunk as a decision, and the verdict of every filter on one of its candidates.

Reasons and candidates stay packed, so that a cycle builds no names or texts. The verdicts include those of filters
before and after the deciding one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from broker.codec.packed_reasons import FunnelSteps, Reasons, RejectedNames
from broker.codec.packed_remarks import Notes, Remarks
from broker.domain.arrays import AnyArray
from broker.domain.chosen_candidates import ChosenCandidates, no_candidates
from broker.domain.decisions import Decision
from broker.engine.job.chunk_result import ChunkResult
from broker.engine.job.cycle import JobCycle
from broker.engine.shared.answer import RuleVerdict, Verdict
from broker.engine.shared.fixed_factors import factor_at
from broker.engine.shared.pair_state import FEASIBLE, NOT_A_CANDIDATE
from broker.rules.contract import Filter, GroupFilter


def decision_of(cycle: JobCycle, result: ChunkResult) -> Decision:
    """The decision on one chunk: it is brokered when it has candidates, else it is pending."""
    # a blocked chunk cannot be brokered whatever the rules say: the queues that they leave drop out, too
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

    FEASIBLE marks those that nothing rejected; lower values mark those that never were candidates.
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
    """The codes that all decisions made now carry: unusable sources, and rules that could not be run."""
    faults = sorted({f"rule_fault:{fault.rule}" for fault in cycle.faults}) if cycle.faults else ()
    return (*cycle.unusable_sources, *faults)


AnyFilter = Filter[Any] | GroupFilter[Any]


def every_rule(cycle: JobCycle, result: ChunkResult, name: str) -> list[RuleVerdict]:
    """The verdicts of all filters on a pseudo-queue, in order; none for a queue that never was a candidate."""
    positions = np.flatnonzero(cycle.snapshot.queues.name == name)
    if not len(positions):
        return []
    position = int(positions[0])
    decides = int(deciding(cycle, result)[position])
    if decides == NOT_A_CANDIDATE:
        return []
    verdicts, gone, skipped = [], False, False
    filters = len(cycle.chain.filters)
    # a filter has two codes, and those of cuts follow
    deciding_filter = decides % filters if 0 <= decides < 2 * filters else None
    for index, rule in enumerate(cycle.chain.filters):
        reached = not gone and not (rule.after_temporary and skipped)
        verdict = _verdict(cycle, result, rule, position, deciding_filter == index, reached)
        verdicts.append(verdict)
        if verdict.verdict == "fail" or (verdict.verdict == "unknown" and rule.unknown_policy == "reject"):
            skipped, gone = True, gone or rule.kind == "persistent"
    return verdicts


def _verdict(
    cycle: JobCycle, result: ChunkResult, rule: AnyFilter, position: int, decides: bool, reached: bool
) -> RuleVerdict:
    if not reached:
        return RuleVerdict(rule.name, rule.code, rule.kind, "not_reached", None)
    pairs = cycle.pairs_at(result, rule, np.array([position]))
    applies = rule.applies(pairs)
    if applies is not None and not bool(np.asarray(applies).all()):
        return RuleVerdict(rule.name, rule.code, rule.kind, "not_asked", None)
    if cycle.snapshot.unusable(rule.needs(pairs.tuning)):
        return RuleVerdict(rule.name, rule.code, rule.kind, "unknown", None)
    if isinstance(rule, GroupFilter):
        # it compares candidates with one another, and judged all of them at once
        verdict: Verdict = "fail" if decides else "pass"
    else:
        unknown = rule.unknown(pairs)
        passes = bool(np.asarray(rule.keep(pairs)).all())
        is_unknown = unknown is not None and bool(np.asarray(unknown).all())
        verdict = "unknown" if is_unknown else "pass" if passes else "fail"
    return RuleVerdict(rule.name, rule.code, rule.kind, verdict, rule.observe(pairs))
