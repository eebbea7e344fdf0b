"""Reading and writing the tuning: PanDA's CONFIG rows, the broker's versions of them and the audit trail.

Every function works in the transaction of its caller. An edit writes the CONFIG row, the version and its changes
together or not at all. Edits wait for each other on the table of versions; readers never wait. Rows of other programs
and parts are neither read nor changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Generic, TypeVar

import sqlalchemy as sa
from pydantic import BaseModel, Field

from broker.gdpconfig.catalogue import Catalogue, Value, ValueRefusedError, shipped_catalogue
from broker.gdpconfig.publish import (
    FIRST_READING,
    OUTSIDE_EDITOR,
    Edit,
    Published,
    RowChange,
    UnknownVersionError,
    VersionConflictError,
    last_good_from_json,
    last_good_to_json,
    plan_outside,
    plan_rollback,
    plan_set,
    plan_unset,
    rows_from_json,
    rows_to_json,
    table_content,
)
from broker.gdpconfig.tuning import UNPUBLISHED_VERSION
from broker.gdpconfig.values import ConfigRow
from broker.store.connection.errors import SchemaMissing
from broker.store.connection.tables import Names
from broker.store.query_context import ResponseModel

EDITOR_MAX_CHARACTERS = 128
REASON_MAX_CHARACTERS = 1000
DESCRIPTION_MAX_CHARACTERS = 256

_READ_ROWS = """
    SELECT to_jsonb(c) FROM {panda}.config c
    WHERE c.app = ANY(:apps) AND c.component = ANY(:components)"""

_READ_VERSION = """
    SELECT version, rows, last_good FROM {broker}.gdpconfig_versions
    WHERE CAST(:version AS bigint) IS NULL OR version = :version
    ORDER BY version DESC LIMIT 1"""

_LOCK = "LOCK TABLE {broker}.gdpconfig_versions IN SHARE ROW EXCLUSIVE MODE"

_READ_EDITOR = "SELECT editor FROM {broker}.gdpconfig_versions WHERE version = :version"

_ADD_VERSION = """
    INSERT INTO {broker}.gdpconfig_versions (version, editor, reason, fingerprint, rows, last_good)
    VALUES (:version, :editor, :reason, :fingerprint, CAST(:rows AS jsonb), CAST(:last_good AS jsonb))"""

_ADD_CHANGE = """
    INSERT INTO {broker}.gdpconfig_changes (version, app, component, key, vo, action, old_value, new_value)
    VALUES (:version, :app, :component, :key, :vo, :action, CAST(:old AS jsonb), CAST(:new AS jsonb))"""

_UPDATE_ROW = """
    UPDATE {panda}.config SET value = :value, type = :type
    WHERE app = :app AND component = :component AND key = :key AND coalesce(vo, '') = :vo"""

_INSERT_ROW = """
    INSERT INTO {panda}.config (app, component, key, vo, value, type, descr)
    VALUES (:app, :component, :key, :vo, :value, :type, :descr)"""

_SET_JSON = """
    UPDATE {panda}.config SET value_json = CAST(:value_json AS jsonb)
    WHERE app = :app AND component = :component AND key = :key AND coalesce(vo, '') = :vo"""

_DELETE_ROW = """
    DELETE FROM {panda}.config
    WHERE app = :app AND component = :component AND key = :key AND coalesce(vo, '') = :vo"""

_READ_HISTORY = """
    SELECT v.version, v.published_at, v.editor, v.reason, c.component, c.key, c.vo, c.action,
           c.old_value AS old, c.new_value AS new
    FROM {broker}.gdpconfig_versions v LEFT JOIN {broker}.gdpconfig_changes c USING (version)
    WHERE v.version > 0 AND (CAST(:key AS text) IS NULL OR c.key = :key)
    ORDER BY v.version DESC, c.component, c.key, c.vo
    LIMIT :limit"""


Json = bool | int | float | str | list[Any] | dict[str, Any] | None


NameT = TypeVar("NameT")
ValueT = TypeVar("ValueT")


class ChangedRow(BaseModel, Generic[NameT, ValueT]):
    """A tuning row that a change set or unset."""

    component: NameT
    key: NameT
    vo: NameT = Field(description="The VO of the row; empty for every VO.")
    action: NameT = Field(description="``set`` or ``unset``.")
    old: ValueT = Field(description="The value before; null if there was no row.")
    new: ValueT = Field(description="The value after; null if the row was removed.")


class Publication(ResponseModel):
    """A version of the tuning."""

    version: int
    published_at: datetime = Field(description="When it was published, by the database's clock.")
    editor: str = Field(description="Who published it; ``(outside)`` if another program did.")
    reason: str


class TuningEvent(ChangedRow[str | None, Json], Publication):
    """A version and one row that it changed, with values as text or JSON; no row if no key of the broker changed."""


class TuningStore:
    """The tuning in one database.

    Args:
        names: schema names of the database.
        catalogue: the keys; by default those shipped with the broker, for the VO of the installation.
    """

    def __init__(self, names: Names | None = None, catalogue: Catalogue | None = None) -> None:
        self._names = names or Names()
        self._catalogue = catalogue or shipped_catalogue(self._names.vo)

    @property
    def vo(self) -> str:
        """The VO of the installation."""
        return self._catalogue.vo

    def read_current(self, connection: sa.Connection, *, live: bool = False) -> Published:
        """The values that a cycle uses: the latest version, in the caller's transaction.

        Args:
            connection: a transaction; a read-only snapshot is enough.
            live: read the CONFIG table instead, as the next cycle will. If another program has changed it since the
                latest version, or there is no version yet, the result has version 0.

        Raises:
            SchemaMissing: there is no CONFIG table.
        """
        latest = self._latest(connection)
        if latest is not None and not live:
            return latest
        return table_content(self._catalogue, self._rows(connection), latest)

    def version(self, connection: sa.Connection, version: int) -> Published:
        """An older version.

        Raises:
            UnknownVersionError: it was never published.
        """
        row = self._execute(connection, _READ_VERSION, version=version).one_or_none()
        if row is None:
            raise UnknownVersionError(
                f"gdpconfig has no version {version}", "", "see broker config history for those that there are"
            )
        return self._published(row)

    def sync_outside_changes(self, connection: sa.Connection) -> Published:
        """Publish what other programs wrote into the CONFIG table since the latest version. Call it before a cycle.

        Returns:
            The latest version; a new one if the table had changed or there was no version.

        Raises:
            SchemaMissing: there is no CONFIG table.
        """
        current = self.read_current(connection, live=True)
        if current.version != UNPUBLISHED_VERSION:
            return current
        self._execute(connection, _LOCK)
        return self._publish_table(connection, self._latest(connection))

    def set_value(
        self,
        connection: sa.Connection,
        key: str,
        value: Value,
        *,
        editor: str,
        reason: str,
        vo: str | None = None,
        expected_version: int | None = None,
    ) -> Published:
        """Set a key for a VO; the value is in force from the next cycle on.

        Args:
            connection: a transaction that can write; nothing is changed unless it is committed.
            key: full name of the key.
            value: a value of its type.
            editor: who sets it.
            reason: why, for the history.
            vo: VO whose row is set; optional for keys that are read for one VO only.
            expected_version: version that the editor has seen; None: set the key whatever the version is.

        Returns:
            The version in force: a new one, or the current one if the key already has the value.

        Raises:
            UnknownKeyError: no such key.
            ValueRefusedError: type, range, name, VO, editor or reason are not acceptable.
            VersionConflictError: the values have changed since that version.
        """
        return self._edit(
            connection, editor, reason, expected_version, lambda current: plan_set(current, key, value, vo)
        )

    def unset(
        self,
        connection: sa.Connection,
        key: str,
        *,
        editor: str,
        reason: str,
        vo: str | None = None,
        expected_version: int | None = None,
    ) -> Published:
        """Remove a VO's row of a key, so that the default is in force. Arguments and errors as ``set_value``.

        Raises:
            NotSetError: there is no such row.
        """
        return self._edit(connection, editor, reason, expected_version, lambda current: plan_unset(current, key, vo))

    def rollback(
        self,
        connection: sa.Connection,
        version: int,
        *,
        editor: str,
        reason: str,
        expected_version: int | None = None,
    ) -> Published:
        """Restore the rows of an older version, as a new version. Arguments and errors as ``set_value``.

        Raises:
            UnknownVersionError: the version was never published.
        """
        target = self.version(connection, version)
        return self._edit(connection, editor, reason, expected_version, lambda current: plan_rollback(current, target))

    def history(self, connection: sa.Connection, key: str | None = None, limit: int = 100) -> list[TuningEvent]:
        """The changes, newest first.

        Args:
            connection: a transaction.
            key: full name of a key; None for all.
            limit: maximum number of items.
        """
        rows = self._execute(connection, _READ_HISTORY, key=key, limit=limit)
        return [TuningEvent(**{**row._mapping, "old": _value_of(row.old), "new": _value_of(row.new)}) for row in rows]

    def _edit(
        self,
        connection: sa.Connection,
        editor: str,
        reason: str,
        expected_version: int | None,
        plan: Callable[[Published], Edit | None],
    ) -> Published:
        _check_text("the editor", editor, EDITOR_MAX_CHARACTERS)
        _check_text("the reason", reason, REASON_MAX_CHARACTERS)
        self._execute(connection, _LOCK)
        latest = self._latest(connection)
        current = self._publish_table(connection, latest)
        seen = current.version if latest is None and expected_version == UNPUBLISHED_VERSION else expected_version
        if seen is not None and seen != current.version:
            other_editor = self._execute(connection, _READ_EDITOR, version=current.version).scalar_one()
            raise VersionConflictError(seen, current.version, other_editor)
        edit = plan(current)
        if edit is None:
            return current
        for change in edit.changes:
            self._write_row(connection, change)
        self._publish(connection, edit, editor, reason)
        return edit.result

    def _publish_table(self, connection: sa.Connection, latest: Published | None) -> Published:
        """Publish the content of the CONFIG table and return the latest version. The caller holds the lock."""
        current = table_content(self._catalogue, self._rows(connection), latest)
        edit = plan_outside(current, latest)
        if edit is None:
            return current
        reason = FIRST_READING if latest is None else "changed in the table by another program"
        self._publish(connection, edit, OUTSIDE_EDITOR, reason)
        return edit.result

    def _publish(self, connection: sa.Connection, edit: Edit, editor: str, reason: str) -> None:
        result = edit.result
        self._execute(
            connection,
            _ADD_VERSION,
            version=result.version,
            editor=editor,
            reason=reason,
            fingerprint=result.fingerprint,
            rows=json.dumps(rows_to_json(result.rows)),
            last_good=json.dumps(last_good_to_json(result.last_good)),
        )
        changes = [_change_parameters(result.version, change) for change in edit.changes]
        if changes:
            connection.execute(self._text(_ADD_CHANGE), changes)

    def _write_row(self, connection: sa.Connection, change: RowChange) -> None:
        component, key, vo = change.row_id
        entry = self._catalogue.find(key)
        column_key = entry.stored_as if entry is not None and entry.stored_as else key
        where = {"app": change.app, "component": component, "key": column_key, "vo": vo}
        if change.new is None:
            self._execute(connection, _DELETE_ROW, **where)
            return
        values = {**where, "value": change.new.value, "type": change.new.type}
        if self._execute(connection, _UPDATE_ROW, **values).rowcount == 0:
            meaning = self._catalogue.require(key).meaning[:DESCRIPTION_MAX_CHARACTERS]
            self._execute(connection, _INSERT_ROW, **values, descr=meaning)
        if change.new.type == "json":
            self._execute(connection, _SET_JSON, **where, value_json=json.dumps(change.new.value_json))

    def _latest(self, connection: sa.Connection) -> Published | None:
        row = self._execute(connection, _READ_VERSION, version=None).one_or_none()
        return None if row is None else self._published(row)

    def _published(self, row: sa.Row[Any]) -> Published:
        last_good = last_good_from_json(row.last_good)
        return Published(row.version, rows_from_json(row.rows), last_good, self._catalogue)

    def _rows(self, connection: sa.Connection) -> list[ConfigRow]:
        table = self._names.table("config")
        if connection.execute(sa.text("SELECT to_regclass(:name)"), {"name": table}).scalar_one() is None:
            raise SchemaMissing("the CONFIG table is missing", table, "run broker db init, or check the schema name")
        rows = self._execute(
            connection,
            _READ_ROWS,
            apps=_distinct(entry.app for entry in self._catalogue),
            components=_distinct(entry.component for entry in self._catalogue),
        )
        return [_row(self._catalogue, content) for (content,) in rows]

    def _execute(self, connection: sa.Connection, statement: str, **parameters: object) -> sa.CursorResult[Any]:
        return connection.execute(self._text(statement), parameters)

    def _text(self, statement: str) -> sa.TextClause:
        return sa.text(self._names.sql(statement))


def _row(catalogue: Catalogue, content: dict[str, Any]) -> ConfigRow:
    """A row of CONFIG; other columns of the table are ignored, missing ones are NULL."""
    return ConfigRow(
        content["app"],
        content["component"],
        catalogue.name_of_row(content["app"], content["component"], content["key"]),
        content.get("vo") or "",
        content.get("value"),
        content.get("type"),
        content.get("value_json"),
    )


def _change_parameters(version: int, change: RowChange) -> dict[str, object]:
    component, key, vo = change.row_id
    old, new = (None if row is None else rows_to_json([row])[0][4:] for row in (change.old, change.new))
    return {
        "version": version,
        "app": change.app,
        "component": component,
        "key": key,
        "vo": vo,
        "action": change.action,
        "old": None if old is None else json.dumps(old),
        "new": None if new is None else json.dumps(new),
    }


def _value_of(stored: list[object] | None) -> object:
    """The value in a list ``[value, type, value_json]``."""
    if stored is None:
        return None
    value, kind, value_json = stored
    return value_json if kind == "json" else value


def _check_text(what: str, text: str, limit: int) -> None:
    if not text.strip() or len(text) > limit or "\0" in text:
        raise ValueRefusedError(f"{what} must be a text of 1 to {limit} characters")


def _distinct(names: Iterable[str]) -> list[str]:
    return sorted(set(names))
