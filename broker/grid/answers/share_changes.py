"""Setting and removing global shares, each change with who made it and why."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from broker.errors import Refused
from broker.grid.model.share_tree import GlobalShare, check_removal, check_share
from broker.grid.statements import share_rows
from broker.grid.statements.share_rows import ShareChange
from broker.store.connection.database import Database
from broker.store.query_context import known_name
from broker.store.schema import migrate


class NotOurShares(Refused):
    """The shares belong to a PanDA installation."""


@dataclass(frozen=True)
class ShareEdit:
    """Who changes a share, why and when (aware)."""

    editor: str
    reason: str
    at: datetime


def set_share(
    database: Database, name: str, value: int, fields: Mapping[str, str | None], edit: ShareEdit
) -> tuple[GlobalShare, bool]:
    """Make a share or change it; running services use it from their next cycle on.

    Args:
        database: of an installation of its own.
        name: of the share.
        value: its part, relative to those of its siblings.
        fields: further fields of :class:`GlobalShare` that change; those left out stay.
        edit: who changes it.

    Returns:
        The share as it is now, and whether it was made.

    Raises:
        NotOurShares: alongside PanDA.
        ShareRefused: it cannot be like this.
        NotFound: there is no such parent.
    """
    _check_standalone(database)
    with database.begin() as connection:
        share_rows.lock_shares(connection, database.names)
        known = share_rows.read_shares(connection, database.names)
        old = known.get(name)
        found = old or GlobalShare(name, value, vo=database.names.vo)
        new = GlobalShare(**{**dataclasses.asdict(found), **fields, "value": value})
        check_share(new, known)
        _write(connection, database, old, new, edit)
    return new, old is None


def add_share(database: Database, name: str, value: int, edit: ShareEdit) -> bool:
    """Make a share, unless there is one of this name: it stays as it is; whether it was made.

    Raises:
        NotOurShares: alongside PanDA.
    """
    _check_standalone(database)
    with database.begin() as connection:
        share_rows.lock_shares(connection, database.names)
        if name in share_rows.read_shares(connection, database.names):
            return False
        _write(connection, database, None, GlobalShare(name, value, vo=database.names.vo), edit)
    return True


def _write(
    connection: sa.Connection, database: Database, old: GlobalShare | None, new: GlobalShare, edit: ShareEdit
) -> None:
    share_rows.write_share(connection, database.names, new)
    before = None if old is None else dataclasses.asdict(old)
    change = ShareChange(edit.at, edit.editor, edit.reason, new.name, before, dataclasses.asdict(new))
    share_rows.note_change(connection, change)


def remove_share(database: Database, name: str, edit: ShareEdit) -> None:
    """Remove a share.

    Raises:
        NotOurShares: alongside PanDA.
        NothingFound: there is no such share; those that look like it are named.
        ShareRefused: shares are below it, or tasks of it have not ended.
    """
    _check_standalone(database)
    with database.begin() as connection:
        share_rows.lock_shares(connection, database.names)
        known = share_rows.read_shares(connection, database.names)
        if name not in known:
            name = known_name("share", name, known, "global_shares")
        check_removal(name, known.values(), share_rows.open_tasks(connection, database.names, name))
        share_rows.remove_share(connection, database.names, name)
        old = dataclasses.asdict(known[name])
        share_rows.note_change(connection, ShareChange(edit.at, edit.editor, edit.reason, name, old, None))


def _check_standalone(database: Database) -> None:
    if migrate.check(database) != migrate.STANDALONE:
        raise NotOurShares("the shares belong to a PanDA installation", repr(database), "change them in PanDA")
