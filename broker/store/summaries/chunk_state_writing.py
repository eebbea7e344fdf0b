"""Updating ``broker.chunk_states`` in the transaction of the cycle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg

from broker.store.connection.array_transfer import array_of_nullable, array_of_texts
from broker.store.summaries.chunk_states import MOST_CHANGES, LastDecision

ChunkKey = tuple[int, int | None, float | None]
"""Task, dataset and RAM count of a chunk of one brokerage."""


@dataclass(frozen=True)
class KnownState:
    """The data that a batch needs about the last decision on a chunk; see ``broker.chunk_states``."""

    decision: int
    decided_at: datetime
    outcome: str
    reason: str
    outcome_since: datetime
    waiting_since: datetime | None
    last_seen_at: datetime
    last_agent_run: int | None
    decisions: int
    seen_again: int
    state: bytes
    work_state: bytes


@dataclass(frozen=True)
class NewState(LastDecision):
    """A row of ``broker.chunk_states`` as it is written, in the order of its columns."""

    assigned: str
    state: bytes
    work_state: bytes
    main_reason: str


@dataclass(frozen=True)
class SeenAgain:
    """A chunk with the same decision as before, and until when it now waits."""

    decision: int
    pending_until: datetime | None


_TYPES = {
    "brokerage": "text", "jeditaskid": "bigint", "datasetid": "bigint", "ramcount": "float8", "decision": "bigint",
    "decided_at": "timestamptz", "outcome": "text", "reason": "text", "outcome_since": "timestamptz",
    "waiting_since": "timestamptz", "last_seen_at": "timestamptz", "last_agent_run": "bigint", "decisions": "int",
    "seen_again": "int", "pending_until": "timestamptz", "candidate_count": "int", "jobs": "bigint",
    "assigned": "text", "state": "bytea", "work_state": "bytea",
    "main_reason": "text",
}  # fmt: skip
_WRITTEN: Mapping[str, Callable[[Any], str]] = {
    "bigint": str,
    "int": str,
    "float8": float.__repr__,
    "timestamptz": lambda instant: f'"{instant.isoformat()}"',
    "bytea": lambda data: f'"\\\\x{data.hex()}"',
}
"""How values of a type are written in an array."""
_KEY = ("brokerage", "jeditaskid", "datasetid", "ramcount")
_READ_KNOWN_STATES = """
    SELECT jeditaskid, datasetid, ramcount, decision, decided_at, outcome, reason, outcome_since, waiting_since,
        last_seen_at, last_agent_run, decisions, seen_again, state, work_state
    FROM broker.chunk_states WHERE brokerage = %s AND jeditaskid = ANY(%s)"""
# Rows are ordered by key, so that two writers lock them in the same order.
# The last elements of the array are kept; PostgreSQL counts from 1.
_CHANGED_AT = f"""
    CASE WHEN (chunk_states.outcome, chunk_states.reason) = (excluded.outcome, excluded.reason)
        THEN chunk_states.changed_at
        ELSE chunk_states.changed_at[greatest(1, cardinality(chunk_states.changed_at) - {MOST_CHANGES - 2}):]
            || excluded.decided_at END"""
_SAVE_STATES = f"""
    INSERT INTO broker.chunk_states ({", ".join(_TYPES)})
    SELECT {", ".join("assigned::jsonb" if name == "assigned" else name for name in _TYPES)}
    FROM unnest({", ".join(f"%s::{kind}[]" for kind in _TYPES.values())}) AS one ({", ".join(_TYPES)})
    ORDER BY jeditaskid, datasetid, ramcount
    ON CONFLICT (jeditaskid, brokerage, datasetid, ramcount) DO UPDATE SET
        {", ".join(f"{name} = excluded.{name}" for name in _TYPES if name not in _KEY)},
        changed_at = {_CHANGED_AT}
    WHERE chunk_states.last_seen_at <= excluded.last_seen_at"""  # noqa: S608 - constants
_TOUCH_STATES = """
    UPDATE broker.chunk_states AS s
    SET last_seen_at = %s, last_agent_run = %s, decisions = s.decisions + 1, seen_again = s.seen_again + 1,
        pending_until = one.pending_until
    FROM unnest(%s::bigint[], %s::timestamptz[]) AS one (decision, pending_until)
    WHERE s.decision = one.decision"""


def known_states(
    connection: psycopg.Connection[Any], brokerage: str, tasks: Iterable[int]
) -> Mapping[ChunkKey, KnownState]:
    """The last decisions of a brokerage about the chunks of tasks."""
    rows = connection.execute(_READ_KNOWN_STATES, [brokerage, sorted(set(tasks))]).fetchall()
    return {(row[0], row[1], row[2]): KnownState(*row[3:]) for row in rows}


def save(connection: psycopg.Connection[Any], states: Sequence[NewState]) -> None:
    """Write the last decisions about chunks, one per chunk; an older one never replaces a newer one."""
    if states:
        columns = {name: [getattr(state, name) for state in states] for name in _TYPES}
        connection.execute(_SAVE_STATES, [_array(_TYPES[name], values) for name, values in columns.items()])


def save_again(
    connection: psycopg.Connection[Any], again: Sequence[SeenAgain], moment: datetime, agent_run: int | None
) -> None:
    """Count chunks with the same decision as before at ``moment``."""
    if again:
        values = [[chunk.decision for chunk in again], [chunk.pending_until for chunk in again]]
        connection.execute(_TOUCH_STATES, [moment, agent_run, *values])


def _array(kind: str, values: Sequence[Any]) -> str:
    return array_of_texts(values) if kind == "text" else array_of_nullable(values, _WRITTEN[kind])
