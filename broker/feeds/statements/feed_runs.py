"""Runs of feeds: what each did, and what changed row by row."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from broker.feeds.model.rows import RowChange, TableChanges
from broker.store.connection.database import Database

#: Tables whose rows are facts: their changes are stored row by row. Of measurements, only counts are stored.
FACTS = frozenset({"schedconfig_json", "sw_tags", "site", "panda_site", "ddm_endpoint", "panda_ddm_relation"})
#: Tables whose keys begin with the name of a queue.
ABOUT_QUEUES = ("schedconfig_json", "sw_tags", "panda_site", "panda_ddm_relation")
MEASURES = "space_"
"""Prefix of the columns that hold measurements in a table of facts."""
LONGEST_VALUE = 2000
"""Characters of a value that are stored with a change."""


@dataclass(frozen=True)
class FeedRun:
    """A run of a feed, as it is stored.

    Attributes:
        feed: its name.
        by_hand: whether it was started by hand.
        started_at: its instant (aware).
        outcome: ``done``, ``partial`` (a document was refused) or ``refused`` (nothing was written).
        documents: the outcome for each document.
        changes: counts by table.
        dropped_rows: counts by document and reason.
    """

    feed: str
    by_hand: bool
    started_at: datetime
    outcome: str
    documents: Sequence[Mapping[str, Any]]
    changes: Mapping[str, Mapping[str, Any]]
    dropped_rows: Mapping[str, Mapping[str, int]]
    id: int | None = None


@dataclass(frozen=True)
class ChangeRecord:
    """A change of a row: when, where, how, and the fields before and after."""

    changed_at: datetime
    table: str
    key: tuple[str, ...]
    kind: str
    fields: Mapping[str, Sequence[Any]]


_WRITE_RUN = sa.text("""
    INSERT INTO broker.feed_runs (feed, by_hand, started_at, outcome, documents, changes, left_out)
    VALUES (:feed, :by_hand, :started_at, :outcome, CAST(:documents AS jsonb), CAST(:changes AS jsonb),
            CAST(:left_out AS jsonb))
    RETURNING id""")
_WRITE_CHANGE = b"""
    INSERT INTO broker.feed_changes (run_id, position, changed_at, table_name, row_key, kind, fields)
    VALUES (%s, %s, %s, %s, %s, %s, %s)"""


def write_run(connection: sa.Connection, run: FeedRun, changes: Iterable[TableChanges] = ()) -> int:
    """Store a run with its row changes; return its id."""
    values = {
        "feed": run.feed,
        "by_hand": run.by_hand,
        "started_at": run.started_at,
        "outcome": run.outcome,
        "documents": _json(run.documents),
        "changes": _json(run.changes),
        "left_out": _json(run.dropped_rows),
    }
    identifier = int(connection.execute(_WRITE_RUN, values).scalar_one())
    row_changes = [
        (table.table, row) for table in changes if table.table in FACTS for row in table.rows if not _measured(row)
    ]
    rows = [
        (identifier, position, run.started_at, table, list(row.key), row.kind, _json(_shortened(row.fields)))
        for position, (table, row) in enumerate(row_changes)
    ]
    if rows:
        with Database.raw(connection).cursor() as cursor:
            cursor.executemany(_WRITE_CHANGE, rows)
    return identifier


def _measured(row: RowChange) -> bool:
    """Whether only measurements changed, such as the space of an endpoint, which differs at every check."""
    return row.kind == "changed" and all(name.startswith(MEASURES) for name in row.fields)


def last_runs(connection: sa.Connection, feed: str | None, most: int) -> list[FeedRun]:
    """The newest runs, of one feed or of all."""
    query = sa.text("""
        SELECT feed, by_hand, started_at, outcome, documents, changes, left_out AS dropped_rows, id
        FROM broker.feed_runs WHERE CAST(:feed AS text) IS NULL OR feed = :feed
        ORDER BY started_at DESC, id DESC LIMIT :most""")
    return [FeedRun(**row._mapping) for row in connection.execute(query, {"feed": feed, "most": most})]


def changes_of_queue(connection: sa.Connection, queue: str, most: int) -> list[ChangeRecord]:
    """The newest changes of rows about a queue, the newest first."""
    query = sa.text("""
        SELECT changed_at, table_name, row_key, kind, fields FROM broker.feed_changes
        WHERE row_key[1] = :queue AND table_name = ANY(:tables)
        ORDER BY changed_at DESC, run_id DESC, position LIMIT :most""")
    rows = connection.execute(query, {"queue": queue, "tables": list(ABOUT_QUEUES), "most": most})
    return [ChangeRecord(row[0], row[1], tuple(row[2]), row[3], row[4]) for row in rows]


def status_changes(connection: sa.Connection, runs: Sequence[int]) -> list[tuple[int, str, Any, Any]]:
    """The queues whose status runs changed: run, queue, status before and after; the newest run first."""
    query = sa.text("""
        SELECT run_id, row_key[1], fields->'status'->0, fields->'status'->1 FROM broker.feed_changes
        WHERE run_id = ANY(:runs) AND table_name = 'schedconfig_json' AND fields ? 'status'
        ORDER BY run_id DESC, position""")
    return [(int(row[0]), str(row[1]), row[2], row[3]) for row in connection.execute(query, {"runs": list(runs)})]


def _shortened(fields: Mapping[str, tuple[Any, Any]]) -> dict[str, list[Any]]:
    return {name: [_short(value) for value in pair] for name, pair in fields.items()}


def _short(value: Any) -> Any:
    text = _json(value)
    return value if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}..."


def _json(value: Any) -> str:
    return json.dumps(value, default=str).replace("\\u0000", "\\ufffd")
