"""The HTTP API about tasks: which wait and why, what was decided about each, and what happened to it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request

from broker.access.policies import READ, Identity
from broker.api.deciding import decided, decided_if
from broker.api.guarded_route import allow, guarded_router
from broker.api.presenting import answer
from broker.api.problems import unauthenticated
from broker.api.state import LARGEST_ID, At, Moment, Name, State, TaskId, Who, aware, query_context
from broker.decisions.answers.decision import read_task_decision, task_decision
from broker.decisions.answers.decision_model import TaskDecision, WhyNot
from broker.decisions.answers.why_not import read_why_not
from broker.decisions.routes.decision_answers import decision_answers_of
from broker.history.answers.history import History, history
from broker.history.answers.list_models import ReasonFilters, Reasons, TaskFilters, TaskList
from broker.history.answers.reasons import reasons
from broker.history.answers.tasks import known_task_filters, task_list
from broker.store.query_context import NothingFound, Proceed

router = guarded_router(tag="tasks")

MOST_TASKS = 1000
Evaluate = Annotated[
    bool,
    Query(
        description="Decide waiting work again with one thing changed, to show what would help. Takes seconds; needs "
        "a token."
    ),
]


class AskedTasks(BaseModel):
    """Tasks of a bulk request."""

    model_config = ConfigDict(extra="forbid")
    jeditaskids: list[Annotated[int, Field(ge=1, le=LARGEST_ID)]] = Field(min_length=1, max_length=MOST_TASKS)


class TaskDecisions(BaseModel):
    """Decisions in bulk.

    Attributes:
        tasks: tasks that a cycle has considered, in the order requested.
        unknown: tasks that no cycle has considered.
    """

    tasks: list[TaskDecision]
    unknown: list[int]


@router.get("/tasks", response_model=TaskList)
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
    after: Annotated[int | None, Query(ge=0, le=LARGEST_ID, description="`next_after` of the previous page.")] = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 100,
    at: At = None,
) -> Response:
    """List tasks with their last decisions, waiting tasks first. Filters for a user need a token."""
    refuse_names(who, user)
    filters = TaskFilters(
        user=user, status=status, reason=reason, queue=queue, nucleus=nucleus, gshare=gshare,
        since=None if since is None else aware(since),
        after=after, limit=limit,
    )  # fmt: skip
    with query_context(api, at) as query:
        tasks = task_list(query, known_task_filters(query, filters))
    return answer(request, tasks, items="tasks")


@router.get("/tasks/{jeditaskid}/decision", response_model=TaskDecision)
@allow(READ)
async def get_decision(
    request: Request,
    api: State,
    jeditaskid: TaskId,
    brokerage: Name | None = None,
    evaluate: Evaluate = False,
    at: At = None,
) -> Response:
    """Get the decisions of the last cycle that considered a task, with reasons and weights."""

    def work(proceed: Proceed) -> Response:
        if at is None and not evaluate and "fields" not in request.query_params:
            return decision_answers_of(api).answer(request, jeditaskid, brokerage)
        with query_context(api, at) as query:
            evaluated = read_task_decision(
                query, jeditaskid, at=at and query.now, brokerage=brokerage, evaluate=evaluate
            )
        return answer(request, evaluated(proceed))

    return await decided_if(evaluate, request, api, work)


@router.get("/tasks/{jeditaskid}/history", response_model=History)
@allow(READ)
def get_history(
    request: Request, api: State, jeditaskid: TaskId, since: Moment | None = None, at: At = None
) -> Response:
    """Get the history of a task: decisions, tuning, jobs, queues, pins."""
    begin = None if since is None else aware(since)
    with query_context(api, at) as query:
        events = history(query, jeditaskid, begin)
    return answer(request, events, items="events")


@router.get("/tasks/{jeditaskid}/why-not/{queue:path}", response_model=WhyNot)
@allow(READ)
async def get_why_not(
    request: Request,
    api: State,
    jeditaskid: TaskId,
    queue: Annotated[str, Path(min_length=1, max_length=200, description="Queue, pseudo-queue or nucleus.")],
    every_rule: Annotated[bool, Query(description="Show every rule in order. Decides again; takes seconds.")] = False,
    at: At = None,
) -> Response:
    """Get the rule that rejected a queue or nucleus: the value, the limit, and the key that set it."""

    def work(proceed: Proceed) -> Response:
        with query_context(api, at) as query:
            evaluated = read_why_not(query, api.database, jeditaskid, queue, at and query.now, every_rule)
        return answer(request, evaluated(proceed), items="answers")

    return await decided(request, api, work)


@router.post("/tasks:decisions", response_model=TaskDecisions)
@allow(READ)
def get_decisions(request: Request, api: State, body: AskedTasks) -> Response:
    """Get the decisions about many tasks at once."""
    decisions, unknown = [], []
    for jeditaskid in dict.fromkeys(body.jeditaskids):
        with query_context(api) as query:
            try:
                decisions.append(task_decision(query, jeditaskid, evaluate=False))
            except NothingFound:
                unknown.append(jeditaskid)
    return answer(request, TaskDecisions(tasks=decisions, unknown=unknown), items="tasks")


@router.get("/reasons", response_model=Reasons)
@allow(READ)
def list_reasons(
    request: Request,
    api: State,
    window: Annotated[
        float, Query(gt=0, le=90 * 86400, description="Age of the time to compare with, in seconds.")
    ] = 3600.0,
    brokerage: Name | None = None,
    at: At = None,
) -> Response:
    """List the reasons why work waits, most frequent first, compared with an earlier time."""
    with query_context(api, at) as query:
        lines = reasons(query, ReasonFilters(brokerage=brokerage, compare_s=window))
    return answer(request, lines, items="lines")


def refuse_names(who: Identity | None, *names: Any) -> None:
    """Questions about users by name are answered to those with a token only.

    Raises:
        Problem: a name is given without a token.
    """
    if who is None and any(name is not None for name in names):
        raise unauthenticated()
