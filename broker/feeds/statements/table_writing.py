"""Reads and writes of feeds: the rows of one table, and their differences from a feed's rows.

Everything happens in the caller's transaction. Also the accounts whose quotas brokerage needs: users and groups with
analysis tasks that are not done.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from broker.domain.instants import naive
from broker.feeds.model.rows import Key, MappedTable, TableChanges
from broker.store.connection.tables import META_TABLES, Names, TableCatalogue, own_tables, quoted
from broker.store.reads.chunk_reads import ANALYSIS_LABELS
from broker.store.reads.replica_requests import STATUSES

#: Tables whose documents are in columns of text.
_TEXT_DOCUMENTS = frozenset({"sw_tags"})
_JSON = {"schedconfig_json": {"data"}, "sw_tags": {"data"}, "ddm_endpoint": {"detailed_status"}}


def qualified(names: Names, table: str) -> str:
    """The qualified name of a table in SQL: one of ours, or one of PanDA's."""
    if table not in META_TABLES and table in own_tables():
        return names.own(table)
    return names.table(table)


def read_rows(
    connection: sa.Connection, names: Names, table: MappedTable, firsts: Sequence[str] | None = None
) -> dict[Key, tuple[Any, ...]]:
    """Read the stored rows, by key, with the columns of ``table``; documents are parsed.

    ``firsts``: only rows whose first key column has one of these values.
    """
    documents = _JSON.get(table.table, set())
    columns = [f"{quoted(name)}::text" if name in documents else quoted(name) for name in (*table.key, *table.columns)]
    where = "" if firsts is None else f" WHERE {quoted(table.key[0])} = ANY(:firsts)"
    query = f"SELECT {', '.join(columns)} FROM {qualified(names, table.table)}{where}"  # noqa: S608 - quoted names
    width = len(table.key)
    document_positions = [width + position for position, name in enumerate(table.columns) if name in documents]
    rows: dict[Key, tuple[Any, ...]] = {}
    for row in connection.execute(sa.text(query), {} if firsts is None else {"firsts": list(firsts)}):
        values = list(row)
        for position in document_positions:
            values[position] = _parsed(values[position])
        rows[tuple(values[:width])] = tuple(values[width:])
    return rows


def _parsed(text: str | None) -> Any:
    """The document of a column; invalid text is returned as it is, so that it differs from any document."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def write_changes(connection: sa.Connection, names: Names, table: MappedTable, changes: TableChanges) -> None:
    """Write the changes: rows gone, changed and added, one statement for each kind."""
    target = qualified(names, table.table)
    key_condition = " AND ".join(f"t.{quoted(name)} = v.{quoted(name)}" for name in table.key)
    columns = [quoted(name) for name in (*table.key, *table.columns)]
    settings = ", ".join(f"{quoted(name)} = v.{quoted(name)}" for name in table.columns)
    rows = f"json_populate_recordset(NULL::{target}, CAST(:rows AS json)) AS v"
    listed = ", ".join(f"v.{name}" for name in columns)
    statements = {  # every name in them is quoted
        "gone": f"DELETE FROM {target} AS t USING {rows} WHERE {key_condition}",  # noqa: S608
        "changed": f"UPDATE {target} AS t SET {settings} FROM {rows} WHERE {key_condition}",  # noqa: S608
        "added": f"INSERT INTO {target} ({', '.join(columns)}) SELECT {listed} FROM {rows}",  # noqa: S608
    }
    as_text = {name for name in _JSON.get(table.table, set()) if table.table in _TEXT_DOCUMENTS}
    for kind, statement in statements.items():
        keys = [row.key for row in changes.rows if row.kind == kind]
        if keys:
            records = [_record(table, key, as_text) for key in keys]
            connection.execute(sa.text(statement), {"rows": json.dumps(records, default=_plain)})


def _record(table: MappedTable, key: Key, as_text: set[str]) -> dict[str, Any]:
    record: dict[str, Any] = dict(zip(table.key, key, strict=True))
    for name, value in zip(table.columns, table.rows.get(key, ()), strict=False):
        record[name] = json.dumps(value) if name in as_text and value is not None else value
    return record


def _plain(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"a row cannot hold a {type(value).__name__}")


def touch(connection: sa.Connection, names: Names, table: str, keys: Sequence[str], now: datetime) -> None:
    """Record that queues in a table with ``last_update`` were listed at ``now`` (aware, UTC)."""
    statement = f"UPDATE {qualified(names, table)} SET last_update = :now WHERE panda_queue = ANY(:keys)"  # noqa: S608
    connection.execute(sa.text(statement), {"now": naive(now), "keys": list(keys)})


def touch_links(connection: sa.Connection, names: Names, key: str, links: Sequence[Key], now: datetime) -> None:
    """Record that values of links under one key were listed at ``now`` (aware, UTC)."""
    statement = f"""
        UPDATE {names.table("network_matrix_kv")} AS t SET ts = :now
        FROM unnest(CAST(:sources AS text[]), CAST(:targets AS text[])) AS v (src, dst)
        WHERE t.src = v.src AND t.dst = v.dst AND t.key = :key"""  # noqa: S608 - a quoted name
    ends = {"sources": [link[0] for link in links], "targets": [link[1] for link in links]}
    connection.execute(sa.text(statement), {"now": naive(now), "key": key, **ends})


def count_older(
    connection: sa.Connection,
    names: Names,
    table: str,
    column: str,
    before: datetime,
    retained_keys: Sequence[str] = (),
) -> tuple[int, int]:
    """Count the rows that :func:`remove_older` would remove, and all rows."""
    query = f"SELECT count(*) FILTER (WHERE {_older(table, column)}), count(*) FROM {qualified(names, table)}"  # noqa: S608 - quoted names
    row = connection.execute(sa.text(query), _older_values(before, retained_keys)).one()
    return int(row[0]), int(row[1])


def remove_older(
    connection: sa.Connection,
    names: Names,
    table: str,
    column: str,
    before: datetime,
    retained_keys: Sequence[str] = (),
) -> list[str]:
    """Remove rows whose time in ``column`` is before ``before``; return the first key column of each.

    ``retained_keys``: first parts of keys of rows that stay.
    """
    statement = f"DELETE FROM {qualified(names, table)} WHERE {_older(table, column)} RETURNING {quoted(_FIRST[table])}"  # noqa: S608 - quoted names
    return [str(row[0]) for row in connection.execute(sa.text(statement), _older_values(before, retained_keys))]


def _older(table: str, column: str) -> str:
    return f"{quoted(column)} < :before AND NOT {quoted(_FIRST[table])} = ANY(:kept)"


def _older_values(before: datetime, retained_keys: Sequence[str]) -> dict[str, Any]:
    return {"before": naive(before), "kept": list(retained_keys)}


_FIRST: Mapping[str, str] = {"schedconfig_json": "panda_queue", "network_matrix_kv": "src"}


def accounts(connection: sa.Connection, catalogue: TableCatalogue) -> list[str]:
    """The users and groups with analysis tasks that are not done, in order of name."""
    tasks = catalogue.source("jedi_tasks", ("username", "workinggroup", "prodsourcelabel", "status"))
    query = sa.text(f"""
        SELECT DISTINCT account FROM (
            SELECT unnest(ARRAY[username, workinggroup]) AS account FROM {tasks} AS t
            WHERE prodsourcelabel = ANY(:labels) AND status = ANY(:statuses)) AS named
        WHERE account IS NOT NULL AND account <> '' ORDER BY account""")  # noqa: S608 - names of tables and columns
    values = {"labels": list(ANALYSIS_LABELS), "statuses": list(STATUSES)}
    return [str(row[0]) for row in connection.execute(query, values)]
