"""The latest decisions about a task as an answer: verdict, figures, pins in force, and position in its share.

The position is that among the waiting work of the share, in brokering order; pins are fields of queues that operators
held when the decision was made. The types are in :mod:`broker.decisions.answers.decision_model`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

import sqlalchemy as sa

from broker.brokerages.registry import brokerage as brokerage_of
from broker.codec.decision_counts import NO_CANDIDATES
from broker.codec.reason_at_queue import counts_of
from broker.decisions.answers.decision_model import (
    CandidateLine,
    ExplainedDecision,
    FilterSummary,
    Position,
    RejectedCandidate,
    Remedies,
    TaskDecision,
    TaskFacts,
    Verdict,
    is_of_program,
    placed_together,
)
from broker.decisions.answers.known_reasons import codes_of_step
from broker.decisions.statements.place_in_share import WorkInShare, count_waiting
from broker.domain.decisions import Decision, StoredDecision, first_redecided, is_late, redecided
from broker.domain.rejection_counts import Counts, RejectionCounts, rejection_counts, unified_of
from broker.engine.job.placement import Placement
from broker.engine.shared.rank import LOW_WEIGHT, OTHERS_BOOTSTRAP
from broker.feeds.statements.queue_pins import Pin, held_pins
from broker.forecasts.answers.forecasts import waiting_start
from broker.history.answers.stored_states import LOOKED_BACK, ChunkState, chunk_states, most_rejecting
from broker.history.answers.tasks import throttle_in
from broker.history.statements.task_facts import TaskSelection, read_task_facts
from broker.rules.contract import LoadCut
from broker.store.decisions import decision_rows
from broker.store.query_context import Evaluation, NothingFound, Proceed, QueryContext, proceed
from broker.store.summaries.chunk_states import decided_after

if TYPE_CHECKING:
    from broker.decisions.answers.remedies import EvaluationResult


def position_of(query: QueryContext, decision: Decision, then: Sequence[ChunkState] | None) -> Position | None:
    """The position of a decision's work among the waiting work; None if its task is not on record.

    Args:
        query: the query context.
        decision: the decision about the work.
        then: the states of all work that waited at a past instant; None to count what waits now.
    """
    own = (decision.jeditaskid, decision.datasetid or 0, decision.ramcount or 0.0)
    if then is not None:
        tasks = sorted({state.jeditaskid for state in then} | {decision.jeditaskid})
        facts = read_task_facts(query.connection, query.catalogue, TaskSelection(tasks=tasks))
        return None if own[0] not in facts else position_among(decision, then, facts)
    facts = read_task_facts(query.connection, query.catalogue, TaskSelection(tasks=[own[0]]))
    if own[0] not in facts:
        return None
    share, priority = facts[own[0]]["gshare"], facts[own[0]]["currentpriority"]
    work = WorkInShare(decision.brokerage, share, priority or 0, *own)
    ahead, others = count_waiting(query.connection, query.catalogue, work, query.now - LOOKED_BACK)
    return _position(decision, ahead, others + 1, share, priority)


def position_among(
    decision: Decision, states: Sequence[ChunkState], facts: Mapping[int, Mapping[str, Any]]
) -> Position:
    """The position among the chunks waiting at the same brokerage in the same share, by priority, then number. Pure."""
    share, priority = facts[decision.jeditaskid]["gshare"], facts[decision.jeditaskid]["currentpriority"]
    waiting = {
        (state.jeditaskid, state.datasetid or 0, state.ramcount or 0.0)
        for state in states
        if state.brokerage == decision.brokerage
        and state.outcome != "brokered"
        and state.jeditaskid in facts
        and facts[state.jeditaskid]["gshare"] == share
    }
    own = (decision.jeditaskid, decision.datasetid or 0, decision.ramcount or 0.0)
    order = sorted(waiting | {own}, key=lambda chunk: (-(facts[chunk[0]]["currentpriority"] or 0), chunk))
    return _position(decision, order.index(own), len(order), share, priority)


def _position(decision: Decision, ahead: int, of: int, share: str | None, priority: int | None) -> Position:
    funnel = [(step.code, step.before, step.after) for step in decision.funnel]
    code = most_rejecting(rejection_counts(decision.rejected, funnel, ()))
    return Position(
        place=ahead + 1,
        of=of,
        ahead=ahead,
        gshare=share,
        priority=priority,
        decides=decision.outcome == "throttled" or code in passing_codes(decision.brokerage),
    )


def passing_codes(brokerage: str) -> frozenset[str]:
    """Codes that pass as other work of the share ends or is placed elsewhere; with them the position matters."""
    rules = brokerage_of(brokerage).chain()
    temporary = {rule.code for rule in rules if isinstance(rule, LoadCut) or getattr(rule, "kind", "") == "temporary"}
    return frozenset({LOW_WEIGHT, OTHERS_BOOTSTRAP, *codes_of_step(Placement.name), *temporary})


def pins_in(connection: sa.Connection, decision: Decision, decided_at: datetime) -> list[Pin]:
    """The pins of queues that the decision chose or rejected when it was made."""
    return pins_among(held_pins(connection, decided_at), decision)


def pins_among(held: Sequence[Pin], decision: Decision) -> list[Pin]:
    """The pins of queues that the decision chose or rejected, or of their pseudo-queues. Pure."""
    names = {*decision.rejected, *(candidate.name for candidate in decision.candidates)}
    queues = {name.partition("/")[0] for name in names} | names
    return [pin for pin in held if pin.queue in queues]


NUCLEUS = "nucleus"
PRESET = "preset_nucleus"


def task_decision(
    query: QueryContext,
    jeditaskid: int,
    *,
    at: datetime | None = None,
    brokerage: str | None = None,
    evaluate: bool = True,
) -> TaskDecision:
    """The decisions of the last cycle that considered a task.

    Args:
        query: the query context.
        jeditaskid: the task.
        at: the last cycle up to this instant (aware); None for the last of all.
        brokerage: only its cycles.
        evaluate: whether to evaluate pending decisions again for near misses and what would help.

    Raises:
        NothingFound: no cycle has considered the task.
    """
    return read_task_decision(query, jeditaskid, at=at, brokerage=brokerage, evaluate=evaluate)(proceed)


def read_task_decision(
    query: QueryContext,
    jeditaskid: int,
    *,
    at: datetime | None = None,
    brokerage: str | None = None,
    evaluate: bool = True,
) -> Evaluation[TaskDecision]:
    """Like :func:`task_decision`, in two parts: this reads, and the result evaluates without a connection."""
    rows = decision_rows.latest(query.connection, jeditaskid, at, brokerage)
    facts = read_task_facts(query.connection, query.catalogue, TaskSelection(tasks=[jeditaskid]))
    if not rows:
        first = None if at is None else first_decided_at(query, jeditaskid, brokerage)
        raise no_decision(jeditaskid, bool(facts), brokerage, first)
    waits = {one.brokerage for stored in rows if waits_after(one := stored.record.decision)}
    # the database counts what waits now; what waited in the past is counted from the chunk states
    is_past = bool(waits) and decided_after(query.connection, query.now)
    selection = None if is_past else [jeditaskid]
    states = chunk_states(query.connection, query.now, waiting_at=waits, tasks=selection) if waits else []
    waiting = [stored for stored in rows if waits_after(stored.record.decision)]
    since = [one.waiting_since for one in states if one.jeditaskid == jeditaskid and one.waiting_since is not None]
    task = TaskFacts(
        **facts.get(jeditaskid, {"jeditaskid": jeditaskid}),
        waiting_since=min((*since, *(one.origin.decided_at for one in waiting)), default=None) if waiting else None,
        next_try_at=min((until for one in waiting if (until := one.record.pending_until)), default=None),
        redecide=first_redecided((one.record.decision.outcome, one.record.pending_until) for one in waiting),
    )
    explained = [_explained(query, stored, states if is_past else None, evaluate) for stored in rows]
    start = waiting_start(query, jeditaskid) if waiting and at is None else None

    def evaluated(proceed: Proceed) -> TaskDecision:
        decisions = tuple(one(proceed) for one in explained)
        return TaskDecision(now=query.now, task=task, decisions=decisions, start=start)

    return evaluated


def waits_after(decision: Decision) -> bool:
    """Whether the work waits after this decision: not if it was brokered, nor if the decision was not written."""
    return decision.outcome != "brokered" and not is_late(decision.outcome)


def first_decided_at(query: QueryContext, jeditaskid: int, brokerage: str | None) -> datetime | None:
    """When the first decision about a task was made; None if there is none."""
    from broker.history.statements.history_reads import read_record

    record = read_record(query.connection, query.names, jeditaskid)
    return min((one.decided_at for one in record.decisions if brokerage in (None, one.brokerage)), default=None)


def no_decision(jeditaskid: int, is_known: bool, brokerage: str | None, first: datetime | None = None) -> NothingFound:
    """The error for a task that no cycle has considered, or none by an instant; ``first``: when the first one did."""
    if first is not None:
        remedy = f"the first is of {first.isoformat(timespec='seconds')}"
        return NothingFound("decision that early about task", jeditaskid, "broker.decisions", remedy=remedy)
    if not is_known:
        return NothingFound("task", jeditaskid, "jedi_tasks", remedy="see broker tasks")
    run = f"broker run {brokerage or 'production_job'} --task {jeditaskid} --dry-run"
    remedy = f"run: {run}; broker doctor --ready says whether anything is missing"
    return NothingFound("decision about task", jeditaskid, "broker.decisions", remedy=remedy)


def _explained(
    query: QueryContext, stored: StoredDecision, then: Sequence[ChunkState] | None, evaluate: bool
) -> Evaluation[ExplainedDecision]:
    record, origin = stored.record, stored.origin
    decision = record.decision
    pins = pins_in(query.connection, decision, origin.decided_at)
    if not waits_after(decision):
        return lambda proceed: explained(stored, pins, None)
    # the re-evaluation modules are slow to import
    from broker.decisions.answers.remedies import evaluation
    from broker.grid.answers.readiness import missing_for

    again = evaluation(query, stored) if evaluate else None
    position = position_of(query, decision, then)
    # a task that names queues or nuclei has no candidate if none of the names is one
    has_no_candidates = decision.reason in NO_CANDIDATES and not counts_of(decision).start.queues
    lacking = missing_for(query, origin.snapshot) if has_no_candidates else ()

    def evaluated(proceed: Proceed) -> ExplainedDecision:
        answer = explained(stored, pins, None if again is None else again(proceed))
        return answer.model_copy(update={"position": position, "missing": lacking})

    return evaluated


def stored_explanations(connection: sa.Connection, decisions: Sequence[StoredDecision]) -> list[ExplainedDecision]:
    """Decisions as answers, without the parts that depend on the request time: position, missing data, remedies."""
    moments = {stored.origin.decided_at for stored in decisions}
    held = {moment: held_pins(connection, moment) for moment in moments}
    return [explained(one, pins_among(held[one.origin.decided_at], one.record.decision), None) for one in decisions]


def explained(stored: StoredDecision, pins: Sequence[Pin], again: EvaluationResult | None) -> ExplainedDecision:
    """One decision as an answer. Pure.

    Args:
        stored: the decision.
        pins: fields that operators held when it was made.
        again: near misses and what would help; None if it was not evaluated again.
    """
    record, origin = stored.record, stored.origin
    decision = record.decision
    kind = brokerage_of(decision.brokerage)
    counts = counts_of(decision)
    misses = () if again is None else again.near_misses
    return ExplainedDecision(
        id=stored.id,
        jeditaskid=decision.jeditaskid,
        datasetid=decision.datasetid,
        ramcount=decision.ramcount,
        brokerage=decision.brokerage,
        outcome=decision.outcome,
        reason=decision.reason,
        decided_at=origin.decided_at,
        seen_at=stored.last_seen_at or origin.decided_at,
        times_seen=1 + stored.seen_again,
        pending_until=record.pending_until,
        redecide=redecided(decision.outcome, record.pending_until),
        snapshot=origin.snapshot,
        tuning=origin.tuning_for(decision.jeditaskid),
        seed=origin.seed,
        engine=origin.engine,
        verdict=verdict_of(decision, record.assigned, counts, misses),
        throttle=throttle_in(decision.notes),
        together=placed_together(decision),
        draw=_draw(decision, kind.candidate),
        candidate_kind=kind.candidate,
        assigned_kind=kind.assigned,
        summary=filter_summary(counts, with_pseudo_queues=kind.candidate != NUCLEUS),
        candidates=candidate_lines(decision, record.assigned),
        assigned=dict(record.assigned),
        rejected=dict(decision.rejected),
        funnel=tuple((step.code, step.before, step.after) for step in decision.funnel),
        near_misses=misses,
        remedies=Remedies(evaluated=False, why_not="not_asked") if again is None else again.remedies,
        position=None,
        notes=tuple(decision.notes),
        pins=tuple(pin.held_field for pin in pins),
    )


def filter_summary(counts: RejectionCounts, *, with_pseudo_queues: bool) -> FilterSummary:
    """The rejection counts as a part of an answer."""

    def shown(number: Counts) -> Counts:
        return number if with_pseudo_queues else replace(number, pseudo_queues=None)

    return FilterSummary(
        start=shown(counts.start),
        rejections=tuple(
            replace(line, rejected=shown(line.rejected), remaining=shown(line.remaining)) for line in counts.rejected
        ),
        chosen=shown(counts.chosen),
        not_candidates=dict(counts.not_candidates),
    )


def candidate_lines(decision: Decision, assigned: Mapping[str, int]) -> tuple[CandidateLine, ...]:
    """The chosen candidates, each with its probability of being drawn: its fraction of the total weight."""
    total = sum(candidate.weight for candidate in decision.candidates)
    bootstrapping = any(candidate.bootstrap for candidate in decision.candidates)
    # nothing is drawn where a program over all chunks assigned the jobs
    drawn = total > 0 and not bootstrapping and not any(map(is_of_program, decision.notes))
    return tuple(
        CandidateLine(
            name=candidate.name,
            weight=candidate.weight,
            probability=candidate.weight / total if drawn else None,
            assigned=int(assigned.get(candidate.name, 0)),
            bootstrap=candidate.bootstrap,
            factors=candidate.factors,
        )
        for candidate in decision.candidates
    )


def verdict_of(
    decision: Decision,
    assigned: Mapping[str, int],
    counts: RejectionCounts,
    near_misses: Sequence[RejectedCandidate] = (),
) -> Verdict:
    """The outcome of the work, in one code. Pure."""
    jobs, queues = sum(assigned.values()), {unified_of(name) for name in assigned}
    first = decision.candidates[0].name if decision.candidates else None
    if decision.outcome == "brokered":
        if brokerage_of(decision.brokerage).candidate == NUCLEUS:
            code: Literal["nucleus_preset", "nucleus_drawn"] = (
                "nucleus_preset" if decision.reason == PRESET else "nucleus_drawn"
            )
            return Verdict(code=code, chosen=first, of_queues=len(decision.candidates))
        kind: Literal["placed", "not_placed"] = "placed" if jobs else "not_placed"
        return Verdict(code=kind, jobs=jobs, at_queues=len(queues), of_queues=counts.start.queues)
    if decision.outcome == "throttled":
        return Verdict(code="throttled", reason=decision.reason)
    if is_late(decision.outcome):
        return Verdict(code="came_too_late", reason=decision.reason)
    if decision.reason not in NO_CANDIDATES:
        return Verdict(code="input_missing", reason=decision.reason, of_queues=counts.start.queues)
    return _no_candidate(counts, near_misses)


def _no_candidate(counts: RejectionCounts, near_misses: Sequence[RejectedCandidate]) -> Verdict:
    code = most_rejecting(counts) or "no_candidates"
    if not counts.start.queues:
        return Verdict(code="no_candidate_at_all", reason=code)
    line = next((one for one in counts.rejected if one.code == code), None)
    nearest = next((one for one in near_misses if one.code == code and one.compared is not None), None)
    kind: Literal["out_of_reach", "rejected_by_rules"] = (
        "out_of_reach" if nearest is not None and nearest.gap_percent is not None else "rejected_by_rules"
    )
    return Verdict(
        code=kind,
        reason=code,
        queues=0 if line is None else line.rejected.queues,
        of_queues=counts.start.queues,
        best=nearest or next(iter(near_misses), None),
    )


def _draw(decision: Decision, candidate_kind: str) -> Literal["weighted", "preset"] | None:
    """Whether the candidate was drawn by weight or was preset; None where several candidates may get jobs."""
    if candidate_kind != NUCLEUS or decision.outcome != "brokered":
        return None
    return "preset" if decision.reason == PRESET else "weighted"
