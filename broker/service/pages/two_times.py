"""The page that compares two times."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from fastapi import Response
from starlette.requests import Request

from broker.access.policies import READ
from broker.api.guarded_route import allow
from broker.api.problems import Problem
from broker.api.state import At, Moment, State, asking, aware
from broker.service.answers.two_times import StreamChange, meaning, two_times, two_times_sentence
from broker.web.rendering import for_reader, page_router, show

router = page_router(tag="two times")
SPANS = ((1, "an hour ago"), (6, "6 hours ago"), (24, "yesterday"), (168, "a week ago"))


@router.get("/compare")
@allow(READ)
def compare(request: Request, api: State, then: Moment | None = None, at: At = None) -> Response:
    """What waits and flows more and less than at another time, and what was changed between them."""
    with asking(api, at) as asked:
        other = asked.now - timedelta(hours=24) if then is None else aware(then)
        if other >= asked.now:
            raise Problem(422, "invalid_request", "the time to compare with must be earlier", "swap the two")
        found = two_times(asked, other)
    return show(
        request,
        "two_times",
        found,
        title="Two times",
        listed=found.waiting,
        sentence=two_times_sentence(for_reader(request, found)),
        choices=choices(found.now, other, at),
        meanings={one.code: meaning(one.code) for one in found.waiting},
        streams=[stream_words(one) for one in found.streams],
        given={"then": f"{other:%Y-%m-%dT%H:%M}", "at": "" if at is None else f"{aware(at):%Y-%m-%dT%H:%M}"},
    )


def choices(now: datetime, then: datetime, at: datetime | None) -> list[dict[str, Any]]:
    """Times to compare with."""
    kept = "" if at is None else f"&at={aware(at):%Y-%m-%dT%H:%M:%SZ}"
    return [
        {
            "word": word,
            "count": None,
            "address": f"/compare?then={now - timedelta(hours=hours):%Y-%m-%dT%H:%M:%SZ}{kept}",
            "on": abs((now - then).total_seconds() - 3600 * hours) < 60,
        }
        for hours, word in SPANS
    ]


def stream_words(one: StreamChange) -> dict[str, Any]:
    """A stream with its difference."""
    known = one.then is not None and one.now is not None
    return {
        "name": f"Jobs {one.stream} an hour",
        "then": one.then,
        "now": one.now,
        "more": (one.now or 0.0) - (one.then or 0.0) if known else None,
    }
