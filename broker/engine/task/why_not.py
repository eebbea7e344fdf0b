"""Why a task did not get a nucleus: the deciding rule, the value that it saw, the limit, and the key that set it."""

from __future__ import annotations

import numpy as np

from broker.domain.decisions import Observation
from broker.domain.reason import Reason
from broker.engine.shared.answer import CHOSEN, UNKNOWN_NUCLEUS, Answer
from broker.engine.shared.evaluate import AnyFilter
from broker.engine.shared.pair_state import FEASIBLE, NOT_A_CANDIDATE
from broker.engine.task.cycle import PRESET, WEIGHT_UNKNOWN, TaskCycle, TaskResult
from broker.engine.task.decision import decisive_position

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


def why_not_nucleus(cycle: TaskCycle, result: TaskResult, nucleus: str, chosen: str | None) -> Answer:
    """The answer for a nucleus; with code ``unknown_nucleus`` for a name that the snapshot does not have.

    Args:
        cycle: over the stored work of the task, made with codes.
        result: of the task.
        nucleus: name of the nucleus, or of a satellite.
        chosen: the nucleus that was drawn, None for none.
    """
    found = np.flatnonzero(cycle.snapshot.nuclei.name == nucleus)
    if not len(found):
        title = "there was no nucleus of this name in the snapshot"
        return Answer(nucleus, UNKNOWN_NUCLEUS, "candidates", "persistent", title, None)
    at = int(found[0])
    codes, deciding = cycle.legend.codes, decisive_position(cycle, result)
    index, filters = int(deciding[at]), cycle.chain.filters
    if index == NOT_A_CANDIDATE:
        return _never_a_candidate(cycle, result, nucleus, at)
    if index == FEASIBLE:
        return _not_rejected(cycle, result, nucleus, at, chosen)
    if codes[index] == WEIGHT_UNKNOWN:
        return Answer(nucleus, WEIGHT_UNKNOWN, "weights", "ranking", "the weight is not a finite number", None)
    rule = filters[index % len(filters)]
    seen = _observe(cycle, result, rule, at)
    if index >= len(filters):
        seen = _unknown(cycle, rule) or seen
    return Answer(nucleus, codes[index], rule.name, rule.kind, rule.title, seen)


def _never_a_candidate(cycle: TaskCycle, result: TaskResult, nucleus: str, at: int) -> Answer:
    if result.reason == PRESET:
        seen = Observation(nucleus, "==", cycle.work.tasks.nucleus[result.row], "-", "task.nucleus")
        return _answer(nucleus, OTHER_NUCLEUS_SET, "candidates", "persistent", seen)
    is_nucleus = bool(cycle.snapshot.nuclei.is_nucleus[at])
    seen = Observation("nucleus" if is_nucleus else "satellite", "==", "nucleus", "-", "site.role")
    return _answer(nucleus, NOT_A_NUCLEUS, "candidates", "persistent", seen)


def _answer(nucleus: str, why: Reason, step: str, kind: str, seen: Observation) -> Answer:
    return Answer(nucleus, why.code, step, kind, why.title, seen)


def _not_rejected(cycle: TaskCycle, result: TaskResult, nucleus: str, at: int, chosen: str | None) -> Answer:
    if result.blocked:
        title = f"no rule rejected the nucleus; the task waits for another reason: {result.reason}"
        return Answer(nucleus, result.reason, "input", "temporary", title, None)
    if nucleus == chosen:
        return Answer(nucleus, CHOSEN, "draw", "ranking", "the task got this nucleus", None)
    place = int(np.flatnonzero(result.feasible == at)[0])
    total = float(result.weight.sum())
    share = 100.0 * float(result.weight[place]) / total if total > 0 else 0.0
    seen = Observation(nucleus, "==", chosen, "-", "rule", {"weight": float(result.weight[place]), "chance": share})
    return _answer(nucleus, NOT_DRAWN, "draw", "ranking", seen)


def _observe(cycle: TaskCycle, result: TaskResult, rule: AnyFilter, at: int) -> Observation:
    return rule.observe(cycle.pairs_at(result, rule, at))


def _unknown(cycle: TaskCycle, rule: AnyFilter) -> Observation | None:
    for state in cycle.snapshot.unusable(rule.sources):
        return Observation(state.age_s, "<=", state.limit_s, "s", f"source.{state.name}", {"state": state.state})
    return None
