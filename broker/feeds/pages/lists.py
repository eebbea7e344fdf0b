"""Lists of imported documents, and of fields of queues that operators hold."""

from __future__ import annotations

from datetime import datetime

from fastapi import Response
from pydantic import BaseModel
from starlette.requests import Request

from broker.access.policies import READ
from broker.api.guarded_route import allow
from broker.api.state import State, query_context
from broker.grid.answers.queue import pins_answer
from broker.store.snapshots import feed_documents
from broker.web.formats import ago, moment as instant, queue_link, shown
from broker.web.list_page import show_list
from broker.web.rendering import page_router

router = page_router(tag="feeds")


class Documents(BaseModel):
    """The documents that facts of the grid come from."""

    now: datetime
    documents: list[feed_documents.FedDocument]


@router.get("/sources")
@allow(READ)
def list_sources(request: Request, api: State) -> Response:
    """The documents that facts of the grid come from, and their ages."""
    now = api.now()
    with api.database.begin() as connection:
        documents = Documents(now=now, documents=list(feed_documents.all_documents(connection)))
    return show_list(
        request,
        documents,
        "documents",
        "Sources",
        f"{len(documents.documents):,} documents are on record; the ages of the tables are on the page of the service.",
        ("Document", "Feed|h", "From|h", "Records|n", "Seen|n", "Changed|n"),
        lambda document: (
            document.document,
            document.feed,
            document.source,
            shown(document.records),
            ago(document.checked_at, now),
            ago(document.changed_at, now),
        ),
        "No document was fetched or sent yet; facts come from the tables of PanDA.",
    )


@router.get("/pins")
@allow(READ)
def list_pins(request: Request, api: State) -> Response:
    """The fields of queues that operators hold now."""
    with query_context(api) as query:
        pins = pins_answer(query)
    return show_list(
        request,
        pins,
        "pins",
        "Pins",
        f"{len(pins.pins):,} fields of queues are held at a value, whatever CRIC says.",
        ("Queue", "Field", "Value", "Until|h", "By|h", "Reason|h"),
        lambda pin: (queue_link(pin.queue), pin.field, pin.value, instant(pin.until), pin.editor, pin.reason),
        "None is held. An operator holds one with broker queue set.",
    )
