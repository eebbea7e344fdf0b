"""Reads of what our own decisions placed, and what made them: the plug-in, or profiles of agents' cycles.

The plug-in for JEDI decides outside of any cycle: ``agent_run`` is NULL for its decisions, also for repeated ones that
have no row of their own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
import sqlalchemy as sa

from broker.alongside.statements.panda_placements import Chunk
from broker.store.decisions.decision_rows import pattern_of

_READ_DECISIONS = sa.text("""
    SELECT brokerage, jeditaskid, datasetid, coalesce(ramcount, 0)::float8 AS ramcount, decided_at
    FROM broker.stored_decisions
    WHERE agent_run IS NULL AND outcome <> 'skipped' AND decided_at > :since AND decided_at <= :until
    ORDER BY decided_at""")
_READ_REPEATS = sa.text("""
    SELECT decided_at, pattern FROM broker.decision_repeats
    WHERE agent_run IS NULL AND decided_at > :since AND decided_at <= :until ORDER BY decided_at""")
_READ_CHUNKS = sa.text("""
    SELECT id, brokerage, jeditaskid, datasetid, coalesce(ramcount, 0)::float8 AS ramcount
    FROM broker.stored_decisions WHERE id = ANY(:ids) AND decided_at > :first AND decided_at <= :until""")
_READ_CYCLES = sa.text("SELECT id, profile, only_recorded FROM broker.agent_runs WHERE id = ANY(:ids)")
#: A decision that is only repeated keeps its row for a day.
LONGEST = timedelta(days=1)


@dataclass(frozen=True)
class DecidingCycle:
    """The profile by which a cycle decided, and whether it wrote only decisions; None: not on record."""

    profile: str | None
    only_recorded: bool | None


def plugin_decisions(
    connection: sa.Connection, since: datetime, until: datetime
) -> dict[tuple[str, Chunk], list[datetime]]:
    """When the plug-in decided, after ``since`` up to ``until``, by brokerage and chunk; oldest first."""
    span = {"since": since, "until": until}
    moments_by_chunk: dict[tuple[str, Chunk], list[datetime]] = defaultdict(list)
    for row in connection.execute(_READ_DECISIONS, span):
        moments_by_chunk[row.brokerage, (row.jeditaskid, row.datasetid, row.ramcount)].append(row.decided_at)
    repeats = [(row.decided_at, pattern_of(row.pattern)) for row in connection.execute(_READ_REPEATS, span)]
    ids = np.unique(np.concatenate([pattern for _, pattern in repeats])).tolist() if repeats else []
    values = {"ids": ids, "first": since - LONGEST, "until": until}
    chunks = {
        row.id: (row.brokerage, (row.jeditaskid, row.datasetid, row.ramcount))
        for row in connection.execute(_READ_CHUNKS, values)
    }
    for moment, pattern in repeats:
        for identifier in pattern.tolist():
            if identifier in chunks:
                moments_by_chunk[chunks[identifier]].append(moment)
    return {key: sorted(moments) for key, moments in moments_by_chunk.items()}


_COUNT = sa.text("""
    SELECT count(*) FROM (SELECT FROM broker.decisions WHERE decided_at > :since AND decided_at <= :until LIMIT :most)
        AS found""")


def count_decisions(connection: sa.Connection, since: datetime, until: datetime, most: int) -> int:
    """Count the decisions made after ``since`` up to ``until`` (aware), but no more than ``most``."""
    return int(connection.execute(_COUNT, {"since": since, "until": until, "most": most}).scalar_one())


def deciding_cycles(connection: sa.Connection, runs: Sequence[int]) -> dict[int, DecidingCycle]:
    """The recorded cycles, by the number of their run."""
    rows = connection.execute(_READ_CYCLES, {"ids": list(runs)})
    return {row.id: DecidingCycle(row.profile, row.only_recorded) for row in rows}
