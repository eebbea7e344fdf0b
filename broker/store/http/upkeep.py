"""Removing what the API need not remember any longer."""

from __future__ import annotations

import sqlalchemy as sa

from broker.store.connection.database import Database

MOST_ROWS = 10_000
"""Rows of one transaction; more wait for the next time."""

_OLD = (
    ("http_requests", "begun_at < clock_timestamp() - interval '24 hours'"),
    ("used_tokens", "expires_at < clock_timestamp() - interval '1 hour'"),
    ("matched_requests", "matched_at < clock_timestamp() - interval '7 days'"),
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
