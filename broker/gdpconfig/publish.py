"""Versions of the tuning: their rows, how two differ, and the effect of an edit. Pure.

A version holds all CONFIG rows of our keys, so that a decision's version says exactly how it was tuned, and the last
good value of each row, so that a bad row does not lose it across a restart.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from broker.errors import NotFound, Refused
from broker.gdpconfig.catalogue import (
    KEY_MAX_CHARACTERS,
    VALUE_MAX_CHARACTERS,
    VO_MAX_CHARACTERS,
    Catalogue,
    KeyEntry,
    Value,
    ValueRefusedError,
)
from broker.gdpconfig.tuning import UNPUBLISHED_VERSION, Tuning
from broker.gdpconfig.values import (
    BadRow,
    CheckedRows,
    ConfigRow,
    RowId,
    contradictions,
    convert,
    in_scope,
    judge_rows,
    row_of,
    rows_of_catalogue,
)

FIRST_READING = "first reading of the table"
"""Reason of the first version: nobody changed anything."""


OUTSIDE_EDITOR = "(outside)"
"""Editor of versions that record changes by other programs to the CONFIG table."""


class VersionConflictError(Refused):
    """The values changed since the editor read them."""

    def __init__(self, expected: int, current: int, editor: str) -> None:
        """Remember the two versions and who made the newer one."""
        self.expected = expected
        self.current = current
        super().__init__(
            f"gdpconfig is at version {current}, changed by {editor}, not at the expected version {expected}",
            "",
            f"look at the difference with broker config diff {expected} {current} and try again",
        )


class NotSetError(Refused, LookupError):
    """There is no row to remove."""


class UnknownVersionError(NotFound, LookupError):
    """No such version was published."""


@dataclass(frozen=True)
class Published:
    """One version of the tuning.

    Attributes:
        version: sequential number; 0 for rows that are not published yet.
        rows: the CONFIG rows of our keys, sorted by component, key and VO.
        last_good: the value of each row when it was last good, including now.
        catalogue: the keys.
    """

    version: int
    rows: tuple[ConfigRow, ...]
    last_good: Mapping[RowId, Value] = field(hash=False)
    catalogue: Catalogue = field(hash=False, repr=False)

    @cached_property
    def judged(self) -> CheckedRows:
        """The rows, converted and checked."""
        return judge_rows(self.catalogue, self.rows, self.last_good)

    @property
    def bad_rows(self) -> tuple[BadRow, ...]:
        """Rows that cannot be used, to be reported to operators."""
        return self.judged.bad

    @property
    def fingerprint(self) -> str:
        """Identifies the rows: equal for equal rows, whatever their order."""
        return fingerprint(self.rows)

    def tuning(self, vo: str | None) -> Tuning:
        """The values in force for the tasks of one VO."""
        return Tuning(self.version, vo, in_scope(self.catalogue, self.judged.usable, vo), self.catalogue)

    def contradictions(self, vo: str | None) -> tuple[str, ...]:
        """Pairs of values in force that contradict each other, one sentence each."""
        return contradictions(self.catalogue, in_scope(self.catalogue, self.judged.usable, vo))


@dataclass(frozen=True)
class RowChange:
    """The change of one row by an edit.

    Attributes:
        row_id: component, key and VO of the row.
        app: program of the row.
        old: the row before; None if there was none.
        new: the row after; None if it was removed.
    """

    row_id: RowId
    app: str
    old: ConfigRow | None
    new: ConfigRow | None

    @property
    def action(self) -> str:
        """The action on the key: ``set`` or ``unset``."""
        return "unset" if self.new is None else "set"


@dataclass(frozen=True)
class Edit:
    """A planned edit: the resulting version, and its changes."""

    result: Published
    changes: tuple[RowChange, ...]


def table_content(catalogue: Catalogue, rows: Iterable[ConfigRow], latest: Published | None) -> Published:
    """The current content of the CONFIG table.

    Args:
        catalogue: the keys.
        rows: all rows of the table; those of other programs are dropped.
        latest: the latest published version, or None before the first.

    Returns:
        The latest version itself if the rows are as published, otherwise the rows as version 0.
    """
    own = rows_of_catalogue(catalogue, rows)
    if latest is not None and fingerprint(own) == latest.fingerprint:
        return latest
    return Published(UNPUBLISHED_VERSION, own, _carried(catalogue, own, latest), catalogue)


def plan_outside(current: Published, latest: Published | None) -> Edit | None:
    """Plan the version that records changes by other programs; None if the table is as published."""
    if current is latest:
        return None
    version = 1 if latest is None else latest.version + 1
    result = Published(version, current.rows, current.last_good, current.catalogue)
    return Edit(result, differences(() if latest is None else latest.rows, current.rows))


def plan_set(current: Published, name: str, value: Value, vo: str | None) -> Edit | None:
    """Plan the version in which a key has a value; None if it already has it.

    Args:
        current: the version to start from.
        name: full name of the key.
        value: the value, of the type of the key.
        vo: VO whose row is set; None for the only VO for which the key is read.

    Raises:
        UnknownKeyError: no such key.
        ValueRefusedError: the value, the name or the VO is not accepted, or the value contradicts another one.
    """
    entry, row = current.catalogue.require(name), _row_to_set(current.catalogue, name, value, vo)
    old = next((r for r in current.rows if r.row_id == row.row_id), None)
    if old is not None and _same_value(entry, old, row):
        return None
    edit = _edit(current, [r for r in current.rows if r.row_id != row.row_id] + [row])
    new_pairs = set(edit.result.contradictions(row.vo)) - set(current.contradictions(row.vo))
    if new_pairs:
        raise ValueRefusedError(f"{name} = {value} contradicts another key: {'; '.join(sorted(new_pairs))}")
    return edit


def plan_unset(current: Published, name: str, vo: str | None) -> Edit:
    """Plan the version in which a key has its default again.

    Raises:
        UnknownKeyError: no such key.
        NotSetError: no row sets it for that VO.
        ValueRefusedError: the key is not read for that VO, or the default contradicts another value.
    """
    entry = current.catalogue.require(name)
    row_id = (entry.component, name, vo_to_edit(entry, vo))
    remaining = [row for row in current.rows if row.row_id != row_id]
    if len(remaining) == len(current.rows):
        raise NotSetError(f"{name} is not set for VO {row_id[2]}", "", "its default is in force, nothing is to be done")
    edit = _edit(current, remaining)
    new_pairs = set(edit.result.contradictions(row_id[2])) - set(current.contradictions(row_id[2]))
    if new_pairs:
        raise ValueRefusedError(f"the default of {name} contradicts another key: {'; '.join(sorted(new_pairs))}")
    return edit


def with_values(current: Published, wanted: Iterable[tuple[str, Value, str | None]]) -> Published:
    """The values with several keys set at once; the version is 0, as nothing is published.

    Args:
        current: the version to start from.
        wanted: full name of the key, value and VO, each as for :func:`plan_set`.

    Raises:
        UnknownKeyError: no such key.
        ValueRefusedError: a value, a name or a VO is not accepted, or the values contradict each other or another one.
    """
    rows = {row.row_id: row for row in current.rows}
    touched: set[str] = set()
    for name, value, vo in wanted:
        row = _row_to_set(current.catalogue, name, value, vo)
        rows[row.row_id] = row
        touched.add(row.vo or "")
    result = _edit(current, list(rows.values())).result
    new_pairs = {pair for vo in touched for pair in set(result.contradictions(vo)) - set(current.contradictions(vo))}
    if new_pairs:
        raise ValueRefusedError(f"the values contradict each other: {'; '.join(sorted(new_pairs))}")
    return Published(UNPUBLISHED_VERSION, result.rows, result.last_good, result.catalogue)


def plan_rollback(current: Published, target: Published) -> Edit | None:
    """Plan the version that restores an older one, row by row; None if it is already in force."""
    if current.fingerprint == target.fingerprint:
        return None
    return _edit(current, list(target.rows), {**current.last_good, **target.last_good})


def differences(old: Iterable[ConfigRow], new: Iterable[ConfigRow]) -> tuple[RowChange, ...]:
    """Differences between two sets of rows, sorted by component, key and VO."""
    before = {row.row_id: row for row in old}
    after = {row.row_id: row for row in new}
    return tuple(
        RowChange(row_id, (after.get(row_id) or before[row_id]).app, before.get(row_id), after.get(row_id))
        for row_id in sorted(before.keys() | after.keys())
        if before.get(row_id) != after.get(row_id)
    )


def fingerprint(rows: Iterable[ConfigRow]) -> str:
    """SHA-256 of the rows in a canonical form; equal for equal rows, whatever their order."""
    text = json.dumps(sorted(rows_to_json(rows), key=json.dumps), separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def rows_to_json(rows: Iterable[ConfigRow]) -> list[list[object]]:
    """Rows as JSON, one list per row."""
    return [[r.app, r.component, r.key, r.vo or "", r.value, r.type, r.value_json] for r in rows]


def rows_from_json(content: Iterable[Iterable[object]]) -> tuple[ConfigRow, ...]:
    """The inverse of ``rows_to_json``."""
    return tuple(ConfigRow(*item) for item in content)  # type: ignore[arg-type]


def last_good_to_json(last_good: Mapping[RowId, Value]) -> list[list[object]]:
    """Last good values as JSON, one list per row."""
    return [[*row_id, value] for row_id, value in sorted(last_good.items())]


def last_good_from_json(content: Iterable[Iterable[Value]]) -> dict[RowId, Value]:
    """The inverse of ``last_good_to_json``."""
    return {(str(component), str(key), str(vo)): value for component, key, vo, value in content}


def vo_to_edit(entry: KeyEntry, vo: str | None) -> str:
    """The VO whose row an edit touches.

    Raises:
        ValueRefusedError: a required VO is missing, or the key is never read for the given one.
    """
    literal = entry.scope if entry.scope not in ("task", "any") else None
    if literal is not None and vo not in (None, literal):
        raise ValueRefusedError(f"{entry.pattern} is read for VO {literal} only, not for {vo!r}")
    row_vo = literal if literal is not None else vo
    if not row_vo or not row_vo.isprintable() or len(row_vo) > VO_MAX_CHARACTERS:
        raise ValueRefusedError(f"{entry.pattern} needs a VO of 1 to {VO_MAX_CHARACTERS} printable characters")
    return row_vo


def _row_to_set(catalogue: Catalogue, name: str, value: Value, vo: str | None) -> ConfigRow:
    entry = catalogue.require(name)
    row = row_of(entry, _checked_name(name), vo_to_edit(entry, vo), entry.check(value))
    if row.value is not None and len(row.value) > VALUE_MAX_CHARACTERS:
        raise ValueRefusedError(f"{name}: the value is longer than the {VALUE_MAX_CHARACTERS} characters of the column")
    return row


def _edit(current: Published, rows: list[ConfigRow], last_good: Mapping[RowId, Value] | None = None) -> Edit:
    own = rows_of_catalogue(current.catalogue, rows)
    before = Published(current.version, current.rows, last_good or current.last_good, current.catalogue)
    result = Published(current.version + 1, own, _carried(current.catalogue, own, before), current.catalogue)
    return Edit(result, differences(current.rows, own))


def _carried(catalogue: Catalogue, rows: tuple[ConfigRow, ...], before: Published | None) -> dict[RowId, Value]:
    """Last good values after a change: a good row's own, a bad row's previous one, none for a removed row."""
    return dict(judge_rows(catalogue, rows, {} if before is None else before.last_good).usable)


def _same_value(entry: KeyEntry, old: ConfigRow, new: ConfigRow) -> bool:
    try:
        return bool(entry.check(convert(old)) == entry.check(convert(new)))
    except ValueRefusedError:
        return False


def _checked_name(name: str) -> str:
    if len(name) > KEY_MAX_CHARACTERS or not name.isprintable():
        shown = name[:40].encode("unicode_escape").decode()
        raise ValueRefusedError(
            f"the key {shown}... is longer than the {KEY_MAX_CHARACTERS} characters of the column or not printable"
        )
    return name
