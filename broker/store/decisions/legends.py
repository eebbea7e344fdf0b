"""The legends of packed decisions: each stored once, under the hash of its content.

JSON that a column of type jsonb takes, whatever names from outside hold.
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
    """A legend that packed decisions need is not there, or damaged."""


def save(connection: psycopg.Connection[Any], legends: Iterable[Legend], now: datetime) -> dict[str, int]:
    """Store the legends that are not stored yet; the ids of all of them by their hashes."""
    wanted = {legend.sha256: legend for legend in legends}
    if not wanted:
        return {}
    rows = connection.execute(_READ_IDS_OF_LEGENDS, [list(wanted)]).fetchall()
    found: dict[str, int] = {sha256: identifier for sha256, identifier, _ in rows}
    for sha256 in sorted(wanted.keys() - found.keys()):
        row = connection.execute(_INSERT_LEGEND, [sha256, wanted[sha256].text, now]).fetchone()
        found[sha256] = row[0] if row is not None else 0
    if rows:
        connection.execute(_TOUCH_LEGENDS, {"now": now, "hashes": [sha256 for sha256, _, _ in rows]})
    return found


def read(connection: sa.Connection, ids: Sequence[int]) -> Mapping[int, Legend]:
    """The legends of these ids.

    Raises:
        LegendUnreadable: one of them is damaged.
    """
    found: dict[int, Legend] = {}
    for row in connection.execute(_READ_LEGENDS, {"ids": sorted(set(ids))}) if ids else ():
        try:
            found[row.id] = Legend.from_json(json.loads(row.legend))
        except (ValueError, LegendCorruptError) as error:
            raise LegendUnreadable(
                f"the names of stored decisions cannot be read: {error}",
                f"broker.decision_legends, id {row.id}",
                "restore the table from a backup",
            ) from error
    return found


# json.dumps would make an encoder for each value
_encoded = json.JSONEncoder(separators=(",", ":")).encode
_quoted = json.encoder.encode_basestring_ascii


def clean_json(value: object) -> str:
    """The value as JSON; PostgreSQL's jsonb holds neither NUL nor lone surrogates, so these are replaced."""
    reported = _encoded(value)
    if "\\u0000" in reported or "\\ud" in reported:
        return _encoded(_clean(value))
    return reported


def clean_counts(counts: Mapping[str, int]) -> str:
    """Whole numbers by name as JSON, as :func:`clean_json` has them, without an encoder for each of many."""
    pairs = [f"{_quoted(name)}:{count}" for name, count in counts.items() if type(count) is int]
    reported = "{" + ",".join(pairs) + "}"
    if len(pairs) < len(counts) or "\\u" in reported:
        return clean_json(dict(counts))
    return reported


def clean_text(value: str) -> str:
    """The text without what a column of type text does not hold."""
    return value.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, Mapping):
        return {_clean(name): _clean(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_clean(inner) for inner in value]
    return value
