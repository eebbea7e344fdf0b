"""The route that submits task parameters over HTTP."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request

from broker.access.policies import SUBMIT, Identity, Role
from broker.api.guarded_route import allow, guarded_router
from broker.api.presenting import answer
from broker.api.problems import Problem
from broker.api.state import State, Who
from broker.tasks.answers.submitted_task import MadeTask, made_task
from broker.tasks.answers.task_submission import task_submission
from broker.tasks.model.refine import Submitter

router = guarded_router(tag="tasks")
Name = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^\x00]*$")]


class TaskDescription(BaseModel):
    """A task to submit.

    Attributes:
        parameters: PanDA's task parameters; docs/reference/task-parameters.md lists them.
        request: number of the submission at its client; the same number is the same task.
        count: number of jobs, without input.
        vo: virtual organisation if the parameters name none; null for that of the installation.
        label: production source label if the parameters name none.
        nucleus: destination of the output; null if the task brokerage chooses it.
        user: the submitter; only for tokens that do not name one.
    """

    model_config = ConfigDict(extra="forbid")

    parameters: dict[str, Any]
    request: Annotated[str, Field(pattern=r"^[\x21-\x7e]{1,128}$")] | None = None
    count: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    vo: Annotated[str | None, Field(min_length=1, max_length=16, pattern=r"^[A-Za-z0-9._-]+$")] = None
    label: Annotated[str, Field(min_length=1, max_length=20, pattern=r"^[A-Za-z0-9._-]+$")] = "managed"
    nucleus: Name | None = None
    user: Name | None = None


@router.post("/tasks", response_model=MadeTask, status_code=201)
@allow(SUBMIT)
def submit_task(request: Request, api: State, who: Who, body: TaskDescription) -> Response:
    """Create a task from task parameters; datasets are looked up in Rucio."""
    submitter = Submitter(_user(who, body), body.vo or api.database.names.vo, body.label, body.nucleus, body.count)
    submission = task_submission(body.parameters, submitter, request=body.request)
    task = submission.make(api.database, api.now())
    return answer(request, made_task(task), status=201)


def _user(who: Identity | None, body: TaskDescription) -> str | None:
    """Who submits: a caller whose token names a user submits as that user.

    Raises:
        Problem: another user is named.
    """
    own = None if who is None else who.username
    may_name_others = own is None or (who is not None and who.has(Role.OPERATOR))
    if body.user not in (None, own) and not may_name_others:
        raise Problem(403, "forbidden", "a submitter acts for the own user only", "leave out user")
    return body.user or own
