"""The rows of job counts as columns: which of them can be used, their numbers checked all at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from broker.domain.arrays import Bools, Floats, Ints
from broker.domain.work import DroppedRow
from broker.snapshot.raw import Rows
from broker.snapshot.readings import BadValueError, not_negative, text, zero_if_null

NUMBER_COLUMNS = ("njobs", "ncores", "diskio_jobs", "diskio_per_core")
_PLAIN_NUMBERS = {int, float, type(None)}
_TEXTS = ("jobstatus", "gshare", "resource_type", "prodsourcelabel", "vo", "nucleus")


class Columns:
    """Columns of rows by name, each with its distinct values, computed on first access.

    Args:
        columns: (R,) as they were read.
    """

    def __init__(self, columns: Mapping[str, Sequence[Any]]) -> None:
        self.columns = columns
        self._coded: dict[str, tuple[list[Any], Ints]] = {}

    def values(self, name: str) -> Sequence[Any]:
        """(R,) a column; empty where it was not read."""
        return self.columns.get(name, ())

    def coded(self, name: str) -> tuple[list[Any], Ints]:
        """Distinct values of a column in order of first occurrence, and (R,) the position of each row's value."""
        if name not in self._coded:
            values = self.values(name)
            place = {value: at for at, value in enumerate(dict.fromkeys(values))}
            codes = np.fromiter(map(place.__getitem__, values), dtype=np.int64, count=len(values))
            self._coded[name] = list(place), codes
        return self._coded[name]

    def each(self, name: str, of: Callable[[Any], int]) -> Ints:
        """(R,) the result of a function for each value of a column, called once for each distinct one."""
        found, codes = self.coded(name)
        return np.array([of(value) for value in found], dtype=np.int64)[codes]

    def pairs(self, one: str, other: str) -> tuple[list[tuple[Any, Any]], Ints]:
        """The pairs of values that occur in two columns, and (R,) the position of each row's there."""
        mine, theirs = self.coded(one), self.coded(other)
        both, codes = np.unique(mine[1] * max(1, len(theirs[0])) + theirs[1], return_inverse=True)
        first, second = np.divmod(both, max(1, len(theirs[0])))
        found = [(mine[0][at], theirs[0][with_]) for at, with_ in zip(first.tolist(), second.tolist(), strict=True)]
        return found, codes.reshape(-1)


def read_columns(rows: Rows) -> Columns:
    """The columns of rows."""
    read = list(zip(*rows.values, strict=True)) or [()] * len(rows.columns)
    return Columns(dict(zip(rows.columns, read, strict=True)))


class CountedRows:
    """The rows that can be used (length R); equal to others of the same content, whatever the order of reading.

    Args:
        unified: (R,) position of the queue.
        numbers: (R,) of each of :data:`NUMBER_COLUMNS`; NULL counts nothing.
        read: (R,) as they were read.
    """

    def __init__(self, unified: Ints, numbers: Mapping[str, Floats], read: Columns) -> None:
        self.unified, self.numbers, self.read = unified, numbers, read

    def __len__(self) -> int:
        return len(self.unified)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CountedRows) and self._records == other._records

    __hash__ = None  # type: ignore[assignment]  # what is compared is too much for a hash

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        """The rows as objects, in an order that is that of no reading."""
        return iter(self._records)

    @cached_property
    def _records(self) -> list[dict[str, Any]]:
        columns = dict(self.read.columns) | {name: column.tolist() for name, column in self.numbers.items()}
        columns["unified"] = self.unified.tolist()
        rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
        return sorted(rows, key=_place)


def _place(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["unified"], row["workqueue_id"] or 0, *(row[name] or "" for name in _TEXTS), row["njobs"]


def usable_counts(read: Columns, unified: Mapping[str, int], dropped_rows: list[DroppedRow]) -> CountedRows:
    """The rows of job counts at queues on record, their numbers checked.

    Args:
        read: the rows.
        unified: positions of the queues on record.
        dropped_rows: gets those of them that cannot be used.
    """
    columns = read.columns
    place = read.each("computingsite", lambda name: unified.get(name, -1))
    kept = place >= 0
    numbers, plain = {}, _plain_texts(columns.get("gshare", ()))
    for name in NUMBER_COLUMNS:
        numbers[name], sound = _plain_numbers(columns.get(name, ()))
        plain &= sound
    for at in np.flatnonzero(kept & ~plain).tolist():
        try:
            for name in NUMBER_COLUMNS:
                numbers[name][at] = zero_if_null(not_negative(columns[name][at], name))
            text(columns["gshare"][at], "gshare")
        except BadValueError as bad:
            kept[at] = False
            dropped_rows.append(DroppedRow("jobs", str(columns["computingsite"][at])[:80], bad.code, str(bad)))
    if kept.all():
        return CountedRows(place, numbers, read)
    rest = np.flatnonzero(kept).tolist()
    used = {name: [column[at] for at in rest] for name, column in columns.items()}
    return CountedRows(place[kept], {name: column[kept] for name, column in numbers.items()}, Columns(used))


def _plain_numbers(values: Sequence[Any]) -> tuple[Floats, Bools]:
    """(R,) the numbers, 0 for NULL, and a mask of those known to be valid; the others need a check."""
    if not _PLAIN_NUMBERS.issuperset(map(type, values)):
        return np.zeros(len(values)), np.zeros(len(values), dtype=np.bool_)
    null = np.array([value is None for value in values], dtype=np.bool_)
    try:
        found = np.array(values, dtype=np.float64)
    except OverflowError:
        return np.zeros(len(values)), np.zeros(len(values), dtype=np.bool_)
    sound = np.isfinite(found) & (found >= 0)
    found[~sound] = 0.0
    return found, sound | null


def _plain_texts(values: Sequence[Any]) -> Bools:
    """(R,): whether a value is known to be a text that any database can hold, or NULL."""
    sound = {value for value in {one for one in values if type(one) is str} if value.isascii() and "\0" not in value}
    return np.array([value is None or (type(value) is str and value in sound) for value in values], dtype=np.bool_)
