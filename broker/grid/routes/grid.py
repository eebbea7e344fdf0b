"""The grid: queues, nuclei, links, shares, users, pools, single jobs and rules."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query, Response
from starlette.requests import Request

from broker.access.policies import READ, READ_NAMES
from broker.api.deciding import decided_if
from broker.api.guarded_route import allow, guarded_router
from broker.api.presenting import LONGEST_CURSOR, answer, from_path
from broker.api.state import At, Name, State, asking
from broker.decisions.answers.reason_codes import rules
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
from broker.history.answers.list_models import UserAnswer
from broker.history.answers.tasks import known_queue_filters
from broker.history.answers.user import user_answer
from broker.pools.answers.pool import PoolAnswer, pool_answer
from broker.service.answers.models import Rules
from broker.store.query_context import Proceed

router = guarded_router(tag="grid")

InPath = Annotated[str, Path(min_length=1, max_length=200)]
LinkPlace = Annotated[str | None, Query(max_length=LONGEST_CURSOR, description="`next_after` of the page before.")]


@router.get("/queues", response_model=Queues)
@allow(READ)
def list_queues(
    request: Request,
    api: State,
    status: Name | None = None,
    site: Name | None = None,
    idle: Annotated[bool, Query(description="Only those that got no jobs in the last cycle.")] = False,
    at: At = None,
) -> Response:
    """All queues: what each got in the last cycle, and what rejected it most often."""
    with asking(api, at) as asked:
        found = queues(asked, known_queue_filters(asked, QueueFilters(status=status, site=site, idle=idle)))
    return answer(request, found, items="queues")


@router.get("/queues/{queue}", response_model=QueueAnswer)
@allow(READ)
async def get_queue(
    request: Request,
    api: State,
    queue: InPath,
    evaluate: Annotated[bool, Query(description="Decide again for nearest misses: with a token only.")] = False,
    at: At = None,
) -> Response:
    """Why a queue gets what it gets, and why not more."""

    def work(proceed: Proceed) -> Response:
        with asking(api, at) as asked:
            evaluated = read_queue_answer(asked, queue, evaluate=evaluate)
        return answer(request, evaluated(proceed))

    return await decided_if(evaluate, request, api, work)


@router.get("/queues/{queue}/jobs", response_model=QueueJobs)
@allow(READ)
def get_queue_jobs(request: Request, api: State, queue: InPath, at: At = None) -> Response:
    """How many jobs ran and waited at a queue over the last 24 hours."""
    with asking(api, at) as asked:
        found = queue_jobs(asked, queue)
    return answer(request, found, items="steps")


@router.get("/queues/{queue}/summary", response_model=QueueAnswer)
@allow(READ)
def summarise_queue(request: Request, api: State, queue: InPath, at: At = None) -> Response:
    """As the queue itself, without deciding anything again."""
    with asking(api, at) as asked:
        found = queue_answer(asked, queue, evaluate=False)
    return answer(request, found)


@router.get("/nuclei", response_model=Nuclei)
@allow(READ)
def list_nuclei(request: Request, api: State, at: At = None) -> Response:
    """All nuclei and satellites, with their space and what they collected."""
    with asking(api, at) as asked:
        found = nuclei(asked)
    return answer(request, found, items="nuclei")


@router.get("/nuclei/{nucleus}", response_model=NucleusAnswer)
@allow(READ)
def get_nucleus(request: Request, api: State, nucleus: InPath, at: At = None) -> Response:
    """A nucleus: its space, what was drawn there, and what rejected it."""
    with asking(api, at) as asked:
        found = nucleus_answer(asked, nucleus)
    return answer(request, found)


@router.get("/links", response_model=Links)
@allow(READ)
def list_links(
    request: Request,
    api: State,
    source: Name | None = None,
    nucleus: Name | None = None,
    full: Annotated[bool, Query(description="Only those at their cap.")] = False,
    after: LinkPlace = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
    at: At = None,
) -> Response:
    """Links with anything known about them, those with most files against their cap first."""
    with asking(api, at) as asked:
        found = links(asked, LinkFilters(source=source, nucleus=nucleus, full=full, limit=limit, after=after))
    return answer(request, found, items="links")


@router.get("/shares", response_model=Shares)
@allow(READ)
def list_shares(request: Request, api: State, at: At = None) -> Response:
    """Global shares: their targets and what they have."""
    with asking(api, at) as asked:
        found = shares(asked)
    return answer(request, found, items="shares")


@router.get("/users/{user}", response_model=UserAnswer)
@allow(READ_NAMES)
def get_user(request: Request, api: State, user: InPath, at: At = None) -> Response:
    """A user: tasks, throttles, quota. In the path ``/`` and control characters stand as ``~2f`` and ``~1b``."""
    with asking(api, at) as asked:
        found = user_answer(asked, from_path(user))
    return answer(request, found)


@router.get("/pools/{pool}", response_model=PoolAnswer)
@allow(READ)
def get_pool(request: Request, api: State, pool: InPath, at: At = None) -> Response:
    """A SubmitPool with the queues that meet it."""
    with asking(api, at) as asked:
        found = pool_answer(asked, pool)
    return answer(request, found)


@router.get("/rules/{brokerage}", response_model=Rules)
@allow(READ)
def list_rules(request: Request, api: State, brokerage: InPath, at: At = None) -> Response:
    """The rules of a brokerage in their order, with what they rejected in 24 h."""
    with asking(api, at) as asked:
        found = rules(asked, brokerage)
    return answer(request, found, items="rules")
