"""The states of chunks at an instant in the past, read from the decisions themselves.

Slower than :mod:`broker.store.summaries.chunk_states`, which has only the current states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

import sqlalchemy as sa

from broker.store.summaries.chunk_states import DecidedState

_READ_DECISIONS = sa.text("""
    SELECT id, brokerage, jeditaskid, datasetid, ramcount, decided_at, outcome, coalesce(reason, '') AS reason,
           pending_until, coalesce(assigned, '{}') AS assigned, seen_again
    FROM broker.stored_decisions
    WHERE decided_at > :since AND decided_at <= :until AND outcome <> 'skipped'
    ORDER BY brokerage, jeditaskid, datasetid NULLS FIRST, ramcount NULLS FIRST, decided_at, id""")


@dataclass(frozen=True)
class StateUntil(DecidedState):
    """The last decision about a task or chunk up to an instant.

    ``waiting_since`` and ``times_seen`` are counted from the decisions that were read.
    """

    assigned: Mapping[str, int]
    times_seen: int


def states_until(connection: sa.Connection, since: datetime, until: datetime) -> list[StateUntil]:
    """The states at ``until`` of chunks decided about after ``since``, ordered by brokerage, task and chunk."""
    rows = connection.execute(_READ_DECISIONS, {"since": since, "until": until})
    chunks = groupby(rows, key=lambda row: (row.brokerage, row.jeditaskid, row.datasetid, row.ramcount))
    return [_state(list(group)) for _, group in chunks]


def _state(rows: Sequence[Any]) -> StateUntil:
    last = rows[-1]
    waiting, times = None, 0
    for row in reversed(rows):
        if row.outcome == "brokered":
            break
        waiting = row.decided_at
    for row in reversed(rows):
        if (row.outcome, row.reason) != (last.outcome, last.reason):
            break
        times += 1 if row is last else 1 + row.seen_again
    return StateUntil(
        decision=last.id,
        brokerage=last.brokerage,
        jeditaskid=last.jeditaskid,
        datasetid=last.datasetid,
        ramcount=last.ramcount,
        decided_at=last.decided_at,
        outcome=last.outcome,
        reason=last.reason,
        pending_until=last.pending_until,
        assigned=last.assigned,
        waiting_since=waiting,
        times_seen=times,
    )
