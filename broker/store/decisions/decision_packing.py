"""Moving decisions of older releases, with names and reasons as JSON, into the packed store in batches.

Each batch is one transaction: readers see a decision in one form or the other, never in both and never in neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import sqlalchemy as sa

from broker.codec.packed_candidates import pack_named_candidates
from broker.codec.packed_reasons import NOT_A_CANDIDATE, Reasons, pack_reasons
from broker.domain.chosen_candidates import Legend
from broker.domain.decisions import Candidate, FunnelStep
from broker.store.connection.database import Database
from broker.store.decisions import legends
from broker.store.decisions.decision_writing import COLUMNS
from broker.store.decisions.legends import clean_json

_LOCK_UNPACKED = sa.text("""
    SELECT * FROM broker.decisions_unpacked WHERE id = ANY(ARRAY(
        SELECT id FROM broker.decisions_unpacked ORDER BY id LIMIT :rows FOR UPDATE SKIP LOCKED)) ORDER BY id""")
_DELETE_UNPACKED = sa.text("DELETE FROM broker.decisions_unpacked WHERE id = ANY(:ids)")
_COPY = f"COPY broker.decisions ({COLUMNS}) FROM STDIN"
_PLAIN = (
    "agent_run", "jeditaskid", "datasetid", "ramcount", "brokerage", "outcome", "reason", "decided_at", "snapshot",
    "tuning", "seed", "engine",
)  # fmt: skip


class DecisionPacker:
    """Packs old decisions; remembers the names that it has seen, so that many batches share one legend."""

    def __init__(self) -> None:
        """Start with an empty legend."""
        self._legend = Legend(())

    def pack(self, connection: sa.Connection, rows: int, now: datetime) -> int:
        """Move at most ``rows`` decisions, oldest first, and return how many were moved."""
        old = [dict(row._mapping) for row in connection.execute(_LOCK_UNPACKED, {"rows": rows})]
        if not old:
            return 0
        legend = self._legend_of(old)
        raw = Database.raw(connection)
        identifier = legends.save(raw, [legend], now)[legend.sha256]
        with raw.cursor() as cursor, cursor.copy(_COPY) as copy:
            for row in old:
                copy.write_row(_packed(row, legend, identifier))
        connection.execute(_DELETE_UNPACKED, {"ids": [row["id"] for row in old]})
        self._legend = legend
        return len(old)

    def _legend_of(self, rows: Sequence[Mapping[str, Any]]) -> Legend:
        """The known legend if it covers these rows, else one extended by their names and codes."""
        codes = {code for row in rows for code in row["rejected"] or ()}
        names = {name for row in rows for queues in (row["rejected"] or {}).values() for name in queues}
        if names <= set(self._legend.names) and codes <= set(self._legend.codes):
            return self._legend
        all_codes = sorted(codes | set(self._legend.codes))
        order = tuple(range(len(all_codes)))
        return Legend(tuple(sorted(names | set(self._legend.names))), (), tuple(all_codes), order, order)


def has_unpacked(connection: sa.Connection) -> bool:
    """Whether unpacked decisions of older releases remain."""
    return bool(connection.scalar(sa.text("SELECT EXISTS (SELECT FROM broker.decisions_unpacked)")))


def _packed(row: Mapping[str, Any], legend: Legend, identifier: int) -> tuple[Any, ...]:
    code_of = {code: index for index, code in enumerate(legend.codes)}
    position = np.full(len(legend.names), NOT_A_CANDIDATE, dtype=np.int16)
    place_of = legend.place_of.__getitem__
    for code, names in (row["rejected"] or {}).items():
        position[list(map(place_of, names))] = code_of[code]
    funnel = tuple(FunnelStep(*step) for step in row["funnel"] or ())
    candidates = tuple(
        Candidate(candidate["name"], candidate["weight"], candidate["factors"], candidate.get("bootstrap", False))
        for candidate in row["candidates"] or ()
    )
    return (
        row["id"],
        *(row[name] for name in _PLAIN),
        identifier,
        pack_reasons([Reasons(legend, position, "", {}, funnel)])[0],
        pack_named_candidates(candidates),
        len(candidates),
        None,
        clean_json(row["assigned"] or {}),
        clean_json(row["notes"] or []),
        row["work"],
        row["pending_until"],
    )
