"""Why a queue was not chosen: the deciding rule, the value that it saw, the limit, and the key that set the limit."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

import numpy as np

from broker.domain.decisions import Observation, Reason, Value
from broker.domain.queues import TIGHTENING_KEYS
from broker.engine.job.chunk_result import ChunkResult
from broker.engine.job.cycle import JobCycle
from broker.engine.job.decision import deciding
from broker.engine.job.learned_running import learned_evidence
from broker.engine.job.steps import NOT_PRODUCTION
from broker.engine.shared.answer import CHOSEN, UNKNOWN_NAME, CandidateVerdict
from broker.engine.shared.evaluate import AnyFilter
from broker.engine.shared.pair_state import FEASIBLE, NOT_A_CANDIDATE
from broker.engine.shared.rank import LOW_WEIGHT, OTHERS_BOOTSTRAP

PRODUCTION_QUEUES_ONLY = Reason(
    code=NOT_PRODUCTION,
    title="the queue runs no production jobs, or has no cloud",
    who="wait",
    cure="Nothing is wrong: other queues run production jobs.",
)
ANALYSIS_QUEUES_ONLY = Reason(
    code="not_an_analysis_queue",
    title="the queue runs no analysis jobs",
    who="wait",
    cure="Nothing is wrong: other queues run analysis jobs.",
)
TEST_QUEUE = Reason(
    code="test_queue",
    title="queues with test in the name are used only when a task names them",
    who="you",
    cure="Name the queue in the task (`prun --site`) if its jobs are to run there.",
)
NOT_NAMED = Reason(
    code="not_preassigned",
    title="the task names its queues, and this is not one of them",
    who="you",
    cure="Submit without the name of a queue, or with this one.",
)
NOT_LEFT_BY_USER = Reason(
    code=NOT_NAMED.code,
    title="the task names or excludes queues, and this one is not left",
    who="you",
    cure="Submit without the list of sites (`prun --site`, `--excludedSite`), or with one that has the queue.",
)
#: Reasons for queues that never were a candidate, in production and in analysis.
PRODUCTION_REASONS = (TEST_QUEUE, NOT_NAMED)
ANALYSIS_REASONS = (ANALYSIS_QUEUES_ONLY, NOT_LEFT_BY_USER)


def why_not(cycle: JobCycle, result: ChunkResult, queue: str) -> list[CandidateVerdict]:
    """The answers for a queue: one for each of its pseudo-queues if it is a unified one, else for itself.

    A queue that the snapshot does not have gets one answer with code ``unknown_queue``.
    """
    queues = cycle.snapshot.queues
    positions = np.flatnonzero((queues.name == queue) | (queues.unified_name == queue))
    if not len(positions):
        title = "there was no queue of this name in the snapshot"
        return [CandidateVerdict(queue, UNKNOWN_NAME, "candidates", "persistent", title, None)]
    return [_answer(cycle, result, int(position)) for position in positions]


def why_not_each(cycle: JobCycle, result: ChunkResult, names: Collection[str] | None = None) -> list[CandidateVerdict]:
    """The answers for all candidates, or for those with these names; queues that never were one are left out."""
    wanted = deciding(cycle, result) != NOT_A_CANDIDATE
    if names is not None:
        wanted &= np.isin(cycle.snapshot.queues.name, list(names))
    return [_answer(cycle, result, position) for position in np.flatnonzero(wanted).tolist()]


def _answer(cycle: JobCycle, result: ChunkResult, position: int) -> CandidateVerdict:
    name = str(cycle.snapshot.queues.name[position])
    codes, index = cycle.legend.codes, int(deciding(cycle, result)[position])
    filters, cuts = cycle.chain.filters, cycle.chain.cuts
    if index == NOT_A_CANDIDATE:
        return _never_a_candidate(cycle, result, position, name)
    if index == FEASIBLE:
        if result.ranking is None:
            title = f"no queue rejected the chunk; it waits for another reason: {result.reason}"
            return CandidateVerdict(name, result.reason, "input", "temporary", title, None)
        return CandidateVerdict(name, CHOSEN, "ranking", "ranking", "the queue is among the chosen candidates", None)
    if index < len(filters):
        rule = filters[index]
        return CandidateVerdict(
            name, codes[index], rule.name, rule.kind, rule.title, _observe(cycle, result, rule, position)
        )
    if index < 2 * len(filters):
        rule = filters[index - len(filters)]
        return CandidateVerdict(name, codes[index], rule.name, rule.kind, rule.title, _unknown(cycle, rule))
    return _after_weighing(cycle, result, position, name, codes[index], index - 2 * len(filters), len(cuts))


def _never_a_candidate(cycle: JobCycle, result: ChunkResult, position: int, name: str) -> CandidateVerdict:
    unified, row = cycle.snapshot.unified, result.row
    if cycle.work.analysis_request is not None:
        return _never_for_analysis(cycle, row, position, name)
    queue = int(cycle.snapshot.queues.unified[position])
    if not unified.runs_production[queue]:
        why = PRODUCTION_QUEUES_ONLY
        seen = Observation(unified.type[queue], "in", "production, unified", "-", "queue.type")
    elif (
        result.block.facts.one_preassigned[row - result.block.rows.start, 0]
        or result.block.facts.listed[row - result.block.rows.start, 0]
    ):
        why = NOT_NAMED
        seen = Observation(
            name, "in", cycle.work.chunks.site[row] or cycle.work.chunks.master_site[row], "-", "task.site"
        )
    else:
        why = TEST_QUEUE
        seen = Observation(name, "not in", "names with test", "-", "rule")
    return CandidateVerdict(name, why.code, "candidates", "persistent", why.title, seen)


def _never_for_analysis(cycle: JobCycle, row: int, position: int, name: str) -> CandidateVerdict:
    unified, analysis_request = cycle.snapshot.unified, cycle.work.analysis_request
    queue = int(cycle.snapshot.queues.unified[position])
    lists = (
        ("", "")
        if analysis_request is None
        else (analysis_request.included_sites[row], analysis_request.excluded_sites[row])
    )
    if not unified.runs_analysis[queue]:
        why = ANALYSIS_QUEUES_ONLY
        seen = Observation(unified.type[queue], "in", "analysis, unified", "-", "queue.type")
    else:
        why = NOT_LEFT_BY_USER
        reported = f"site={cycle.work.chunks.site[row]} includedSite={lists[0]} excludedSite={lists[1]}"
        seen = Observation(name, "in", reported, "-", "task.includedSite")
    return CandidateVerdict(name, why.code, "candidates", "persistent", why.title, seen)


def _observe(cycle: JobCycle, result: ChunkResult, rule: AnyFilter, position: int) -> Observation:
    pairs = cycle.pairs_at(result, rule, np.array([position]))
    return _with_reports(cycle, rule.observe(pairs), position)


def _with_reports(cycle: JobCycle, seen: Observation, position: int) -> Observation:
    """The observation with each queue limit that pilot reports have tightened."""
    inputs: dict[str, Value] = {}
    key = seen.key
    for tuning_key, column in TIGHTENING_KEYS.items():
        published = float(getattr(cycle.published, column)[position])
        used = float(getattr(cycle.snapshot.queues, column)[position])
        if used == published or (used != used and published != published):
            continue
        inputs |= {f"{column}_published": None if published != published else published, f"{column}_reported": used}
        if key == f"queue.{column.rsplit('_', 1)[0]}":
            key = tuning_key
    return dataclasses.replace(seen, key=key, inputs={**seen.inputs, **inputs}) if inputs else seen


def _unknown(cycle: JobCycle, rule: AnyFilter) -> Observation | None:
    for state in cycle.snapshot.unusable(rule.sources):
        return Observation(state.age_s, "<=", state.limit_s, "s", f"source.{state.name}", {"state": state.state})
    return None


def _after_weighing(
    cycle: JobCycle, result: ChunkResult, position: int, name: str, code: str, cut: int, count: int
) -> CandidateVerdict:
    ranking = result.ranking
    assert ranking is not None  # noqa: S101 - a candidate is cut after weighing only when there was a ranking
    place = int(np.flatnonzero(result.feasible == position)[0])
    if cut < count:
        rule = cycle.chain.cuts[cut]
        load = cycle.load(result.block, result.row, np.array([position]))
        seen = rule.observe(load, ranking.weight[[place]])
        free = cycle.chain.steps.running.free_jobs(cycle.snapshot, cycle.tuning)
        learned = learned_evidence(cycle.snapshot, free, position)
        seen = dataclasses.replace(seen, inputs={**seen.inputs, **learned}) if learned else seen
        return CandidateVerdict(name, code, rule.name, "ranking", rule.title, seen)
    placement = cycle.chain.steps.placement
    if reason := placement.reason(code):
        return CandidateVerdict(name, code, placement.by, "ranking", reason.title, _dearer(result, name, reason))
    weight = float(ranking.weight[place])
    if code in (LOW_WEIGHT, OTHERS_BOOTSTRAP):
        last, best = float(ranking.weight[ranking.chosen[-1]]), len(ranking.chosen)
        seen = Observation(weight, ">", last, "weight", "rule", {"chosen": best})
        return CandidateVerdict(name, code, "ranking", "ranking", f"the best {best} candidates are taken", seen)
    return CandidateVerdict(name, code, "ranking", "ranking", "the weight is not a finite number", None)


def _dearer(result: ChunkResult, name: str, reason: Reason) -> Observation | None:
    """How much dearer than its best use a job of the chunk would be there; it is no dearer where jobs go."""
    plan = result.plan
    if plan is None or name not in plan.queues:
        return None
    position = plan.queues.index(name)
    inputs: dict[str, Value] = {"left": plan.left, "solver": plan.solver, "fallback": plan.fallback or None}
    return Observation(plan.dearer_hs06h[position], "<", 0.0, "HS06 h", reason.tuned_by or "rule", inputs)
