"""Pages of work: users and their tasks, jobs, and what waits by reason."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated
from urllib.parse import urlencode

from fastapi import Path, Query, Response
from pydantic import BaseModel
from starlette.requests import Request

from broker.access.policies import READ, READ_NAMES
from broker.api.guarded_route import allow
from broker.api.presenting import from_path, to_path
from broker.api.state import LARGEST_ID, At, Name, State, Who, query_context
from broker.decisions.answers.known_reasons import cure
from broker.history.answers.job import job_answer, job_list, jobs_of_tasks
from broker.history.answers.job_models import JobAnswer, JobFilters
from broker.history.answers.reasons import reasons
from broker.history.answers.user import throttle_sentences, user_answer
from broker.history.statements.task_facts import UserTasks, read_tasks_by_user, read_user_names
from broker.web.formats import shown, visible
from broker.web.list_page import link_to, show_list
from broker.web.pictures.job_states import end_sentence, progress_sentence, states_picture
from broker.web.pictures.over_time import Mark, timeline
from broker.web.rendering import back_to, page_router, show, wants_json
from broker.web.time_range import time_shown

router = page_router(tag="work")
InPath = Annotated[str, Path(min_length=1, max_length=200)]
Id = Annotated[int, Path(ge=1, le=LARGEST_ID)]
TASKS_OF_A_USER, TASKS_LISTED = 20, 100
"""Number of tasks whose jobs are counted on a user's page, and of those listed: waiting ones, then the newest."""


class Users(BaseModel):
    """Those who have tasks, with most that are open first."""

    now: datetime
    users: list[UserTasks]


@router.get("/mine")
@allow(READ_NAMES)
def my_tasks(request: Request, api: State, who: Who) -> Response:
    """The tasks of who is logged in: the page of that user."""
    name = None if who is None else who.username
    if name is not None:
        with query_context(api) as query:
            user_names = read_user_names(query.connection, query.catalogue)
        if name in user_names:
            return back_to(f"/users/{to_path(name)}")
    return show(request, "history/mine", {"user": name}, title="My tasks")


@router.get("/users")
@allow(READ_NAMES)
def list_users(request: Request, api: State) -> Response:
    """Those who have tasks."""
    with query_context(api) as query:
        users = Users(now=query.now, users=read_tasks_by_user(query.connection, query.catalogue))
    waits = sum(user.pending for user in users.users)
    return show_list(
        request,
        users,
        "users",
        "Users",
        f"{len(users.users):,} users have tasks; {waits:,} of those are pending.",
        ("User", "Open tasks|n", "Running|n", "Pending|n", "All tasks|nh"),
        lambda user: (
            link_to(f"/users/{to_path(user.user)}", user.user),
            *map(shown, (user.open, user.running, user.pending, user.tasks)),
        ),
        "Nobody has tasks.",
    )


@router.get("/users/{user}")
@allow(READ_NAMES)
def one_user(request: Request, api: State, user: InPath) -> Response:
    """A user: tasks, what throttles them, and who can do something."""
    with query_context(api) as query:
        details = user_answer(query, from_path(user))
        jobs = jobs_of_tasks(query, [line.task.jeditaskid for line in details.tasks[:TASKS_OF_A_USER]])
    words = list(throttle_sentences(details))
    cures = {code: cure(code) for code in details.advice}
    shortened = details if wants_json(request) else details.model_copy(update={"tasks": details.tasks[:TASKS_LISTED]})
    more = len(details.tasks) > TASKS_LISTED
    return show(
        request,
        "history/user",
        shortened,
        title=f"User {visible(details.user)}",
        items="tasks",
        listed=details.tasks,
        further=f"/tasks?{urlencode({'user': details.user})}" if more else None,
        said=f"{TASKS_LISTED} of {len(details.tasks):,}" if more else None,
        words=words,
        cures=cures,
        jobs=jobs,
        progress=progress_sentence(jobs.states),
        until=end_sentence(jobs.finished_an_hour, jobs.expected_end),
        states=lambda: states_picture(jobs.states),
    )


@router.get("/reasons")
@allow(READ)
def list_reasons(request: Request, api: State, at: At = None) -> Response:
    """What waits, by brokerage and reason, against an hour ago."""
    with query_context(api, at) as query:
        waiting_reasons = reasons(query)
    return show(
        request,
        "history/reasons",
        waiting_reasons,
        title="Reasons",
        items="lines",
        time=time_shown(request, at, waiting_reasons.now),
    )


@router.get("/jobs")
@allow(READ)
def list_jobs(
    request: Request,
    api: State,
    task: Annotated[int | None, Query(ge=1, le=LARGEST_ID)] = None,
    queue: Name | None = None,
    state: Name | None = None,
    error: Annotated[str | None, Query(max_length=100)] = None,
    after: Annotated[int | None, Query(ge=0, le=LARGEST_ID)] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 100,
) -> Response:
    """Jobs, the newest first, with what went wrong with them."""
    filters = JobFilters(
        task=task, queue=queue or None, state=state or None, error=error or None, after=after, limit=limit
    )
    with query_context(api) as query:
        matches = job_list(query, filters)
    chosen_filters = {
        name: value for name, value in filters.model_dump().items() if value is not None and name != "after"
    }
    further = None if matches.next_after is None else urlencode({**chosen_filters, "after": matches.next_after})
    return show(
        request,
        "history/jobs",
        matches,
        title="Jobs",
        items="jobs",
        given={"task": task or "", "queue": queue or "", "error": error or ""},
        chips=state_chips(
            state or "", {name: chosen_filters[name] for name in ("task", "queue", "error") if name in chosen_filters}
        ),
        further=further,
    )


STATES = ("activated", "starting", "running", "holding", "transferring", "finished", "failed", "closed", "cancelled")


def state_chips(state: str, other_filters: Mapping[str, object]) -> list[dict[str, object]]:
    """Return the choices of a state above the list of jobs; the other filters are kept."""
    return [
        {
            "word": name or "all",
            "count": None,
            "address": f"/jobs?{urlencode({**other_filters, 'state': name})}"
            if name
            else f"/jobs?{urlencode(other_filters)}".rstrip("?"),
            "on": state == name,
        }
        for name in ("", *STATES)
    ]


@router.get("/jobs/{pandaid}")
@allow(READ)
def one_job(request: Request, api: State, pandaid: Id) -> Response:
    """A job: where it is and why there, why it failed, its other attempts, and what happened to it."""
    with query_context(api) as query:
        details = job_answer(query, pandaid)
    events = [
        Mark(step.at, step.event, f"{step.status or ''} {step.rule or ''} {step.queue or ''}") for step in details.steps
    ]
    picture_of_events = timeline(events)
    sentence = job_sentence(details)
    return show(
        request,
        "history/job",
        details,
        title=f"Job {pandaid}",
        items="steps",
        sentence=sentence,
        picture=lambda: picture_of_events,
    )


def job_sentence(job: JobAnswer) -> str:
    """Describe the state of a job in one sentence. Pure."""
    where = f" at {job.computingsite}" if job.computingsite else ""
    if job.failures:
        error = job.failures[0]
        return f"It failed{where}: {error.meaning.rstrip('.')} ({error.error}); {FAULTS.get(error.fault, error.fault)}."
    if job.ended_at is not None:
        return f"It is {job.jobstatus}{where}."
    if job.started_at is not None:
        return f"It is {job.jobstatus}{where}, started {job.started_at:%Y-%m-%d %H:%M} UTC."
    if job.jobstatus == "assigned":
        where = where.replace(" at ", " to ", 1)
    return f"It is {job.jobstatus}{where}, and has not started."


FAULTS = {
    "site": "the site's fault",
    "payload": "the fault of its own program",
    "data": "its input's fault",
    "system": "the fault of the system around it",
    "user": "its user's fault",
    "request": "the fault of what it asked for",
    "none": "nobody's fault",
}
