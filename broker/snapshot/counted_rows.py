"""Job counts as columns: the usable rows of a source, and rows of jobs that give the same counts back.

:func:`usable_counts` checks all numbers at once. :func:`job_rows` goes the other way: the counts are stored twice, by
different columns (all jobs by share, status and type, and those of users by owner), so within a queue, share and label
the owners are dealt out to the jobs of their status, and both counts are reproduced. Who had which job is unknown, and
no decision depends on it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from broker.domain.arrays import Bools, Floats, Ints
from broker.domain.work import DroppedRow
from broker.snapshot.raw import BadValueError, Rows, not_negative, text, zero_if_null

NUMBER_COLUMNS = ("njobs", "ncores", "diskio_jobs", "diskio_per_core")
_PLAIN_NUMBERS = {int, float, type(None)}
_TEXTS = ("jobstatus", "gshare", "resource_type", "prodsourcelabel", "vo", "nucleus")


class Columns:
    """Columns of rows by name, each with its distinct values, computed on first access.

    Args:
        columns: (R,) columns as read.
    """

    def __init__(self, columns: Mapping[str, Sequence[Any]]) -> None:
        self.columns = columns
        self._coded: dict[str, tuple[list[Any], Ints]] = {}

    def values(self, name: str) -> Sequence[Any]:
        """(R,) a column; empty if it was not read."""
        return self.columns.get(name, ())

    def coded(self, name: str) -> tuple[list[Any], Ints]:
        """Distinct values of a column in order of first occurrence, and (R,) the position of each row's value."""
        if name not in self._coded:
            values = self.values(name)
            positions = {value: position for position, value in enumerate(dict.fromkeys(values))}
            codes = np.fromiter(map(positions.__getitem__, values), dtype=np.int64, count=len(values))
            self._coded[name] = list(positions), codes
        return self._coded[name]

    def each(self, name: str, of: Callable[[Any], int]) -> Ints:
        """(R,) the result of a function for each value of a column, called once for each distinct one."""
        distinct, codes = self.coded(name)
        return np.array([of(value) for value in distinct], dtype=np.int64)[codes]

    def pairs(self, one: str, other: str) -> tuple[list[tuple[Any, Any]], Ints]:
        """The distinct pairs of values in two columns, and (R,) the position of each row's pair among them."""
        first_coded, second_coded = self.coded(one), self.coded(other)
        both, codes = np.unique(first_coded[1] * max(1, len(second_coded[0])) + second_coded[1], return_inverse=True)
        first, second = np.divmod(both, max(1, len(second_coded[0])))
        distinct = [
            (first_coded[0][left], second_coded[0][right])
            for left, right in zip(first.tolist(), second.tolist(), strict=True)
        ]
        return distinct, codes.reshape(-1)


def read_columns(rows: Rows) -> Columns:
    """Transpose rows to columns."""
    columns = list(zip(*rows.values, strict=True)) or [()] * len(rows.columns)
    return Columns(dict(zip(rows.columns, columns, strict=True)))


class CountedRows:
    """The usable rows (length R); equal to others of the same content, in whatever order they were read.

    Args:
        unified: (R,) position of the queue.
        numbers: (R,) each of :data:`NUMBER_COLUMNS`; NULL counts as 0.
        read: (R,) columns as read.
    """

    def __init__(self, unified: Ints, numbers: Mapping[str, Floats], read: Columns) -> None:
        self.unified, self.numbers, self.read = unified, numbers, read

    def __len__(self) -> int:
        return len(self.unified)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CountedRows) and self._records == other._records

    __hash__ = None  # type: ignore[assignment]  # the compared content is too large to hash

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        """The rows as mappings, in an order independent of that of reading."""
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
        dropped_rows: receives the unusable rows.
    """
    columns = read.columns
    place = read.each("computingsite", lambda name: unified.get(name, -1))
    usable = place >= 0
    numbers, plain = {}, _plain_texts(columns.get("gshare", ()))
    for name in NUMBER_COLUMNS:
        numbers[name], sound = _plain_numbers(columns.get(name, ()))
        plain &= sound
    for row in np.flatnonzero(usable & ~plain).tolist():
        try:
            for name in NUMBER_COLUMNS:
                numbers[name][row] = zero_if_null(not_negative(columns[name][row], name))
            text(columns["gshare"][row], "gshare")
        except BadValueError as bad:
            usable[row] = False
            dropped_rows.append(DroppedRow("jobs", str(columns["computingsite"][row])[:80], bad.code, str(bad)))
    if usable.all():
        return CountedRows(place, numbers, read)
    rest = np.flatnonzero(usable).tolist()
    used = {name: [column[row] for row in rest] for name, column in columns.items()}
    return CountedRows(place[usable], {name: column[usable] for name, column in numbers.items()}, Columns(used))


def _plain_numbers(values: Sequence[Any]) -> tuple[Floats, Bools]:
    """(R,) the numbers, 0 for NULL, and a mask of those known to be valid; the others need a check."""
    if not _PLAIN_NUMBERS.issuperset(map(type, values)):
        return np.zeros(len(values)), np.zeros(len(values), dtype=np.bool_)
    null = np.array([value is None for value in values], dtype=np.bool_)
    try:
        numbers = np.array(values, dtype=np.float64)
    except OverflowError:
        return np.zeros(len(values)), np.zeros(len(values), dtype=np.bool_)
    sound = np.isfinite(numbers) & (numbers >= 0)
    numbers[~sound] = 0.0
    return numbers, sound | null


def _plain_texts(values: Sequence[Any]) -> Bools:
    """(R,): whether a value is NULL or known to be a text that any database can hold."""
    sound = {value for value in {one for one in values if type(one) is str} if value.isascii() and "\0" not in value}
    return np.array([value is None or (type(value) is str and value in sound) for value in values], dtype=np.bool_)


Row = dict[str, Any]

_STATUS_COUNTS = {"running": "running_jobs", "throttled": "throttled_jobs"}
_QUEUED = ("defined", "assigned", "activated", "starting")
_DEFINED = ("defined", "assigned")
#: Columns of a job by which jobs are counted; PanDA's statistics have all but the last.
COUNTED_BY = (
    "computingsite",
    "gshare",
    "workqueue_id",
    "jobstatus",
    "resource_type",
    "nucleus",
    "vo",
    "prodsourcelabel",
)
#: Column of a generated row: whether the row belongs to the table of defined jobs.
IS_DEFINED = "is_defined"
#: Most cores of a job that the column can hold.
_MOST_CORES = 32_767


def job_rows(counts: Iterable[Mapping[str, Any]], owners: Iterable[Mapping[str, Any]], first_id: int = 1) -> list[Row]:
    """Make one row per job; column :data:`IS_DEFINED` names its table.

    Args:
        counts: rows of the source ``jobs``. Cores without jobs, which occur in PanDA's statistics, make no row.
        owners: rows of ``user_job_counts``; jobs that match no row of ``counts`` are dropped.
        first_id: pandaid of the first row.
    """
    dealt = _Owners(owners)
    rows: list[Row] = []
    for count in counts:
        common = {**{name: count[name] for name in COUNTED_BY}, IS_DEFINED: count["jobstatus"] in _DEFINED}
        generated = [dict(common) for _ in range(int(count["njobs"] or 0))]
        for row, owner in zip(generated, dealt.take(count, len(generated)), strict=True):
            row.update(owner)
        _share_cores(generated, int(count["ncores"] or 0))
        _share_diskio(generated, int(count["diskio_jobs"] or 0), float(count["diskio_per_core"] or 0.0))
        rows += generated
    for number, row in enumerate(rows, first_id):
        row["pandaid"] = number
    return rows


def start_rows(starts: Iterable[Mapping[str, Any]], started: Any, first_id: int) -> list[Row]:
    """Finished jobs that started at ``started``, as many at each queue as the rows of ``job_starts`` say."""
    queues = [row["computingsite"] for row in starts for _ in range(int(row["njobs"] or 0))]
    return [
        {"pandaid": number, "computingsite": queue, "jobstatus": "finished", "starttime": started}
        for number, queue in enumerate(queues, first_id)
    ]


class _Owners:
    """The owners of jobs, to be dealt out by queue, share, label and kind of status."""

    def __init__(self, owners: Iterable[Mapping[str, Any]]) -> None:
        self._left: dict[tuple[Any, Any, Any, str], list[Row]] = defaultdict(list)
        self._of_others: dict[tuple[Any, Any, Any], Row] = {}
        for row in sorted(owners, key=lambda owner: not owner[IS_DEFINED]):
            if not row[IS_DEFINED]:
                self._of_others.setdefault(_counted_place(row), _owner(row))
            for kind, jobs in _jobs_of(row):
                self._left[(*_counted_place(row), kind)] += jobs

    def take(self, count: Mapping[str, Any], jobs: int) -> list[Row]:
        """Take the owners of ``jobs`` jobs of a row of counts, one row per job; the row is empty without an owner.

        Owners from the table of defined jobs come first and get defined or assigned jobs. Jobs of a status that is not
        counted by owner go to an owner that exists anyway, so that they add none.
        """
        kind = _kind(count["jobstatus"])
        left = self._left[(*_counted_place(count), kind)]
        if count["jobstatus"] in _DEFINED:
            taken, left[:] = left[:jobs], left[jobs:]
        else:
            keep = max(len(left) - jobs, 0)
            left[:], taken = left[:keep], left[keep:]
        other = self._of_others.get(_counted_place(count), {}) if kind == "other" else {}
        return [*taken, *(other for _ in range(jobs - len(taken)))]


def _counted_place(row: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    return row["computingsite"], row["gshare"], row["prodsourcelabel"]


def _kind(status: str | None) -> str:
    return "queued" if status in _QUEUED else str(status) if status in _STATUS_COUNTS else "other"


def _jobs_of(row: Mapping[str, Any]) -> Iterator[tuple[str, list[Row]]]:
    """The jobs of an owner by kind of status, with their cores."""
    owner = _owner(row)
    running, throttled, queued = (int(row[f"{kind}_jobs"] or 0) for kind in ("running", "throttled", "queued"))
    waiting = _even(int(row["queued_cores"] or 0), queued + throttled)
    yield "running", [{**owner, "corecount": cores} for cores in _even(int(row["running_cores"] or 0), running)]
    yield "queued", [{**owner, "corecount": cores} for cores in waiting[:queued]]
    yield "throttled", [{**owner, "corecount": cores} for cores in waiting[queued:]]
    if not running + throttled + queued:
        yield "other", [owner]  # a job in none of these states: the owner exists all the same


def _owner(row: Mapping[str, Any]) -> Row:
    return {
        "produsername": row["produsername"],
        "workinggroup": row["workinggroup"],
        "processingtype": "pmerge" if row["is_merge"] else None,
        IS_DEFINED: row[IS_DEFINED],
    }


def _even(total: int, parts: int) -> list[int]:
    """Split ``total`` into ``parts`` parts that differ by at most one."""
    return [(total + place) // parts for place in range(parts)]


def _share_cores(rows: list[Row], cores: int) -> None:
    for row, actual in zip(rows, _even(cores, len(rows)), strict=True):
        row["actualcorecount"] = actual


def _share_diskio(rows: list[Row], count: int, total: float) -> None:
    """Give ``count`` of the jobs a disk IO so that the sum per core is ``total``, or as close as possible."""
    selected = sorted(rows, key=lambda row: "corecount" not in row)[:count]
    left = Fraction(total)
    for place, row in enumerate(selected):
        share = left / (len(selected) - place)
        if "corecount" not in row and place == len(selected) - 1:
            share = share.limit_denominator(_MOST_CORES)
            row["corecount"] = share.denominator
        cores = max(row.get("corecount") or 1, 1)
        row["diskio"] = round(share * cores)
        left -= Fraction(row["diskio"], cores)
