"""Results for the search box on every page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated

from fastapi import Query, Response
from starlette.requests import Request

from broker.access.policies import READ
from broker.api.guarded_route import allow
from broker.api.presenting import answer, to_path
from broker.api.state import State, Who, query_context
from broker.history.answers.search import Kind, SearchHit, search
from broker.store.query_context import ResponseModel
from broker.tuning.answers import values as tuning_values
from broker.web.formats import in_path, visible
from broker.web.rendering import back_to, page_router, show, wants_json

router = page_router(tag="search")
MOST_OF_A_KIND, MOST_SUGGESTED = 3, 10


@router.get("/search")
@allow(READ)
def find(request: Request, api: State, who: Who, q: Annotated[str, Query(max_length=200)] = "") -> Response:
    """Tasks, jobs, queues, sites, users, keys, rules and reasons; one that is named exactly is shown at once."""
    keys = [entry.key for entry in tuning_values.values(api.database)]
    with query_context(api) as query:
        results = search(query, q.replace("\0", ""), keys, with_names=who is not None)
    if results.exact and not wants_json(request):
        return back_to(address_of(results.hits[0]))
    title = f"Search: {visible(results.asked)}" if results.asked else "Search"
    return show(
        request,
        "history/search",
        results,
        title=title,
        items="hits",
        named=who is not None,
        addresses=list(map(address_of, results.hits)),
    )


class Suggestion(SearchHit):
    """Something that may be meant, with the address of its page."""

    address: str


class Suggestions(ResponseModel):
    """What may be meant, the nearest names first."""

    suggestions: tuple[Suggestion, ...]


@router.get("/search/suggestions")
@allow(READ)
def suggest(request: Request, api: State, who: Who, q: Annotated[str, Query(max_length=200)] = "") -> Response:
    """Suggestions of the search box while the user types: some of each kind, with their addresses."""
    keys = [entry.key for entry in tuning_values.values(api.database)]
    with query_context(api) as query:
        results = search(query, q.replace("\0", ""), keys, with_names=who is not None)
    lines = [Suggestion(**hit.model_dump(), address=address_of(hit)) for hit in some_of(results.hits)]
    return answer(request, Suggestions(suggestions=tuple(lines)))


def some_of(hits: Sequence[SearchHit]) -> list[SearchHit]:
    """Return the nearest hits of each kind, at most ``MOST_SUGGESTED``, in their order. Pure."""
    remaining: Counter[str] = Counter()
    chosen = []
    for hit in hits:
        remaining[hit.kind] += 1
        if remaining[hit.kind] <= MOST_OF_A_KIND:
            chosen.append(hit)
    return chosen[:MOST_SUGGESTED]


#: The page of each kind; the number or name follows it.
PAGES: dict[Kind, str] = {
    "task": "/tasks/",
    "job": "/jobs/",
    "queue": "/queues/",
    "site": "/queues?site=",
    "user": "/users/",
    "key": "/tuning/",
    "reason": "/reasons/",
    "rule": "/rules/",
}


def address_of(hit: SearchHit) -> str:
    """Return the address of a hit's page."""
    return PAGES[hit.kind] + (to_path(hit.place) if hit.kind == "user" else in_path(hit.place))
