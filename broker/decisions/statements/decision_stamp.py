"""The data on which the answer about a task's last decisions depends, read at once and compared as a whole."""

from __future__ import annotations

from typing import Any

import psycopg

from broker.history.statements.task_facts import COLUMNS
from broker.store.connection.tables import TableCatalogue

Stamp = tuple[str, ...]
"""Texts of rows, which differ if a row does."""

# a stored decision never changes, but it may have been cleared away, so its existence is checked, too
_READ_STAMP = """
SELECT (SELECT now FROM broker.scenario_clock), task.facts, state.rows, state.waits
FROM (SELECT string_agg(row(state.decision, state.decided_at, state.seen_again, state.last_seen_at,
                            state.waiting_since, kept.id)::text, '' ORDER BY state.brokerage, state.decision) AS rows,
             coalesce(bool_or(state.outcome <> 'brokered'), false) AS waits
      FROM broker.chunk_states AS state
      LEFT JOIN broker.stored_decisions AS kept ON kept.id = state.decision AND kept.decided_at = state.decided_at
      WHERE state.jeditaskid = %(task)s) AS state
LEFT JOIN (SELECT row(found.*)::text AS facts FROM {tasks} AS found
           WHERE found.jeditaskid = %(task)s) AS task ON true"""


def stamp_query(catalogue: TableCatalogue) -> str:
    """The query for :func:`read_stamp`, for the columns that the database has."""
    return _READ_STAMP.replace("{tasks}", catalogue.source("jedi_tasks", COLUMNS))


def read_stamp(connection: psycopg.Connection[Any], query: str, jeditaskid: int) -> tuple[Any, Stamp | None, bool]:
    """The instant of a loaded scenario or None; the stamp of a task; and whether some of it waits.

    The stamp is None if the states of chunks are incomplete: then nothing may be cached.
    """
    row = connection.execute(query, {"task": jeditaskid}, prepare=True).fetchone()
    if row is None or row[2] is None:
        return (None if row is None else row[0]), None, False
    clock, facts, states, waits = row
    return clock, (str(clock), facts or "", states), bool(waits)
