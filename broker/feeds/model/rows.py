"""Rows that a document is mapped to, and how they differ from the stored rows of their table.

:class:`MappedTable` has the rows of one table by key, stored rows that stay unchanged, and dropped rows.
:class:`TableChanges` are the changes that a run of a feed makes: rows added, changed by field, and gone.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from broker.domain.work import DroppedRow
from broker.fetching.documents import DocumentRefused
from broker.snapshot.raw import BadValueError, number, text

Key = tuple[str, ...]

#: Clocks of other systems may be ahead of ours by this much.
CLOCK_SKEW = timedelta(minutes=5)
#: Codes of records that are valid, but dropped because they are of no use here.
OF_NO_USE = frozenset({"unknown_endpoint", "unknown_site", "too_old"})
_LARGEST = 2**62
_IDENTIFIER_CHARACTERS = 80


@dataclass(frozen=True)
class MappedTable:
    """The target rows of a table.

    Attributes:
        table: its name.
        key: the columns of the key.
        columns: the other columns, in the order of the values in ``rows``.
        rows: values by key.
        retained_keys: keys, or first parts of keys, of dropped records: their stored rows stay.
        retained_where: a column, and those of its values whose rows stay too.
        about: prefixes of the keys covered; rows with other keys stay. None: all rows are covered.
        dropped_rows: the dropped records, with reasons.
    """

    table: str
    key: tuple[str, ...]
    columns: tuple[str, ...]
    rows: Mapping[Key, tuple[Any, ...]]
    retained_keys: frozenset[Key] = frozenset()
    retained_where: tuple[str, frozenset[str]] = ("", frozenset())
    dropped_rows: tuple[DroppedRow, ...] = field(default=())
    about: frozenset[Key] | None = None

    def keeps(self, key: Key, values: tuple[Any, ...]) -> bool:
        """Whether a stored row stays although the document has no usable record of it."""
        if key in self.retained_keys or key[:1] in self.retained_keys:
            return True
        if self.about is not None and not any(key[:length] in self.about for length in range(1, len(key))):
            return True
        column, retained_values = self.retained_where
        return bool(retained_values) and values[self.columns.index(column)] in retained_values


def reasons(dropped_rows: Iterable[DroppedRow]) -> dict[str, int]:
    """Count the dropped rows by code."""
    return dict(sorted(Counter(row.code for row in dropped_rows).items()))


def dropped_row(document: str, identifier: object, bad: BadValueError) -> DroppedRow:
    """Describe a record that cannot be used."""
    return DroppedRow(document, str(identifier)[:_IDENTIFIER_CHARACTERS], bad.code, str(bad))


def named(value: Any, field_name: str, longest: int) -> str:
    """Check a name for the tables: text of 1 to ``longest`` characters, none of them a control character.

    Raises:
        BadValueError: it is not valid (``missing``, ``wrong_type``, ``not_text``, ``control_character``, ``too_long``).
    """
    name = text(value, field_name)
    if not name:
        raise BadValueError("missing", field_name, value)
    if len(name) > longest:
        raise BadValueError("too_long", field_name, name)
    if not name.isprintable() and any(unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp") for char in name):
        raise BadValueError("control_character", field_name, name)
    return name


def within(value: Any, field_name: str, lowest: float, highest: float) -> float:
    """Check a finite number from ``lowest`` to ``highest``; NaN for NULL.

    Raises:
        BadValueError: it is not a number (``wrong_type``, ``not_finite``), below 0 where it must not be
            (``negative``), or ``out_of_range``.
    """
    checked = number(value, field_name)
    if checked < lowest:
        raise BadValueError("negative" if lowest == 0 else "out_of_range", field_name, value)
    if checked > highest:
        raise BadValueError("out_of_range", field_name, value)
    return checked


def whole_number(value: Any, field_name: str, lowest: float = 0, highest: float = _LARGEST) -> int | None:
    """Check a number in a range and round it; None for NULL.

    Raises:
        BadValueError: as :func:`within`.
    """
    checked = within(value, field_name, lowest, highest)
    return None if math.isnan(checked) else round(checked)


def moment(value: Any, field_name: str, form: str, now: datetime) -> datetime:
    """Parse an instant of the form ``form``, UTC, not in the future (aware).

    Raises:
        BadValueError: it is not a time (``missing``, ``wrong_type``, ``bad_time``), or in the ``future`` by more than
            clocks may differ.
    """
    written = text(value, field_name)
    if not written:
        raise BadValueError("missing", field_name, value)
    try:
        instant = datetime.strptime(written[:40], form).replace(tzinfo=UTC)
    except ValueError as error:
        raise BadValueError("bad_time", field_name, written) from error
    if instant > now + CLOCK_SKEW:
        raise BadValueError("future", field_name, written)
    return instant


def check_dropped_rows(document: str, dropped_rows: Iterable[DroppedRow], records: int, most: float) -> None:
    """Refuse a document with too many unusable rows.

    Args:
        document: its name.
        dropped_rows: its dropped rows.
        records: how many it has.
        most: the share of the records that may be dropped for a fault.

    Raises:
        DocumentRefused: with the code ``too_many_left_out``.
    """
    unusable = len({row.identifier for row in dropped_rows if row.source == document and row.code not in OF_NO_USE})
    if unusable > most * records:
        raise DocumentRefused(
            "too_many_left_out",
            f"{unusable} of {records} records cannot be used, more than {most:.0%}",
            document,
            "see the reasons in `broker import log`; the last good one stays",
        )


def check_shrunk(document: str, records: int, before: int | None, most: float) -> None:
    """Refuse a document that has lost too many records since the last good one.

    Args:
        document: its name.
        records: how many it has now.
        before: how many the last good one had; None without one.
        most: the share of records that may be lost.

    Raises:
        DocumentRefused: with the code ``shrunk``.
    """
    if before and records < before * (1.0 - most):
        raise DocumentRefused(
            "shrunk",
            f"{records} records after {before}, less than {1.0 - most:.0%}",
            document,
            "see its source; if it is right, import it once with --allow-shrink",
        )


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
        rows: the changed rows.
        unchanged: how many rows did not.
    """

    table: str
    rows: tuple[RowChange, ...]
    unchanged: int

    def keys(self, *kinds: ChangeKind) -> tuple[Key, ...]:
        """Keys of the rows that changed in one of these ways."""
        return tuple(row.key for row in self.rows if row.kind in kinds)

    def counts(self) -> dict[str, Any]:
        """Count the rows ``added``, ``changed``, ``gone`` and ``unchanged``, and the changed ``fields`` by name."""
        kinds = Counter(row.kind for row in self.rows)
        fields = Counter(name for row in self.rows if row.kind == "changed" for name in row.fields)
        counted: dict[str, Any] = {kind: kinds.get(kind, 0) for kind in ("added", "changed", "gone")}
        return counted | {"unchanged": self.unchanged, "fields": dict(sorted(fields.items()))}


def compare(before: Mapping[Key, tuple[Any, ...]], after: MappedTable, *, removes: bool = True) -> TableChanges:
    """Return the changes from the rows ``before`` to those of ``after``; both have the same columns.

    A document in a column is compared by its top-level fields. With ``removes``, rows that are missing are gone, except
    those that ``after`` keeps; without it, they are ignored.
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
    changed: dict[str, tuple[Any, Any]] = {}
    for column, before, after in zip(columns, old, new, strict=True):
        if before == after:
            continue
        if isinstance(before, dict) and isinstance(after, dict):
            changed |= _document_fields(before, after, column)
        else:
            changed[column] = (before, after)
    return changed


def _document_fields(before: dict[str, Any], after: dict[str, Any], column: str) -> dict[str, tuple[Any, Any]]:
    name: Callable[[str], str] = (lambda key: key) if column == "data" else (lambda key: f"{column}.{key}")
    keys = sorted(before.keys() | after.keys())
    return {name(key): (before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)}
