"""The HTTP API about the grid: queues, nuclei, links and shares."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query, Response
from starlette.requests import Request

from broker.access.policies import READ
from broker.api.deciding import decided_if
from broker.api.guarded_route import allow, guarded_router
from broker.api.presenting import LONGEST_CURSOR, answer
from broker.api.state import At, Name, State, query_context
from broker.grid.answers.links import links
from broker.grid.answers.models import (
    LinkFilters,
    Links,
    Nuclei,
    NucleusAnswer,
    QueueAnswer,
    QueueFilters,
    Queues,
    Shares,
)
from broker.grid.answers.queue import queue_answer, read_queue_answer
from broker.grid.answers.queue_jobs import QueueJobs, queue_jobs
from broker.grid.answers.queues import nuclei, nucleus_answer, queues
from broker.grid.answers.shares import shares
from broker.history.answers.tasks import known_queue_filters
from broker.store.query_context import Proceed

router = guarded_router(tag="grid")

InPath = Annotated[str, Path(min_length=1, max_length=200)]
LinkPlace = Annotated[str | None, Query(max_length=LONGEST_CURSOR, description="`next_after` of the previous page.")]


@router.get("/queues", response_model=Queues)
@allow(READ)
def list_queues(
    request: Request,
    api: State,
    status: Name | None = None,
    site: Name | None = None,
    idle: Annotated[bool, Query(description="Only queues that got no jobs in the last cycle.")] = False,
    at: At = None,
) -> Response:
    """List all queues: jobs received in the last cycle, and the most frequent rejection."""
    with query_context(api, at) as query:
        queue_list = queues(query, known_queue_filters(query, QueueFilters(status=status, site=site, idle=idle)))
    return answer(request, queue_list, items="queues")


@router.get("/queues/{queue}", response_model=QueueAnswer)
@allow(READ)
async def get_queue(
    request: Request,
    api: State,
    queue: InPath,
    evaluate: Annotated[bool, Query(description="Decide again to find nearest misses. Needs a token.")] = False,
    at: At = None,
) -> Response:
    """Explain why a queue gets the jobs it gets, and why no more."""

    def work(proceed: Proceed) -> Response:
        with query_context(api, at) as query:
            evaluated = read_queue_answer(query, queue, evaluate=evaluate)
        return answer(request, evaluated(proceed))

    return await decided_if(evaluate, request, api, work)


@router.get("/queues/{queue}/jobs", response_model=QueueJobs)
@allow(READ)
def get_queue_jobs(request: Request, api: State, queue: InPath, at: At = None) -> Response:
    """Get the numbers of running and waiting jobs at a queue over the last 24 hours."""
    with query_context(api, at) as query:
        job_counts = queue_jobs(query, queue)
    return answer(request, job_counts, items="steps")


@router.get("/queues/{queue}/summary", response_model=QueueAnswer)
@allow(READ)
def summarise_queue(request: Request, api: State, queue: InPath, at: At = None) -> Response:
    """Explain a queue without deciding anything again."""
    with query_context(api, at) as query:
        details = queue_answer(query, queue, evaluate=False)
    return answer(request, details)


@router.get("/nuclei", response_model=Nuclei)
@allow(READ)
def list_nuclei(request: Request, api: State, at: At = None) -> Response:
    """List all nuclei and satellites, with their space and collected tasks."""
    with query_context(api, at) as query:
        nucleus_list = nuclei(query)
    return answer(request, nucleus_list, items="nuclei")


@router.get("/nuclei/{nucleus}", response_model=NucleusAnswer)
@allow(READ)
def get_nucleus(request: Request, api: State, nucleus: InPath, at: At = None) -> Response:
    """Get a nucleus: its space, what was drawn there, and what rejected it."""
    with query_context(api, at) as query:
        details = nucleus_answer(query, nucleus)
    return answer(request, details)


@router.get("/links", response_model=Links)
@allow(READ)
def list_links(
    request: Request,
    api: State,
    source: Name | None = None,
    nucleus: Name | None = None,
    full: Annotated[bool, Query(description="Only links at their cap.")] = False,
    after: LinkPlace = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
    at: At = None,
) -> Response:
    """List links with known data, those with most files relative to their cap first."""
    with query_context(api, at) as query:
        page = links(query, LinkFilters(source=source, nucleus=nucleus, full=full, limit=limit, after=after))
    return answer(request, page, items="links")


@router.get("/shares", response_model=Shares)
@allow(READ)
def list_shares(request: Request, api: State, at: At = None) -> Response:
    """List global shares with their targets and actual use."""
    with query_context(api, at) as query:
        tree = shares(query)
    return answer(request, tree, items="shares")
