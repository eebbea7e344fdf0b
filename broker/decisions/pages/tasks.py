"""Pages of tasks: the list, one task with pictures of its decisions, and why a queue was not chosen.

:func:`waterfall` draws how rules reduce the candidates of a decision; it is pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlencode

from fastapi import Path, Query, Response
from markupsafe import Markup
from starlette.requests import Request

from broker.access.policies import READ, Role
from broker.api.deciding import decided, decided_if
from broker.api.guarded_route import allow
from broker.api.state import LARGEST_ID, At, Moment, Name, State, TaskId, Who, aware, query_context
from broker.decisions.answers.decision import read_task_decision
from broker.decisions.answers.decision_model import ExplainedDecision, TaskDecision, WhyNot, is_of_program
from broker.decisions.answers.phrases import comparison, throttle
from broker.decisions.answers.sentences import (
    candidate_sentence,
    cure_sentence,
    feasible_sentence,
    position_sentence,
    remedy_sentences,
    task_sentence,
    together_sentence,
    verdict_sentence,
    waiting_sentence,
)
from broker.decisions.answers.why_not import read_why_not
from broker.decisions.routes.tasks import refuse_names
from broker.domain.words import with_unit
from broker.history.answers.history import History, HistoryEvent, event_sentence, history
from broker.history.answers.job import jobs_of_tasks
from broker.history.answers.job_models import JobsOfTasks
from broker.history.answers.list_models import TaskFilters
from broker.history.answers.tasks import known_task_filters, task_list
from broker.notifications.answers.subscriptions import SubscriptionTargets, TaskSubscriptions, offered, subscriptions_of
from broker.store.query_context import Proceed
from broker.web.formats import in_path
from broker.web.pictures.bars import Bar, bar_of, bars, row_of_bars, rows_of_bars
from broker.web.pictures.job_states import end_sentence, progress_sentence, states_picture
from broker.web.pictures.over_time import Mark, timeline
from broker.web.rendering import page_router, show
from broker.web.time_range import time_shown


@dataclass(frozen=True)
class Step:
    """One rule: its code, and the numbers of rejected and remaining candidates."""

    code: str
    rejected: int
    remaining: int


def waterfall(start: int, steps: Sequence[Step], chosen: int, kind: str = "queue") -> Markup:
    """One bar per rule: the rejected candidates, starting where the bar of the previous rule ended."""
    largest = float(max(start, 1))
    rows = [row_of_bars("candidates", None, [bar_of(0.0, start, largest, "bar-all")], f"{start:,}")]
    for step in steps:
        shapes = [
            bar_of(0.0, step.remaining, largest, "bar-left"),
            bar_of(step.remaining, step.rejected, largest, "bar-lost"),
        ]
        rows.append(row_of_bars(step.code, f"/reasons/{in_path(step.code)}", shapes, f"−{step.rejected:,}"))  # noqa: RUF001
    rows.append(row_of_bars("chosen", None, [bar_of(0.0, chosen, largest, "bar-good")], f"{chosen:,}"))
    description = f"{start:,} candidates ({kind}), {chosen:,} chosen; rejected: "
    description += ", ".join(f"{step.code} {step.rejected:,}" for step in steps) or "none"
    return rows_of_bars(description, rows)


router = page_router(tag="tasks")
MOST_EVENTS = 60


@router.get("/tasks")
@allow(READ)
def list_tasks(
    request: Request,
    api: State,
    who: Who,
    user: Name | None = None,
    status: Name | None = None,
    reason: Name | None = None,
    queue: Name | None = None,
    nucleus: Name | None = None,
    gshare: Name | None = None,
    since: Moment | None = None,
    after: Annotated[int | None, Query(ge=0, le=LARGEST_ID)] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 100,
    at: At = None,
) -> Response:
    """Tasks with what was last decided about them, filtered by the address."""
    filters = {"user": user, "status": status, "reason": reason, "queue": queue, "nucleus": nucleus, "gshare": gshare}
    chosen = {name: value for name, value in filters.items() if value}
    refuse_names(who, chosen.get("user"))
    begin = None if since is None else aware(since)
    with query_context(api, at) as query:
        tasks = task_list(
            query, known_task_filters(query, TaskFilters(**chosen, since=begin, after=after, limit=limit))
        )
    why = [None if line.throttle is None else throttle(line.throttle) for line in tasks.tasks]
    fields = ["status", "reason", "queue", "nucleus", "gshare"] + (["user"] if who is not None else [])
    time = time_shown(request, at, tasks.now)
    parameters = (
        chosen
        | ({} if at is None else {"at": aware(at).isoformat()})
        | ({} if begin is None else {"since": begin.isoformat()})
        | {"limit": limit}
    )
    further = None if tasks.next_after is None else urlencode({**parameters, "after": tasks.next_after})
    return show(
        request,
        "decisions/tasks",
        tasks,
        title="Tasks",
        items="tasks",
        why=why,
        fields=fields,
        further=further,
        time=time,
    )


@router.get("/tasks/{jeditaskid}")
@allow(READ)
async def one_task(
    request: Request, api: State, who: Who, jeditaskid: TaskId, evaluate: bool = False, at: At = None
) -> Response:
    """A task: what was decided about it and why, what happened to it; for those with a token what would help."""

    def work(proceed: Proceed) -> Response:
        with query_context(api, at) as query:
            evaluated = read_task_decision(query, jeditaskid, evaluate=evaluate)
            events, jobs = history(query, jeditaskid), jobs_of_tasks(query, [jeditaskid])
            time, subscriptions = time_shown(request, at, query.now), None
            if who is not None and (who.has(Role.SUBMITTER) or who.has(Role.OPERATOR)):
                subscriptions = subscriptions_of(query, jeditaskid)
        terms = None if subscriptions is None else offered(api.folder)
        subscribing = None if subscriptions is None or terms is None else (subscriptions, terms)
        return _task_page(request, evaluated(proceed), events, jobs, evaluate, time, subscribing)

    return await decided_if(evaluate, request, api, work)


def _task_page(
    request: Request,
    decision: TaskDecision,
    task_history: History,
    jobs: JobsOfTasks,
    evaluate: bool,
    time: Mapping[str, object],
    subscribing: tuple[TaskSubscriptions, SubscriptionTargets] | None,
) -> Response:
    sentences = [_decision_fields(one) for one in decision.decisions]
    events = [
        {"at": one.at, "event": one.event, "text": event_sentence(one)} for one in task_history.events[-MOST_EVENTS:]
    ]
    return show(
        request,
        "decisions/task",
        {"decision": decision, "history": task_history, "jobs": jobs},
        title=f"Task {decision.task.jeditaskid}",
        sentence=task_sentence(decision.task),
        described=sentences,
        events=events[::-1],
        evaluated=evaluate,
        time=time,
        told=None if subscribing is None else [one.model_dump() for one in subscribing[0].subscriptions],
        offered=None if subscribing is None else subscribing[1].model_dump(),
        progress=progress_sentence(jobs.states),
        until=end_sentence(jobs.finished_an_hour, jobs.expected_end),
        states=lambda: states_picture(jobs.states, decision.task.jeditaskid),
        picture=_pictures(decision.decisions, task_history.events),
    )


def _decision_fields(one: ExplainedDecision) -> dict[str, object]:
    """The sentences about a decision."""
    return {
        "verdict": verdict_sentence(one),
        "cure": cure_sentence(one),
        "waiting": waiting_sentence(one),
        "remedies": list(remedy_sentences(one)),
        "position": "" if one.position is None else position_sentence(one.position),
        "together": "" if one.together is None else together_sentence(one.together),
        "feasible": [] if one.together is None else [(each, feasible_sentence(each)) for each in one.together.queues],
        "notes": [note for note in one.notes if not is_of_program(note)],
        "misses": [candidate_sentence(miss) for miss in one.near_misses],
    }


def _pictures(
    decisions: Sequence[ExplainedDecision], events: Sequence[HistoryEvent]
) -> Callable[[str, int], Markup | None]:
    makers: dict[str, Callable[[int], Markup | None]] = {
        "waterfall": lambda at: waterfall_of(decisions[at]),
        "request": lambda at: request_of(decisions[at]),
        "timeline": lambda at: timeline([Mark(one.at, one.event, event_sentence(one)) for one in events]),
    }
    return lambda kind, at: makers[kind](at)


def waterfall_of(one: ExplainedDecision) -> Markup:
    """The waterfall of the candidates of a decision."""
    steps = [Step(line.code, line.rejected.queues, line.remaining.queues) for line in one.summary.rejections]
    return waterfall(one.summary.start.queues, steps, one.summary.chosen.queues, one.candidate_kind)


def request_of(one: ExplainedDecision) -> Markup | None:
    """The requested value against the best available; None if they are not comparable numbers."""
    best = one.verdict.best
    seen = None if best is None else best.compared
    if best is None or seen is None or not all(_is_number(value) for value in (seen.value, seen.limit)):
        return None
    value, limit = float(seen.value or 0), float(seen.limit or 0)
    lines = [
        Bar("requested", value, with_unit(seen.value, seen.unit), class_="bar-lost"),
        Bar(f"best: {best.name}", limit, with_unit(seen.limit, seen.unit)),
    ]
    return bars(f"{best.code}: requested against best available", lines)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@router.get("/tasks/{jeditaskid}/why-not/{queue:path}")
@allow(READ)
async def why_not_queue(
    request: Request, api: State, jeditaskid: TaskId, queue: Annotated[str, Path(min_length=1, max_length=200)]
) -> Response:
    """Why the last decisions about a task did not choose a queue: the rules in order."""

    def work(proceed: Proceed) -> Response:
        warnings: list[str] = []
        with query_context(api) as query:
            evaluated = read_why_not(query, api.database, jeditaskid, queue, None, True, warnings.append, most=1)
        return _why_not_page(request, evaluated(proceed), warnings)

    return await decided(request, api, work)


def _why_not_page(request: Request, answer: WhyNot, warnings: list[str]) -> Response:
    words = [candidate_sentence(line.candidate) for line in answer.answers]
    rules = [
        {
            "reached": [
                (rule, None if rule.compared is None else comparison(rule.compared))
                for rule in line.every_rule
                if rule.verdict != "not_reached"
            ],
            "beyond": [rule.rule for rule in line.every_rule if rule.verdict == "not_reached"],
        }
        for line in answer.answers
    ]
    title = f"Why not {answer.name} for task {answer.jeditaskid}"
    return show(
        request, "decisions/why_not", answer, title=title, items="answers", words=words, rules=rules, warnings=warnings
    )
