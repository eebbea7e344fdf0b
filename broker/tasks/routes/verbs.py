"""The verbs of tasks over HTTP: submitters act on their own tasks, operators on all."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request

from broker.access.policies import ACT_ON_TASKS, Identity, Role
from broker.api.guarded_route import allow, guarded_router
from broker.api.presenting import answer
from broker.api.state import ApiState, State, Who, editor
from broker.tasks.answers.task_verbs import Actor, TaskActedOn, VerbRequest, act_on_task
from broker.tasks.model.verbs import MOST_PRIORITY, Target

router = guarded_router(tag="tasks")
Task = Annotated[int, Path(ge=1, le=2**63 - 1, description="Number of the task (jeditaskid).")]
Name = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^\x00]*$")]
JOBS_OF_A_REQUEST = 1000
"""Jobs that end before a request is answered; the agent completion ends the others."""


class Why(BaseModel):
    """The reason for the request, for the history."""

    model_config = ConfigDict(extra="forbid")
    reason: Annotated[str, Field(max_length=500, pattern=r"^[^\x00]*$")] = ""


class HowToFinish(Why):
    """Whether existing jobs run to their end (``soft``)."""

    soft: bool = False


class HowToRetry(Why):
    """Task parameters to change, such as ``{"ramCount": 4000}`` (MB)."""

    new_parameters: dict[str, Any] = Field(default_factory=dict, max_length=50)


class WhereTo(Why):
    """The destination of the task: one of ``site`` (comma-separated queues), ``nucleus`` and ``anew``."""

    site: Name | None = None
    nucleus: Name | None = None
    anew: bool = False


class WhichPriority(Why):
    """The new priority; an owner may not exceed that of the submission."""

    priority: int = Field(ge=0, le=MOST_PRIORITY)


@router.post("/tasks/{task}:kill", response_model=TaskActedOn)
@allow(ACT_ON_TASKS)
def kill_task(request: Request, api: State, who: Who, task: Task, body: Why) -> Response:
    """End a task: waiting jobs end at once, pilots of running jobs are instructed to stop."""
    return _act(request, api, who, VerbRequest("kill", task, body.reason))


@router.post("/tasks/{task}:finish", response_model=TaskActedOn)
@allow(ACT_ON_TASKS)
def finish_task(request: Request, api: State, who: Who, task: Task, body: HowToFinish) -> Response:
    """Create no more jobs for a task, and end it with what is finished."""
    return _act(request, api, who, VerbRequest("finish", task, body.reason, soft=body.soft))


@router.post("/tasks/{task}:retry", response_model=TaskActedOn)
@allow(ACT_ON_TASKS)
def retry_task(request: Request, api: State, who: Who, task: Task, body: HowToRetry) -> Response:
    """Give exhausted files new attempts; a task that has ended runs again."""
    return _act(request, api, who, VerbRequest("retry", task, body.reason, new_parameters=body.new_parameters))


@router.post("/tasks/{task}:pause", response_model=TaskActedOn)
@allow(ACT_ON_TASKS)
def pause_task(request: Request, api: State, who: Who, task: Task, body: Why) -> Response:
    """Create no more jobs for a task until it is resumed."""
    return _act(request, api, who, VerbRequest("pause", task, body.reason))


@router.post("/tasks/{task}:resume", response_model=TaskActedOn)
@allow(ACT_ON_TASKS)
def resume_task(request: Request, api: State, who: Who, task: Task, body: Why) -> Response:
    """Resume a paused task."""
    return _act(request, api, who, VerbRequest("resume", task, body.reason))


@router.post("/tasks/{task}:reassign", response_model=TaskActedOn)
@allow(ACT_ON_TASKS)
def reassign_task(request: Request, api: State, who: Who, task: Task, body: WhereTo) -> Response:
    """Reassign a task: jobs that no pilot has taken are withdrawn and created anew elsewhere."""
    target = Target(body.site, body.nucleus, body.anew).checked()
    return _act(request, api, who, VerbRequest("reassign", task, body.reason, target=target))


@router.post("/tasks/{task}:priority", response_model=TaskActedOn)
@allow(ACT_ON_TASKS)
def set_priority_of_task(request: Request, api: State, who: Who, task: Task, body: WhichPriority) -> Response:
    """Change the priority of a task and its waiting jobs."""
    return _act(request, api, who, VerbRequest("priority", task, body.reason, priority=body.priority))


@router.post("/tasks/{task}:try-now", response_model=TaskActedOn)
@allow(ACT_ON_TASKS)
def try_task_now(request: Request, api: State, who: Who, task: Task, body: Why) -> Response:
    """Consider a waiting task in the next cycle, before its time."""
    return _act(request, api, who, VerbRequest("try-now", task, body.reason))


def _act(request: Request, api: ApiState, who: Identity | None, verb_request: VerbRequest) -> Response:
    is_operator = who is not None and who.has(Role.OPERATOR)
    actor = Actor(editor(who), None if who is None else who.username, is_operator)
    return answer(request, act_on_task(api.database, verb_request, actor, api.now(), JOBS_OF_A_REQUEST))
