"""Search for tasks, jobs, queues, sites, users, keys, rules and reasons by a few letters of their names."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response
from starlette.requests import Request

from broker.access.policies import READ
from broker.api.guarded_route import allow, guarded_router
from broker.api.presenting import answer
from broker.api.state import At, State, Who, query_context
from broker.history.answers import search as answers
from broker.tuning.answers import values

router = guarded_router(tag="search")


@router.get("/search", response_model=answers.Search)
@allow(READ)
def search(
    request: Request,
    api: State,
    who: Who,
    q: Annotated[str, Query(max_length=200, description="Part of a name, or a number.")],
    at: At = None,
) -> Response:
    """Find objects by number or name, exact matches first. Users and task names need a token."""
    keys = [entry.key for entry in values.values(api.database)]
    with query_context(api, at) as query:
        results = answers.search(query, q.replace("\0", ""), keys, with_names=who is not None)
    return answer(request, results, items="hits")
