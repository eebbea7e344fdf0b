"""Identifiers of tokens that were used, and the keys that issuers published."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

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
