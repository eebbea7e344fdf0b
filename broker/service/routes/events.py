"""Events: what happens, as it happens, for dashboards and pages."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Header, Query, Response
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import StreamingResponse

from broker.access.policies import READ
from broker.api.guarded_route import allow, guarded_router
from broker.api.presenting import answer
from broker.api.problems import Problem
from broker.api.state import ApiState, State, Who
from broker.service.routes.event_hub import MOST, EventHub, document_of
from broker.service.statements import event_reads
from broker.service.statements.event_reads import Cursor

router = guarded_router(tag="events")

MEDIA_TYPE = "text/event-stream"
_NAME = "events"


class Events(BaseModel):
    """What happened behind a cursor.

    Attributes:
        events: by time; ``event`` is ``cycle``, ``outcome``, ``tuning`` or ``source``.
        next: the cursor behind them, for ``since``.
    """

    events: list[dict[str, Any]]
    next: str


@router.get(
    "/events", response_model=Events, responses={200: {"content": {MEDIA_TYPE: {"schema": {"type": "string"}}}}}
)
@allow(READ)
async def listen(
    request: Request,
    api: State,
    who: Who,
    since: Annotated[str | None, Query(max_length=100, description="A cursor: `next`, or the id of an event.")] = None,
    last_event_id: Annotated[str | None, Header(max_length=100)] = None,
) -> Response:
    """Cycles, changes of outcomes, of the tuning and of sources: server-sent events, or with `since` as JSON."""
    given = last_event_id or since
    cursor = None if given is None else Cursor.read(given)
    if given is not None and cursor is None:
        raise Problem(400, "bad_cursor", "the cursor is none of these events", "begin without one")
    if MEDIA_TYPE not in request.headers.get("accept", ""):
        return answer(request, await run_in_threadpool(_since, api, cursor, who is not None), items="events")
    hub = hub_of(api)
    if hub.listeners >= api.configuration.limits.event_listeners:
        raise Problem(503, "too_many_listeners", "too many clients listen", headers={"Retry-After": "30"})
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(hub.stream(cursor, names=who is not None), headers=headers, media_type=MEDIA_TYPE)


def hub_of(api: ApiState) -> EventHub:
    """The hub of an application."""
    found = api.kept.get(_NAME)
    if not isinstance(found, EventHub):
        found = api.kept[_NAME] = EventHub(api)
    return found


def _since(api: ApiState, cursor: Cursor | None, names: bool) -> Events:
    with api.database.begin() as connection:
        if cursor is None:
            return Events(events=[], next=str(event_reads.now(connection)))
        found, behind = event_reads.after(connection, cursor, MOST)
    return Events(events=[document_of(one, names=names) for one in found], next=str(behind))
