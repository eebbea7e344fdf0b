"""Tasks, jobs, queues, sites, users, keys, rules and reasons by some letters of their names."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response
from starlette.requests import Request

from broker.access.policies import READ
from broker.api.guarded_route import allow, guarded_router
from broker.api.presenting import answer
from broker.api.state import At, State, Who, asking
from broker.history.answers import search as answers
from broker.tuning.answers import values

router = guarded_router(tag="search")


@router.get("/search", response_model=answers.Search)
@allow(READ)
def search(
    request: Request,
    api: State,
    who: Who,
    q: Annotated[str, Query(max_length=200, description="Some letters of a name, or a number.")],
    at: At = None,
) -> Response:
    """What has that number or name, and what has a name like it; users and names of tasks need a token."""
    keys = [one.key for one in values.values(api.database)]
    with asking(api, at) as asked:
        found = answers.search(asked, q.replace("\0", ""), keys, with_names=who is not None)
    return answer(request, found, items="hits")
