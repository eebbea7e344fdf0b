"""What a run of a feed changes in a table: rows added, changed by field, and gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from broker.feeds.model.rows import Key, MappedTable

ChangeKind = Literal["added", "changed", "gone"]


@dataclass(frozen=True)
class RowChange:
    """A row that changed: its key, how, and the fields with the value before and after."""

    key: Key
    kind: ChangeKind
    fields: Mapping[str, tuple[Any, Any]]


@dataclass(frozen=True)
class TableChanges:
    """All changes of a table.

    Attributes:
        table: its name.
        rows: what changed, by key.
        unchanged: how many rows did not.
    """

    table: str
    rows: tuple[RowChange, ...]
    unchanged: int

    def keys(self, *kinds: ChangeKind) -> tuple[Key, ...]:
        """Keys of the rows that changed in one of these ways."""
        return tuple(row.key for row in self.rows if row.kind in kinds)

    def counts(self) -> dict[str, Any]:
        """The numbers: ``added``, ``changed``, ``gone``, ``unchanged``, and of the changed ones ``fields`` by name."""
        kinds = Counter(row.kind for row in self.rows)
        fields = Counter(name for row in self.rows if row.kind == "changed" for name in row.fields)
        counted: dict[str, Any] = {kind: kinds.get(kind, 0) for kind in ("added", "changed", "gone")}
        return counted | {"unchanged": self.unchanged, "fields": dict(sorted(fields.items()))}


def compare(before: Mapping[Key, tuple[Any, ...]], after: MappedTable, *, removes: bool = True) -> TableChanges:
    """The changes from the rows ``before`` to those ``after``; both have the same columns.

    A document in a column is compared by the fields at its top. ``removes``: rows that are not there any more are gone;
    without it they are not looked at. Rows that ``after`` keeps stay.
    """
    rows = []
    unchanged = 0
    for key, values in after.rows.items():
        old = before.get(key)
        if old is None:
            rows.append(RowChange(key, "added", {}))
        elif old == values:
            unchanged += 1
        else:
            rows.append(RowChange(key, "changed", _fields(after.columns, old, values)))
    if removes:
        gone = (key for key, old in before.items() if key not in after.rows and not after.keeps(key, old))
        rows += [RowChange(key, "gone", {}) for key in gone]
    return TableChanges(after.table, tuple(rows), unchanged)


def _fields(columns: tuple[str, ...], old: tuple[Any, ...], new: tuple[Any, ...]) -> dict[str, tuple[Any, Any]]:
    found: dict[str, tuple[Any, Any]] = {}
    for column, before, after in zip(columns, old, new, strict=True):
        if before == after:
            continue
        if isinstance(before, dict) and isinstance(after, dict):
            found |= _document_fields(before, after, column)
        else:
            found[column] = (before, after)
    return found


def _document_fields(before: dict[str, Any], after: dict[str, Any], column: str) -> dict[str, tuple[Any, Any]]:
    name: Callable[[str], str] = (lambda key: key) if column == "data" else (lambda key: f"{column}.{key}")
    keys = sorted(before.keys() | after.keys())
    return {name(key): (before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)}
