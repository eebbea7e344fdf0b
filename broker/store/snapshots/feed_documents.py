"""The last good version of each feed document, and its age."""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from broker.fetching.documents import MAX_DOCUMENT_BYTES, Validators
from broker.store.query_context import ResponseModel


@dataclass(frozen=True)
class StoredDocument:
    """A stored document.

    Attributes:
        name: name of the document.
        source: the address or path it came from.
        records: number of its records.
        validators: for requesting only a newer version.
        body: its bytes; None if they are not stored.
    """

    name: str
    source: str
    records: int
    validators: Validators
    body: bytes | None


_KEEP_DOCUMENT = sa.text("""
    INSERT INTO broker.feed_documents
        (feed, document, source, checked_at, changed_at, records, sha256, etag, last_modified, body)
    VALUES (:feed, :document, :source, :now, :now, :records, :sha256, :etag, :last_modified, :body)
    ON CONFLICT (feed, document) DO UPDATE SET
        source = excluded.source, checked_at = excluded.checked_at, records = excluded.records,
        changed_at = CASE WHEN feed_documents.sha256 = excluded.sha256 THEN feed_documents.changed_at
                          ELSE excluded.changed_at END,
        sha256 = excluded.sha256, etag = excluded.etag, last_modified = excluded.last_modified,
        body = CASE WHEN feed_documents.sha256 = excluded.sha256 THEN feed_documents.body ELSE excluded.body END
""")


def stored_documents(connection: sa.Connection, feed: str) -> dict[str, StoredDocument]:
    """The documents of a feed by name."""
    query = sa.text("""
        SELECT document, source, records, etag, last_modified, body FROM broker.feed_documents WHERE feed = :feed""")
    return {
        row.document: StoredDocument(
            row.document, row.source, row.records, Validators(row.etag, row.last_modified), _unpacked(row.body)
        )
        for row in connection.execute(query, {"feed": feed})
    }


class FedDocument(ResponseModel):
    """What is on record of a document, without its bytes.

    Attributes:
        feed: that wrote it.
        document: its name.
        source: ``api``, or where it was fetched.
        records: how many it has.
        sha256: of its bytes.
        checked_at: when it was last seen.
        changed_at: when it last changed.
    """

    feed: str
    document: str
    source: str
    records: int
    sha256: str
    checked_at: datetime
    changed_at: datetime


def all_documents(connection: sa.Connection) -> list[FedDocument]:
    """The documents on record, by feed and name."""
    query = sa.text("""
        SELECT feed, document, source, records, sha256, checked_at, changed_at
        FROM broker.feed_documents ORDER BY feed, document""")
    return [FedDocument(**row._mapping) for row in connection.execute(query)]


def keep_document(connection: sa.Connection, feed: str, document: StoredDocument, now: datetime) -> None:
    """Replace the last version of a document by a new good one; ``now`` (aware) is when it was seen."""
    body = document.body or b""
    values = {
        "feed": feed,
        "document": document.name,
        "source": document.source,
        "now": now,
        "records": document.records,
        "sha256": hashlib.sha256(body).hexdigest(),
        "etag": document.validators.etag,
        "last_modified": document.validators.last_modified,
        "body": None if document.body is None else zlib.compress(body, 1),
    }
    connection.execute(_KEEP_DOCUMENT, values)


def _unpacked(body: bytes | None) -> bytes | None:
    if body is None:
        return None
    unpacker = zlib.decompressobj()
    return unpacker.decompress(bytes(body), MAX_DOCUMENT_BYTES)


def note_checked(connection: sa.Connection, feed: str, document: str, source: str, now: datetime) -> None:
    """Record that a feed without documents, such as one of server responses, is up to date at ``now`` (aware)."""
    keep_document(connection, feed, StoredDocument(document, source, 0, Validators(), None), now)


#: The feed documents (feed, document) that each source of a snapshot is built from.
FED_BY: dict[str, tuple[tuple[str, str], ...]] = {
    "queues": (("cric", "queues"), ("cric", "sites")),
    "storages": (
        ("cric", "endpoints"),
        ("cric", "closed_write"),
        ("cric", "closed_read"),
        ("cric", "endpoint_states"),
        ("rucio_space", "space"),
    ),
    "links": (("cric", "closeness"), ("network", "metrics")),
    "software": (("cric", "tags"),),
    "workers": (("workers", "statistics"),),
    "replicas": (("rucio_replicas", "replicas"),),
    "quota": (("rucio_quota", "quotas"),),
}


def fed_at(connection: sa.Connection) -> dict[str, datetime]:
    """When the oldest document of each snapshot source that feeds fill was last seen good (aware), by source."""
    query = sa.text("SELECT feed, document, checked_at FROM broker.feed_documents")
    seen = {(row.feed, row.document): row.checked_at for row in connection.execute(query)}
    times_by_source = {
        name: [seen[document] for document in parts if document in seen] for name, parts in FED_BY.items()
    }
    return {name: min(times) for name, times in times_by_source.items() if times}
