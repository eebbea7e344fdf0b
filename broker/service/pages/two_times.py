"""The page that compares two times: what waits and flows more or less, and what was changed in between."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from fastapi import Response
from starlette.requests import Request

from broker.access.policies import READ
from broker.api.guarded_route import allow
from broker.api.problems import Problem
from broker.api.state import At, Moment, State, aware, query_context
from broker.service.answers.two_times import StreamChange, meaning, two_times, two_times_sentence
from broker.web.rendering import for_reader, page_router, show

router = page_router(tag="two times")
SPANS = ((1, "an hour ago"), (6, "6 hours ago"), (24, "yesterday"), (168, "a week ago"))


@router.get("/compare")
@allow(READ)
def compare(request: Request, api: State, then: Moment | None = None, at: At = None) -> Response:
    """What waits and flows more and less than at another time, and what was changed between them."""
    with query_context(api, at) as query:
        earlier = query.now - timedelta(hours=24) if then is None else aware(then)
        if earlier >= query.now:
            raise Problem(422, "invalid_request", "the time to compare with must be earlier", "swap the two")
        comparison = two_times(query, earlier)
    return show(
        request,
        "service/two_times",
        comparison,
        title="Two times",
        listed=comparison.waiting,
        sentence=two_times_sentence(for_reader(request, comparison)),
        choices=choices(comparison.now, earlier, at),
        meanings={change.code: meaning(change.code) for change in comparison.waiting},
        streams=[stream_words(stream) for stream in comparison.streams],
        given={"then": f"{earlier:%Y-%m-%dT%H:%M}", "at": "" if at is None else f"{aware(at):%Y-%m-%dT%H:%M}"},
    )


def choices(now: datetime, then: datetime, at: datetime | None) -> list[dict[str, Any]]:
    """Return the times to compare with."""
    time_parameter = "" if at is None else f"&at={aware(at):%Y-%m-%dT%H:%M:%SZ}"
    return [
        {
            "word": word,
            "count": None,
            "address": f"/compare?then={now - timedelta(hours=hours):%Y-%m-%dT%H:%M:%SZ}{time_parameter}",
            "on": abs((now - then).total_seconds() - 3600 * hours) < 60,
        }
        for hours, word in SPANS
    ]


def stream_words(one: StreamChange) -> dict[str, Any]:
    """Return a stream with its difference."""
    both_known = one.then is not None and one.now is not None
    return {
        "name": f"Jobs {one.stream} an hour",
        "then": one.then,
        "now": one.now,
        "more": (one.now or 0.0) - (one.then or 0.0) if both_known else None,
    }
