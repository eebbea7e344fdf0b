"""Data of the overview page: recent changes, and how long cycles took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from broker.store.connection.plain_rows import mappings

_READ_TUNING_CHANGES = sa.text("""
    SELECT v.version, v.published_at, v.editor, v.reason, c.key, c.vo FROM broker.gdpconfig_versions v
    LEFT JOIN broker.gdpconfig_changes c ON c.version = v.version
    WHERE v.version > 0 AND v.published_at > :since AND v.published_at <= :until ORDER BY v.published_at, c.key""")
_READ_STATUS_CHANGES = sa.text("""
    SELECT changed_at, row_key[1] AS queue, fields FROM broker.feed_changes
    WHERE changed_at > :since AND changed_at <= :until AND fields ? 'status'
    ORDER BY changed_at DESC LIMIT :most""")
_READ_FEED_RUNS = sa.text("""
    SELECT feed, outcome, started_at FROM broker.feed_runs
    WHERE started_at > :since AND started_at <= :until ORDER BY started_at""")
_READ_NEW_PINS = sa.text("""
    SELECT queue, field, value, editor, reason, set_at FROM broker.queue_pins
    WHERE set_at > :since AND set_at <= :until ORDER BY set_at""")
_READ_CYCLE_SECONDS = sa.text("""
    SELECT agent, extract(epoch FROM finished_at - started_at)::float8 AS seconds FROM broker.agent_runs
    WHERE finished_at IS NOT NULL AND started_at > :since AND started_at <= :until ORDER BY id DESC LIMIT :most""")
_READ_CANARIES = sa.text("""
    SELECT id, started_at, ends_at, editor, reason FROM broker.canaries
    WHERE started_at > :since AND started_at <= :until ORDER BY started_at""")
_MOST = 1000


@dataclass(frozen=True)
class StoredChanges:
    """The changes in a span of time, by kind, as stored."""

    versions: Sequence[Mapping[str, Any]]
    queues: Sequence[Mapping[str, Any]]
    feeds: Sequence[Mapping[str, Any]]
    pins: Sequence[Mapping[str, Any]]
    canaries: Sequence[Mapping[str, Any]]


def changes(connection: sa.Connection, since: datetime, until: datetime) -> StoredChanges:
    """Return versions of the tuning, statuses of queues, runs of feeds, pins and canaries in a span."""
    span = {"since": since, "until": until, "most": _MOST}

    def rows(query: sa.TextClause) -> Sequence[Mapping[str, Any]]:
        return mappings(connection, query, span)

    return StoredChanges(
        rows(_READ_TUNING_CHANGES),
        rows(_READ_STATUS_CHANGES),
        rows(_READ_FEED_RUNS),
        rows(_READ_NEW_PINS),
        rows(_READ_CANARIES),
    )


def cycle_seconds(connection: sa.Connection, since: datetime, until: datetime) -> list[tuple[str, float]]:
    """Return how long cycles took, newest first."""
    rows = connection.execute(_READ_CYCLE_SECONDS, {"since": since, "until": until, "most": _MOST})
    return [(row.agent, row.seconds) for row in rows]
