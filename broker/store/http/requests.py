"""The rows of ``broker.http_requests``: requests with an idempotency key, and what was answered."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import sqlalchemy as sa

KEPT_FOR = "24 hours"
"""After this a key is free again."""
GIVEN_UP_AFTER = "10 minutes"
"""A request that has no answer by then was lost with its process."""

_DELETE_OLD_REQUEST = sa.text(f"""
    DELETE FROM broker.http_requests WHERE subject = :subject AND key = :key
    AND begun_at < clock_timestamp() - interval '{KEPT_FOR}'""")  # noqa: S608 - a constant
_INSERT_REQUEST = sa.text("""
    INSERT INTO broker.http_requests (subject, key, digest) VALUES (:subject, :key, :digest)
    ON CONFLICT (subject, key) DO NOTHING RETURNING 1""")
_READ_REQUEST = sa.text(f"""
    SELECT digest, status, headers, body, answered_at IS NULL AND begun_at < clock_timestamp()
        - interval '{GIVEN_UP_AFTER}' AS lost
    FROM broker.http_requests WHERE subject = :subject AND key = :key""")  # noqa: S608 - a constant
_SAVE_ANSWER = sa.text("""
    UPDATE broker.http_requests SET answered_at = clock_timestamp(), status = :status,
        headers = CAST(:headers AS jsonb), body = :body
    WHERE subject = :subject AND key = :key""")
_DELETE_UNANSWERED = sa.text(
    "DELETE FROM broker.http_requests WHERE subject = :subject AND key = :key AND answered_at IS NULL"
)


@dataclass(frozen=True)
class Earlier:
    """What is known of an earlier request with the same key.

    Attributes:
        state: ``answered``, ``under_way``, ``lost`` (its process ended before it answered) or ``different`` (it was
            another request).
        status: of the answer.
        headers: of the answer.
        body: of the answer.
    """

    state: Literal["answered", "under_way", "lost", "different"]
    status: int = 0
    headers: Mapping[str, str] | None = None
    body: bytes = b""


def begin(connection: sa.Connection, subject: str, key: str, digest: str) -> Earlier | None:
    """Take a key for a request; None when it is the first with it, else what is known of the earlier one."""
    named = {"subject": subject, "key": key}
    connection.execute(_DELETE_OLD_REQUEST, named)
    if connection.execute(_INSERT_REQUEST, {**named, "digest": digest}).scalar() is not None:
        return None
    row = connection.execute(_READ_REQUEST, named).one_or_none()
    if row is None:  # the earlier one was refused at this moment, and its key released
        return Earlier("under_way")
    if row.digest != digest:
        return Earlier("different")
    if row.status is None:
        return Earlier("lost" if row.lost else "under_way")
    return Earlier("answered", row.status, row.headers, bytes(row.body))


def find_answer(connection: sa.Connection, subject: str, key: str, digest: str) -> Earlier | None:
    """The answer that the same request was given before; None when there is none."""
    row = connection.execute(_READ_REQUEST, {"subject": subject, "key": key}).one_or_none()
    if row is None or row.digest != digest or row.status is None:
        return None
    return Earlier("answered", row.status, row.headers, bytes(row.body))


def note_answer(
    connection: sa.Connection, subject: str, key: str, status: int, headers: Mapping[str, str], body: bytes
) -> None:
    """Keep the answer to a request."""
    values = {"subject": subject, "key": key, "status": status, "headers": json.dumps(dict(headers)), "body": body}
    connection.execute(_SAVE_ANSWER, values)


def release(connection: sa.Connection, subject: str, key: str) -> None:
    """Give a key free: its request changed nothing."""
    connection.execute(_DELETE_UNANSWERED, {"subject": subject, "key": key})
