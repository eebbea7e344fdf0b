"""Tuning values and their changes, with who makes them, as typed answers: ``broker config`` for all interfaces."""

from __future__ import annotations

import getpass
import math
from collections.abc import Callable
from typing import Annotated, Any

import sqlalchemy as sa
import typer
from pydantic import BaseModel

from broker.errors import WRONG_USAGE, BrokerError
from broker.gdpconfig.catalogue import KeyEntry, Value, ValueRefusedError, shipped_catalogue
from broker.gdpconfig.inspection import KeyState, all_states, entry_named, state_of
from broker.gdpconfig.publish import Published, RowChange, differences
from broker.gdpconfig.tuning import UNPUBLISHED_VERSION
from broker.gdpconfig.values import ConfigRow, from_text
from broker.store.connection.database import Database
from broker.store.gdpconfig_rows import ChangedRow, Json, TuningEvent, TuningStore


class KeyValue(BaseModel):
    """A key in force for the tasks of a VO.

    Attributes:
        key: full name of the key.
        value: value in force; null for no limit, or no value.
        default: default of the catalogue; null likewise.
        unit: unit of value and default.
        source: ``config`` if a row of the table gave the value, else ``default``.
        set_by: full name of the key whose row gave it; null for the default.
        vo: VO of that row; null for the default.
        bad_row: why the key's row cannot be used; null if it can, or if there is no row.
        version: version of the tuning; 0 if the table is not published as a version.
    """

    key: str
    value: Json
    default: Json
    unit: str
    source: str
    set_by: str | None
    vo: str | None
    bad_row: str | None
    version: int


class KeyDetail(KeyValue):
    """A key with its meaning.

    Attributes:
        type: type of its values.
        range: accepted range; null if there is none.
        app: app of its row.
        component: component of its row.
        scope: VO for which it is read: a VO, ``any`` or each one.
        zero_means_default: whether 0 is the default.
        meaning: meaning in a sentence.
        read_by: rules and agents that read it, by location.
    """

    type: str
    range: str | None
    app: str
    component: str
    scope: str
    zero_means_default: bool
    meaning: str
    read_by: dict[str, list[str]]


class ValueChange(ChangedRow[str, str | None]):
    """A changed row; null for the default."""


class TuningChange(BaseModel):
    """The result of a change: the version now in force, and the changed rows."""

    version: int
    changed: list[ValueChange]


def values(database: Database, vo: str | None = None) -> list[KeyValue]:
    """Every key with the value that the next cycle will use for the tasks of ``vo``; None for the installation's VO."""
    current = _live(database)
    return [KeyValue(**key_summary(state, current)) for state in all_states(current, vo or current.catalogue.vo)]


def value(database: Database, key: str, vo: str | None = None) -> KeyDetail:
    """One key, for the tasks of ``vo``; None for the VO of the installation.

    Raises:
        UnknownKeyError: no such key.
    """
    entry_named(shipped_catalogue(), key)
    current = _live(database)
    return key_detail(state_of(current, key, vo or current.catalogue.vo), current)


def key_detail(state: KeyState, current: Published) -> KeyDetail:
    """One key with its meaning, as every interface returns it."""
    entry = state.entry
    return KeyDetail(
        **key_summary(state, current),
        type=entry.type.value,
        range=entry.accepted_range or None,
        app=entry.app,
        component=entry.component,
        scope=entry.scope,
        zero_means_default=entry.zero_means_default,
        meaning=entry.meaning,
        read_by={where: list(codes) for where, codes in entry.read_by.items()},
    )


def typed_value(key: str, given: Json) -> tuple[KeyEntry, Value]:
    """The typed value of a client's value for a key; a text is read as on the command line.

    Raises:
        UnknownKeyError: no such key.
        ValueRefusedError: the value is not acceptable.
    """
    entry = shipped_catalogue().require(key)
    if given is None:
        raise ValueRefusedError(f"{key}: null is no value", "", "remove the value to have the default")
    return entry, from_text(entry, given) if isinstance(given, str) else entry.check(given)


def change(database: Database, make: Callable[[TuningStore, sa.Connection], Published]) -> TuningChange:
    """Publish what other programs wrote, then make a change, and return the differences.

    The changes of other programs are committed first, so that the version named in a refusal can be read.
    """
    store = TuningStore(database.names)
    with database.begin() as connection:
        if store.read_current(connection).version != UNPUBLISHED_VERSION:
            store.sync_outside_changes(connection)
    with database.begin() as connection:
        before = store.read_current(connection, live=True)
        after = make(store, connection)
    changed = [value_change(row) for row in differences(before.rows, after.rows)]
    return TuningChange(version=after.version, changed=changed)


def restore(database: Database, key: str, event: TuningEvent, *, editor: str, reason: str) -> TuningChange:
    """Restore the value that a key had before one of its changes; if it had none, the default is in force again.

    Raises:
        BrokerError: the value can no longer be used, or there is nothing to take back.
    """
    vo = event.vo or None

    def make(store: TuningStore, connection: sa.Connection) -> Published:
        if event.old is None:
            return store.unset(connection, key, editor=editor, reason=reason, vo=vo)
        _, typed = typed_value(key, event.old)
        return store.set_value(connection, key, typed, editor=editor, reason=reason, vo=vo)

    return change(database, make)


def version(database: Database) -> int:
    """The version that the next cycle will use; 0 if the table is not published as a version."""
    return _live(database).version


def history(connection: sa.Connection, database: Database, key: str | None, most: int) -> list[TuningEvent]:
    """Who changed what, when and why; newest first.

    Raises:
        UnknownKeyError: no such key.
    """
    if key is not None:
        entry_named(shipped_catalogue(), key)
    return TuningStore(database.names).history(connection, key, most)


def difference(database: Database, first: int, second: int) -> list[ValueChange]:
    """The differences between two versions.

    Raises:
        UnknownVersionError: one of them was never published.
    """
    store = TuningStore(database.names)
    with database.read_snapshot() as connection:
        old, new = store.version(connection, first), store.version(connection, second)
    return [value_change(row) for row in differences(old.rows, new.rows)]


def _live(database: Database) -> Published:
    with database.read_snapshot() as connection:
        return TuningStore(database.names).read_current(connection, live=True)


def key_summary(state: KeyState, current: Published) -> dict[str, Any]:
    """The value in force for a key, as every interface returns it; no limit is null."""
    return {
        "key": state.name,
        "value": _finite(state.value),
        "default": _finite(state.default),
        "unit": state.entry.unit,
        "source": state.origin,
        "set_by": state.set_by,
        "vo": state.vo,
        "bad_row": state.bad.why if state.bad else None,
        "version": current.version,
    }


def _finite(number: Value | None) -> Json:
    """A value for JSON, which has no infinity: no limit is null."""
    return None if isinstance(number, float) and math.isinf(number) else number


def value_change(one: RowChange) -> ValueChange:
    """A changed row as every interface returns it; None where the default is in force."""
    component, key, vo = one.row_id
    return ValueChange(component=component, key=key, vo=vo, action=one.action, old=_cell(one.old), new=_cell(one.new))


def _cell(row: ConfigRow | None) -> str | None:
    if row is None:
        return None
    return str(row.value_json if row.type == "json" else row.value)


Editor = Annotated[str | None, typer.Option("--editor", help="Who makes the change [the login name].")]


class NoEditorError(BrokerError):
    """The author of the change is not known."""

    exit_status = WRONG_USAGE


def editor_name(given: str | None) -> str:
    """The given name, else the login name.

    Raises:
        NoEditorError: there is neither.
    """
    if given is not None:
        return given
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError) as error:
        raise NoEditorError("the login name is not known", "", "say who makes the change with --editor") from error
