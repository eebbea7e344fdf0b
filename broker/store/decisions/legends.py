"""The legends of packed decisions, each stored once under the hash of its content, and JSON that PostgreSQL accepts.

:func:`clean_json` and its kin make texts and JSON fit for jsonb and text columns, whatever characters external names
contain.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import psycopg
import sqlalchemy as sa

from broker.domain.chosen_candidates import Legend, LegendCorruptError
from broker.errors import BrokerError

_READ_IDS_OF_LEGENDS = "SELECT sha256, id, last_used_at FROM broker.decision_legends WHERE sha256 = ANY(%s)"
_INSERT_LEGEND = """
    INSERT INTO broker.decision_legends (sha256, legend, last_used_at) VALUES (%s, %s, %s)
    ON CONFLICT (sha256) DO UPDATE SET last_used_at = greatest(decision_legends.last_used_at, excluded.last_used_at)
    RETURNING id"""
_TOUCH_LEGENDS = """
    UPDATE broker.decision_legends SET last_used_at = %(now)s
    WHERE sha256 = ANY(%(hashes)s) AND last_used_at < %(now)s - interval '1 hour'"""
_READ_LEGENDS = sa.text("SELECT id, legend FROM broker.decision_legends WHERE id = ANY(:ids)")


class LegendUnreadable(BrokerError):
    """A legend that packed decisions need is missing or damaged."""


def save(connection: psycopg.Connection[Any], legends: Iterable[Legend], now: datetime) -> dict[str, int]:
    """Store the legends that are not stored yet, and return the ids of all of them by hash."""
    wanted = {legend.sha256: legend for legend in legends}
    if not wanted:
        return {}
    rows = connection.execute(_READ_IDS_OF_LEGENDS, [list(wanted)]).fetchall()
    ids: dict[str, int] = {sha256: identifier for sha256, identifier, _ in rows}
    for sha256 in sorted(wanted.keys() - ids.keys()):
        row = connection.execute(_INSERT_LEGEND, [sha256, wanted[sha256].text, now]).fetchone()
        ids[sha256] = row[0] if row is not None else 0
    if rows:
        connection.execute(_TOUCH_LEGENDS, {"now": now, "hashes": [sha256 for sha256, _, _ in rows]})
    return ids


def read(connection: sa.Connection, ids: Sequence[int]) -> Mapping[int, Legend]:
    """The legends with these ids.

    Raises:
        LegendUnreadable: one of them is damaged.
    """
    legends: dict[int, Legend] = {}
    for row in connection.execute(_READ_LEGENDS, {"ids": sorted(set(ids))}) if ids else ():
        try:
            legends[row.id] = Legend.from_json(json.loads(row.legend))
        except (ValueError, LegendCorruptError) as error:
            raise LegendUnreadable(
                f"the names of stored decisions cannot be read: {error}",
                f"broker.decision_legends, id {row.id}",
                "restore the table from a backup",
            ) from error
    return legends


# json.dumps would create an encoder for each value
_encoded = json.JSONEncoder(separators=(",", ":")).encode
_quoted = json.encoder.encode_basestring_ascii


def clean_json(value: object) -> str:
    """Encode a value as JSON; NUL and lone surrogates are replaced, because PostgreSQL's jsonb does not hold them."""
    document = _encoded(value)
    if "\\u0000" in document or "\\ud" in document:
        return _encoded(_clean(value))
    return document


def clean_counts(counts: Mapping[str, int]) -> str:
    """Encode integers by name as JSON with the result of :func:`clean_json`, but without one encoder call per value."""
    pairs = [f"{_quoted(name)}:{count}" for name, count in counts.items() if type(count) is int]
    document = "{" + ",".join(pairs) + "}"
    if len(pairs) < len(counts) or "\\u" in document:
        return clean_json(dict(counts))
    return document


def clean_text(value: str) -> str:
    """The text with the characters replaced that a text column cannot hold."""
    return value.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, Mapping):
        return {_clean(name): _clean(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_clean(inner) for inner in value]
    return value
