"""What the HTTP API remembers: requests and their answers, tokens that were used, keys of issuers; and forgets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import sqlalchemy as sa

from broker.store.connection.database import Database

_INSERT_USED_TOKEN = sa.text("""
    INSERT INTO broker.used_tokens (issuer, token, expires_at) VALUES (:issuer, :token, :expires_at)
    ON CONFLICT (issuer, token) DO NOTHING RETURNING 1""")
_READ_ISSUER_KEYS = sa.text("SELECT fetched_at, keys FROM broker.issuer_keys WHERE issuer = :issuer")
_SAVE_ISSUER_KEYS = sa.text("""
    INSERT INTO broker.issuer_keys (issuer, fetched_at, keys) VALUES (:issuer, :fetched_at, CAST(:keys AS jsonb))
    ON CONFLICT (issuer) DO UPDATE SET fetched_at = excluded.fetched_at, keys = excluded.keys
    WHERE issuer_keys.fetched_at < excluded.fetched_at""")


def use_once(connection: sa.Connection, issuer: str, token: str, expires_at_s: float) -> bool:
    """Note that a token was used; False when it had been used before.

    Args:
        connection: a transaction that can write.
        issuer: of the token.
        token: its identifier.
        expires_at_s: when it ends (seconds since 1970): until then it is remembered.
    """
    values = {"issuer": issuer, "token": token, "expires_at": datetime.fromtimestamp(expires_at_s, UTC)}
    return connection.execute(_INSERT_USED_TOKEN, values).scalar() is not None


def kept_keys(connection: sa.Connection, issuer: str) -> tuple[datetime, dict[str, Any]] | None:
    """The last keys of an issuer and when they were fetched (aware); None when there are none."""
    row = connection.execute(_READ_ISSUER_KEYS, {"issuer": issuer}).one_or_none()
    return None if row is None else (row.fetched_at, row.keys)


def keep_keys(connection: sa.Connection, issuer: str, fetched_at: datetime, keys: Mapping[str, Any]) -> None:
    """Keep the keys that an issuer published at ``fetched_at`` (aware), unless newer ones are kept."""
    values = {"issuer": issuer, "fetched_at": fetched_at, "keys": json.dumps(dict(keys))}
    connection.execute(_SAVE_ISSUER_KEYS, values)


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


MOST_ROWS = 10_000
"""Rows of one transaction; more wait for the next time."""

_OLD = (
    ("http_requests", "begun_at < clock_timestamp() - interval '24 hours'"),
    ("used_tokens", "expires_at < clock_timestamp() - interval '1 hour'"),
    ("matched_requests", "matched_at < clock_timestamp() - interval '7 days'"),
    ("presented_nodes", "last_seen_at < clock_timestamp() - interval '3 days'"),
    ("presented_tags", "last_seen_at < clock_timestamp() - interval '400 days'"),
    ("runs", "ended_at < clock_timestamp() - interval '30 days'"),
)
_DELETE_OLD_ROWS = """
    DELETE FROM broker.{table} WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM broker.{table} WHERE {old} LIMIT :most FOR UPDATE SKIP LOCKED))"""


def remove_old(database: Database) -> dict[str, int]:
    """Remove what is old enough; how many rows of each table went."""
    counts = {}
    for table, old in _OLD:
        with database.begin() as connection:
            removed = connection.execute(sa.text(_DELETE_OLD_ROWS.format(table=table, old=old)), {"most": MOST_ROWS})
            counts[table] = removed.rowcount
    return counts
