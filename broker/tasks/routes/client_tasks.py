"""The calls of panda-client about tasks: submit, show, kill, finish, retry; see docs/how-to/use-panda-client.md.

Tokens of these paths may be presented again: one ``prun`` writes three times within seconds, with one token. Source:
panda-client 2.2.0, ``Client``; panda-server, ``api/v1/task_api.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Query, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request

from broker import __version__
from broker.access.policies import CLIENT_ACT, CLIENT_SUBMIT, KNOWN, READ_NAMES, Identity, Role
from broker.api.guarded_route import allow
from broker.api.state import ApiState, State, Who, editor
from broker.errors import Refused
from broker.tasks.answers import client_tasks
from broker.tasks.answers.client_submission import submit_client_task
from broker.tasks.answers.task_verbs import Actor, VerbRequest, act_on_task
from broker.tasks.model.client_filters import read_filter
from broker.tasks.model.client_parameters import ClientTask
from broker.tasks.routes.client_route import ClientAnswer, client_router, own_name, success_answer
from broker.tasks.routes.verbs import JOBS_OF_A_REQUEST

router = client_router()
REASON = "panda-client"
RETRIED, RETRIED_WITH_PARAMETERS = 0, 3
Number = Annotated[int, Field(ge=1, le=2**63 - 1, strict=True)]
TaskId = Annotated[int, Query(ge=1, le=2**63 - 1, description="Number of the task (jediTaskID).")]
Text = Annotated[str | None, Query(max_length=2000, pattern=r"^[^\x00]*$")]


class NotServed(Refused):
    """The call of panda-client is not served."""

    http_status = 409


class Submission(BaseModel):
    """Task parameters, and the parent task whose output they read."""

    model_config = ConfigDict(extra="forbid")
    task_parameters: dict[str, Any]
    parent_tid: Number | None = None


class OneTask(BaseModel):
    """A task by its number."""

    model_config = ConfigDict(extra="forbid")
    task_id: Number


class TaskToFinish(OneTask):
    """Whether existing jobs run to their end (``soft``)."""

    soft: bool = False


class TaskToRetry(OneTask):
    """Task parameters to change, such as ``{"ramCount": 4000}`` (MB)."""

    new_parameters: dict[str, Any] | None = Field(default=None, max_length=50)


@router.post("/task/submit", response_model=ClientAnswer)
@allow(CLIENT_SUBMIT)
def submit_client(request: Request, api: State, who: Who, body: Submission) -> Response:
    """Create a task from the parameters that ``prun`` writes; the message has its number, as ``jediTaskID=N``."""
    task = ClientTask(
        body.task_parameters,
        own_name(who),
        address_of(request),
        api.configuration.panda_client.transformation,
        body.parent_tid,
    )
    submitted = submit_client_task(api.database, task, api.now())
    notes = "; ".join(submitted.notes)
    message = f"succeeded. new jediTaskID={submitted.jeditaskid}" + (f". {notes}" if notes else "")
    return success_answer(RETRIED, message)


@router.post("/task/kill", response_model=ClientAnswer)
@allow(CLIENT_ACT)
def kill_client(api: State, who: Who, body: OneTask) -> Response:
    """End a task: waiting jobs end at once, pilots of running jobs are instructed to stop."""
    return success_answer(_act(api, who, VerbRequest("kill", body.task_id, REASON)))


@router.post("/task/finish", response_model=ClientAnswer)
@allow(CLIENT_ACT)
def finish_client(api: State, who: Who, body: TaskToFinish) -> Response:
    """Create no more jobs for a task, and end it with what is finished."""
    return success_answer(_act(api, who, VerbRequest("finish", body.task_id, REASON, soft=body.soft)))


@router.post("/task/retry", response_model=ClientAnswer)
@allow(CLIENT_ACT)
def retry_client(api: State, who: Who, body: TaskToRetry) -> Response:
    """Give exhausted files new attempts; data is 0, or 3 with new parameters, as the client expects."""
    parameters = {name: value for name, value in (body.new_parameters or {}).items() if value is not None}
    message = _act(api, who, VerbRequest("retry", body.task_id, REASON, new_parameters=parameters))
    return success_answer(RETRIED_WITH_PARAMETERS if body.new_parameters else RETRIED, message)


@router.post("/task/pause", response_model=ClientAnswer)
@allow(CLIENT_ACT)
def pause_client(api: State, who: Who, body: OneTask) -> Response:
    """Create no more jobs for a task until it is resumed."""
    return success_answer(_act(api, who, VerbRequest("pause", body.task_id, REASON)))


@router.post("/task/resume", response_model=ClientAnswer)
@allow(CLIENT_ACT)
def resume_client(api: State, who: Who, body: OneTask) -> Response:
    """Resume a paused task."""
    return success_answer(_act(api, who, VerbRequest("resume", body.task_id, REASON)))


@router.get("/task/get_tasks_detailed_info_since", response_model=ClientAnswer)
@allow(READ_NAMES)
def find_client_tasks(
    api: State, who: Who, since: Text = None, filters: Text = None, n_tasks: Annotated[int, Query()] = 500
) -> Response:
    """List the tasks that ``pbook`` shows, newest first: the caller's, unless ``filters`` names a ``userName``."""
    return success_answer(client_tasks.client_tasks(api.database, read_filter(own_name(who), since, filters, n_tasks)))


@router.get("/task/get_status", response_model=ClientAnswer)
@allow(READ_NAMES)
def status_of_client_task(api: State, task_id: TaskId) -> Response:
    """Get the status of a task."""
    return success_answer(client_tasks.client_task(api.database, task_id)["status"])


@router.get("/task/get_details", response_model=ClientAnswer)
@allow(READ_NAMES)
def details_of_client_task(
    api: State, task_id: TaskId, include_parameters: bool = False, include_status: bool = False
) -> Response:
    """Get a task, with its parameters and the states of its jobs if requested."""
    details = client_tasks.client_task(api.database, task_id)
    if include_parameters:
        details["taskParameters"] = client_tasks.task_parameters(api.database, task_id)
    if include_status:
        jobs = client_tasks.jobs_of_task(api.database, task_id)
        details["jobStatus"] = {str(job["PandaID"]): job["jobStatus"] for job in jobs}
    return success_answer(details)


@router.get("/task/get_detailed_info", response_model=ClientAnswer)
@allow(READ_NAMES)
def info_of_client_task(api: State, task_id: TaskId) -> Response:
    """Get a task, in the form of the task list."""
    return success_answer(client_tasks.client_task(api.database, task_id))


@router.get("/task/get_task_parameters", response_model=ClientAnswer)
@allow(READ_NAMES)
def parameters_of_client_task(api: State, task_id: TaskId) -> Response:
    """Get the parameters that a task was created from."""
    return success_answer(client_tasks.task_parameters(api.database, task_id))


@router.get("/task/get_job_ids", response_model=ClientAnswer)
@allow(READ_NAMES)
def job_ids_of_client_task(api: State, task_id: TaskId) -> Response:
    """List the PanDA IDs of a task's jobs that are not archived yet."""
    return success_answer([job["PandaID"] for job in client_tasks.jobs_of_task(api.database, task_id)])


@router.get("/task/get_job_descriptions", response_model=ClientAnswer)
@allow(READ_NAMES)
def jobs_of_client_task(api: State, task_id: TaskId, unsuccessful_only: bool = False) -> Response:
    """List a task's jobs that are not archived yet: where they are, and how they ended."""
    return success_answer(client_tasks.jobs_of_task(api.database, task_id, unsuccessful_only=unsuccessful_only))


@router.get("/task/get_datasets_and_files", response_model=ClientAnswer)
@allow(READ_NAMES)
def files_of_client_task(
    api: State,
    task_id: TaskId,
    dataset_types: Annotated[list[str], Query(max_length=10)] = ["input", "pseudo_input"],  # noqa: B006 - FastAPI copies it
) -> Response:
    """List the datasets of a task with their files, at most 100,000 files."""
    return success_answer(client_tasks.files_of_task(api.database, task_id, dataset_types))


@router.get("/system/is_alive", response_model=ClientAnswer)
@allow(KNOWN)
def is_alive_for_client() -> Response:
    """Report that the server answers."""
    return success_answer(message=f"alive=yes, gridbroker {__version__}")


@router.get("/system/get_attributes", response_model=ClientAnswer)
@allow(KNOWN)
def attributes_of_client(who: Who) -> Response:
    """Get the caller's identity as this server sees it."""
    roles = () if who is None else sorted(role.value for role in who.grants)
    return success_answer({"environment": {"REMOTE_USER": own_name(who), "ROLES": ",".join(roles)}})


NOT_SERVED: Mapping[str, tuple[str, str]] = {
    "POST /task/reactivate": ("tasks are not reactivated here", "retry"),
    "POST /task/increase_attempts": ("attempts are given by a retry", 'retry(ID, newOpts={"maxAttempt": 5})'),
    "POST /task/reload_input": ("input is not read again here", "submit a task of another --outDS"),
    "POST /job/submit": ("jobs are made from tasks", "prun"),
    "POST /job/kill": ("jobs are ended with their task", "kill(ID) of the task"),
    "POST /job/get_description": ("jobs are not described in this form", "task/get_job_descriptions"),
    "POST /job/get_description_incl_archive": ("jobs are not described in this form", "task/get_job_descriptions"),
    "POST /job/set_debug_mode": ("there is no debug mode", "broker job PANDAID, with the log"),
    "GET /job/get_metadata_for_analysis_jobs": ("metadata of jobs are not kept", "task/get_job_descriptions"),
    "POST /file_server/upload_file_recovery_request": ("lost files are not made again", "retry"),
    "POST /creds/set_user_secrets": ("secrets are not kept here", "have the payload fetch them"),
    "GET /creds/get_user_secrets": ("secrets are not kept here", "have the payload fetch them"),
    "POST /workflow/submit_workflow_raw_request": ("workflows are not run here", "prun --parentTaskID"),
    "GET /workflow/get_workflow_details": ("workflows are not run here", "show(ID) of the tasks"),
}
"""Calls of panda-client that are refused by name: why, and what to use instead."""


def _refuse(route: str, why: str, instead: str) -> None:
    method, path = route.split()

    @allow(READ_NAMES if method == "GET" else CLIENT_ACT)
    def not_served() -> Response:
        raise NotServed(f"{path[1:]} is not served here: {why}", path, f"instead: {instead}")

    router.add_api_route(path, not_served, methods=[method], include_in_schema=False)


for _route, (_why, _instead) in NOT_SERVED.items():
    _refuse(_route, _why, _instead)


def address_of(request: Request) -> str:
    """This server as the client calls it, without a path."""
    return f"{request.url.scheme}://{request.url.netloc}"


def _act(api: ApiState, who: Identity | None, request: VerbRequest) -> str:
    """Carry out a verb on a task; returns a sentence about what it did.

    Raises:
        BrokerError: the verb was not carried out.
    """
    is_operator = who is not None and who.has(Role.OPERATOR)
    done = act_on_task(
        api.database, request, Actor(editor(who), own_name(who), is_operator), api.now(), JOBS_OF_A_REQUEST
    )
    counts = ((done.jobs, "jobs ended"), (done.told, "pilots are told to stop"), (done.files, "files get new attempts"))
    parts = [f"{request.verb} of jediTaskID={request.task} is done: it was {done.old_status} and is {done.status}"]
    return "; ".join([*parts, *(f"{number} {what}" for number, what in counts if number), *done.notes])
