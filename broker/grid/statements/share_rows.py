"""The rows of ``global_shares``, and the history of their changes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from broker.grid.model.share_tree import GlobalShare
from broker.store.connection.tables import Names

_COLUMNS = "name, value, parent, prodsourcelabel, workinggroup, processingtype, vo"
#: PanDA's own final statuses of a task.
_ENDED = ("done", "finished", "failed", "aborted", "broken", "exhausted")


@dataclass(frozen=True)
class ShareChange:
    """A change of a share; ``old`` is None for a new share, ``new`` for a removed one."""

    changed_at: datetime
    editor: str
    reason: str
    share: str
    old: Mapping[str, Any] | None
    new: Mapping[str, Any] | None


def read_shares(connection: sa.Connection, names: Names) -> dict[str, GlobalShare]:
    """The shares on record, by name."""
    table = names.table("global_shares")
    query = sa.text(f"SELECT {_COLUMNS} FROM {table} ORDER BY name")  # noqa: S608 - a quoted name
    return {
        row.name: GlobalShare(**{**row._mapping, "value": row.value or 0, "parent": row.parent or None})
        for row in connection.execute(query)
    }


def lock_shares(connection: sa.Connection, names: Names) -> None:
    """Lock the shares against other changes until the transaction ends; readers are not blocked."""
    connection.execute(sa.text(f"LOCK TABLE {names.table('global_shares')} IN SHARE ROW EXCLUSIVE MODE"))


def write_share(connection: sa.Connection, names: Names, share: GlobalShare) -> None:
    """Insert or replace a share by name; columns that are not fields of it keep their values."""
    table = names.table("global_shares")
    values = dataclasses.asdict(share)
    settings = ", ".join(f"{name} = excluded.{name}" for name in values if name != "name")
    connection.execute(
        sa.text(f"""
            INSERT INTO {table} ({_COLUMNS}) VALUES ({", ".join(f":{name}" for name in values)})
            ON CONFLICT (name) DO UPDATE SET {settings}"""),  # noqa: S608 - quoted and constant names
        values,
    )


def remove_share(connection: sa.Connection, names: Names, name: str) -> None:
    """Delete the row of a share."""
    table = names.table("global_shares")
    connection.execute(sa.text(f"DELETE FROM {table} WHERE name = :name"), {"name": name})  # noqa: S608 - a quoted name


def open_tasks(connection: sa.Connection, names: Names, share: str) -> int:
    """How many tasks of a share have not ended."""
    table = names.table("jedi_tasks")
    query = sa.text(f"SELECT count(*) FROM {table} WHERE gshare = :share AND NOT status = ANY(:ended)")  # noqa: S608
    return int(connection.scalar(query, {"share": share, "ended": list(_ENDED)}) or 0)


def note_change(connection: sa.Connection, change: ShareChange) -> None:
    """Record who changed a share, when, and why."""
    values = {
        "at": change.changed_at,
        "editor": change.editor,
        "reason": change.reason,
        "share": change.share,
        "old": None if change.old is None else json.dumps(change.old),
        "new": None if change.new is None else json.dumps(change.new),
    }
    connection.execute(
        sa.text("""
            INSERT INTO broker.share_changes (changed_at, editor, reason, share, old_row, new_row)
            VALUES (:at, :editor, :reason, :share, CAST(:old AS jsonb), CAST(:new AS jsonb))"""),
        values,
    )


def share_changes(connection: sa.Connection, share: str | None, most: int) -> list[ShareChange]:
    """The changes of one share or of all, newest first."""
    query = sa.text("""
        SELECT changed_at, editor, reason, share, old_row, new_row FROM broker.share_changes
        WHERE CAST(:share AS text) IS NULL OR share = :share ORDER BY id DESC LIMIT :most""")
    return [ShareChange(*row) for row in connection.execute(query, {"share": share, "most": most})]
