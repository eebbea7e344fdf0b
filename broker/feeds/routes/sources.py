"""The HTTP API of sources: how old each is, and whole documents that others send."""

from __future__ import annotations

import hashlib
import hmac
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import Path, Query, Response
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from broker.access.policies import READ, SOURCE
from broker.api.guarded_route import allow, guarded_router
from broker.api.presenting import answer
from broker.api.problems import Problem
from broker.api.state import Moment, State
from broker.store.snapshots import feed_documents
from broker.store.snapshots.feed_documents import FedDocument

router = guarded_router(tag="sources")

LATEST = timedelta(seconds=60)
IMPORT_CONNECTIONS = 3


class SourceDocument(FedDocument):
    """A document on record; ``age_s``: since it was last seen."""

    age_s: float


class Sources(BaseModel):
    """The documents on record, and the names under which documents are accepted."""

    now: datetime
    documents: list[SourceDocument]
    takes: list[str]


class Taken(BaseModel):
    """What a document changed.

    Attributes:
        source: name of the source.
        unchanged: whether the same document was already on record.
        changes: changes by document and table.
    """

    source: str
    unchanged: bool
    changes: list[dict[str, Any]]


@router.get("/sources", response_model=Sources)
@allow(READ)
def list_sources(request: Request, api: State) -> Response:
    """List the documents that describe the grid, with their ages."""
    from broker.feeds.answers.source_documents import SOURCES  # the feeds take long to import

    now = api.now()
    with api.database.begin() as connection:
        documents = feed_documents.all_documents(connection)
    listed = [_shown(document, now) for document in documents]
    return answer(request, Sources(now=now, documents=listed, takes=list(SOURCES)), items="documents")


@router.put(
    "/sources/{name}",
    response_model=Taken,
    openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": {}}}}},
)
@allow(SOURCE, body_bytes="document_bytes")
async def put_source(
    request: Request,
    api: State,
    name: Annotated[str, Path(max_length=100, pattern=r"^[a-z0-9_]+$")],
    sha256: Annotated[str, Query(pattern=r"^[0-9a-f]{64}$", description="SHA-256 digest of the body.")],
    taken_at: Annotated[Moment, Query(description="Creation time of the document (UTC without a zone).")],
) -> Response:
    """Upload a whole document. It is checked like a fetched one, and refused if it shrank or does not parse."""
    from broker.feeds.answers.source_documents import source_kind, take

    source_kind(name)
    body = await request.body()
    if not hmac.compare_digest(hashlib.sha256(body).hexdigest(), sha256):
        raise Problem(422, "digest_differs", "the body has another SHA-256 than was said", "send it again")
    _refuse_wrong_time(taken_at if taken_at.tzinfo else taken_at.replace(tzinfo=UTC), api.now())

    def write() -> list[dict[str, Any]]:
        with api.database.sibling("gridbroker import", IMPORT_CONNECTIONS) as database:
            return take(database, name, body, api.now(), api.folder)

    changes = await run_in_threadpool(write)
    unchanged = not any(int(one.get(kind, 0)) for one in changes for kind in ("added", "changed", "gone"))
    return answer(request, Taken(source=name, unchanged=unchanged, changes=changes))


def _refuse_wrong_time(taken_at: datetime, now: datetime) -> None:
    if taken_at > now + LATEST:
        raise Problem(422, "taken_in_the_future", "the document says that it was made later than now", "set the clock")


def _shown(document: FedDocument, now: datetime) -> SourceDocument:
    age_s = max(0.0, (now - document.checked_at).total_seconds())
    return SourceDocument(**dict(document), age_s=age_s)
