"""Verdicts of every filter on one candidate, in order: before and after the one that decided as well."""

from __future__ import annotations

from typing import Any

import numpy as np

from broker.engine.job.chunk_result import ChunkResult
from broker.engine.job.cycle import JobCycle
from broker.engine.job.decision import deciding
from broker.engine.shared.answer import RuleVerdict, Verdict
from broker.engine.shared.pair_state import NOT_A_CANDIDATE
from broker.rules.contract import Filter, GroupFilter

AnyFilter = Filter[Any] | GroupFilter[Any]


def every_rule(cycle: JobCycle, result: ChunkResult, name: str) -> list[RuleVerdict]:
    """The verdicts of all filters on a pseudo-queue, in order; none for a queue that never was a candidate."""
    found = np.flatnonzero(cycle.snapshot.queues.name == name)
    if not len(found):
        return []
    position = int(found[0])
    decides = int(deciding(cycle, result)[position])
    if decides == NOT_A_CANDIDATE:
        return []
    verdicts, gone, skipped = [], False, False
    for index, rule in enumerate(cycle.chain.filters):
        reached = not gone and not (rule.after_temporary and skipped)
        one = _verdict(cycle, result, rule, position, decides % len(cycle.chain.filters) == index, reached)
        verdicts.append(one)
        if one.verdict == "fail" or (one.verdict == "unknown" and rule.unknown_policy == "reject"):
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
        # it compares candidates with one another, and was asked about all of them at once
        verdict: Verdict = "fail" if decides else "pass"
    else:
        unknown = rule.unknown(pairs)
        kept = bool(np.asarray(rule.keep(pairs)).all())
        is_unknown = unknown is not None and bool(np.asarray(unknown).all())
        verdict = "unknown" if is_unknown else "pass" if kept else "fail"
    return RuleVerdict(rule.name, rule.code, rule.kind, verdict, rule.observe(pairs))
