"""The records of the HTTP API (requests and their answers, used tokens, keys of issuers), and their removal."""

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
    """Record the use of a token; return False if it has been used before.

    Args:
        connection: a transaction that can write.
        issuer: the issuer of the token.
        token: its identifier.
        expires_at_s: when it expires (seconds since 1970); it is remembered until then.
    """
    values = {"issuer": issuer, "token": token, "expires_at": datetime.fromtimestamp(expires_at_s, UTC)}
    return connection.execute(_INSERT_USED_TOKEN, values).scalar() is not None


def stored_keys(connection: sa.Connection, issuer: str) -> tuple[datetime, dict[str, Any]] | None:
    """The last stored keys of an issuer and when they were fetched (aware); None if there are none."""
    row = connection.execute(_READ_ISSUER_KEYS, {"issuer": issuer}).one_or_none()
    return None if row is None else (row.fetched_at, row.keys)


def keep_keys(connection: sa.Connection, issuer: str, fetched_at: datetime, keys: Mapping[str, Any]) -> None:
    """Store the keys that an issuer published at ``fetched_at`` (aware), unless newer ones are stored."""
    values = {"issuer": issuer, "fetched_at": fetched_at, "keys": json.dumps(dict(keys))}
    connection.execute(_SAVE_ISSUER_KEYS, values)


IDEMPOTENCY_KEY_LIFETIME = "24 hours"
"""Time after which a key may be used again."""
GIVEN_UP_AFTER = "10 minutes"
"""Time after which a request without an answer counts as lost with its process."""

_DELETE_OLD_REQUEST = sa.text(f"""
    DELETE FROM broker.http_requests WHERE subject = :subject AND key = :key
    AND begun_at < clock_timestamp() - interval '{IDEMPOTENCY_KEY_LIFETIME}'""")  # noqa: S608 - a constant
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
    """The state of an earlier request with the same key.

    Attributes:
        state: ``answered``, ``under_way``, ``lost`` (its process ended before it answered) or ``different`` (the key
            belongs to another request).
        status: of the answer.
        headers: of the answer.
        body: of the answer.
    """

    state: Literal["answered", "under_way", "lost", "different"]
    status: int = 0
    headers: Mapping[str, str] | None = None
    body: bytes = b""


def begin(connection: sa.Connection, subject: str, key: str, digest: str) -> Earlier | None:
    """Claim a key for a request; None if the key is new, else the state of the earlier request."""
    identity = {"subject": subject, "key": key}
    connection.execute(_DELETE_OLD_REQUEST, identity)
    if connection.execute(_INSERT_REQUEST, {**identity, "digest": digest}).scalar() is not None:
        return None
    row = connection.execute(_READ_REQUEST, identity).one_or_none()
    if row is None:  # the earlier one was refused at this moment, and its key released
        return Earlier("under_way")
    if row.digest != digest:
        return Earlier("different")
    if row.status is None:
        return Earlier("lost" if row.lost else "under_way")
    return Earlier("answered", row.status, row.headers, bytes(row.body))


def find_answer(connection: sa.Connection, subject: str, key: str, digest: str) -> Earlier | None:
    """The answer to an earlier identical request; None if there is none."""
    row = connection.execute(_READ_REQUEST, {"subject": subject, "key": key}).one_or_none()
    if row is None or row.digest != digest or row.status is None:
        return None
    return Earlier("answered", row.status, row.headers, bytes(row.body))


def note_answer(
    connection: sa.Connection, subject: str, key: str, status: int, headers: Mapping[str, str], body: bytes
) -> None:
    """Store the answer to a request."""
    values = {"subject": subject, "key": key, "status": status, "headers": json.dumps(dict(headers)), "body": body}
    connection.execute(_SAVE_ANSWER, values)


def release(connection: sa.Connection, subject: str, key: str) -> None:
    """Release the key of a request that changed nothing."""
    connection.execute(_DELETE_UNANSWERED, {"subject": subject, "key": key})


MOST_ROWS = 10_000
"""Most rows to remove from a table in one transaction; the rest waits for the next run."""

_OLD = (
    ("http_requests", f"begun_at < clock_timestamp() - interval '{IDEMPOTENCY_KEY_LIFETIME}'"),
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
    """Remove old rows, and return the number of removed rows by table."""
    counts = {}
    for table, old in _OLD:
        with database.begin() as connection:
            removed = connection.execute(sa.text(_DELETE_OLD_ROWS.format(table=table, old=old)), {"most": MOST_ROWS})
            counts[table] = removed.rowcount
    return counts
