"""Jobs: the list, and single jobs with why they are where they are and why they failed."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query, Response
from starlette.requests import Request

from broker.access.policies import READ
from broker.api.guarded_route import allow, guarded_router
from broker.api.presenting import answer
from broker.api.state import LARGEST_ID, At, Name, State, query_context
from broker.history.answers.job import job_answer, job_list
from broker.history.answers.job_models import JobAnswer, JobFilters, JobList

router = guarded_router(tag="jobs")
ERROR = "A code (`1099`), a code with its source (`pilot:1099`), a class (`memory`), or a default fault (`site`)."


@router.get("/jobs", response_model=JobList)
@allow(READ)
def list_jobs(
    request: Request,
    api: State,
    task: Annotated[int | None, Query(ge=1, le=LARGEST_ID)] = None,
    queue: Name | None = None,
    state: Name | None = None,
    error: Annotated[str | None, Query(max_length=100, description=ERROR)] = None,
    after: Annotated[int | None, Query(ge=0, le=LARGEST_ID, description="`next_after` of the previous page.")] = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 100,
    at: At = None,
) -> Response:
    """List jobs with their states, queues and errors, newest first."""
    filters = JobFilters(task=task, queue=queue, state=state, error=error, after=after, limit=limit)
    with query_context(api, at) as query:
        matches = job_list(query, filters)
    return answer(request, matches, items="jobs")


@router.get("/jobs/{pandaid}", response_model=JobAnswer)
@allow(READ)
def get_job(
    request: Request, api: State, pandaid: Annotated[int, Path(ge=1, le=LARGEST_ID)], at: At = None
) -> Response:
    """Get a job: where it is and why, why it failed, its other attempts, and its history."""
    with query_context(api, at) as query:
        details = job_answer(query, pandaid)
    return answer(request, details)
