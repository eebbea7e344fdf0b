"""Counts of jobs back to rows of jobs, of which the same counts are made.

The counts are kept twice, by different columns: all jobs by share, status and type, and those of users by owner. Within
a queue, share and label the owners are dealt out to the jobs of their status, so that both counts come out again; who
of them had which job is not known, and nothing that is decided depends on it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any

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
#: Column of a made row that says whether it belongs to the table of defined jobs.
IS_DEFINED = "is_defined"
#: Most cores of a job, as the column holds them.
_MOST_CORES = 32_767


def job_rows(counts: Iterable[Mapping[str, Any]], owners: Iterable[Mapping[str, Any]], first_id: int = 1) -> list[Row]:
    """One row for each job; column :data:`IS_DEFINED` says from which table.

    Args:
        counts: rows of the source ``jobs``. Cores without jobs, as PanDA's statistics have them, make no row.
        owners: rows of ``user_job_counts``; jobs that no row of ``counts`` has are dropped.
        first_id: pandaid of the first row.
    """
    dealt = _Owners(owners)
    rows: list[Row] = []
    for count in counts:
        common = {**{name: count[name] for name in COUNTED_BY}, IS_DEFINED: count["jobstatus"] in _DEFINED}
        made = [dict(common) for _ in range(int(count["njobs"] or 0))]
        for row, owner in zip(made, dealt.take(count, len(made)), strict=True):
            row.update(owner)
        _share_cores(made, int(count["ncores"] or 0))
        _share_diskio(made, int(count["diskio_jobs"] or 0), float(count["diskio_per_core"] or 0.0))
        rows += made
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
                self._of_others.setdefault(_place(row), _owner(row))
            for kind, jobs in _jobs_of(row):
                self._left[(*_place(row), kind)] += jobs

    def take(self, count: Mapping[str, Any], jobs: int) -> list[Row]:
        """Owners of ``jobs`` jobs of a row of counts, one row a job; an empty row for a job without an owner.

        Those of the table of defined jobs stand first; they go to jobs that are defined or assigned. Jobs of a status
        that is not counted by owner go to one that is there anyway, so that they make no owner more.
        """
        kind = _kind(count["jobstatus"])
        left = self._left[(*_place(count), kind)]
        if count["jobstatus"] in _DEFINED:
            taken, left[:] = left[:jobs], left[jobs:]
        else:
            keep = max(len(left) - jobs, 0)
            left[:], taken = left[:keep], left[keep:]
        other = self._of_others.get(_place(count), {}) if kind == "other" else {}
        return [*taken, *(other for _ in range(jobs - len(taken)))]


def _place(row: Mapping[str, Any]) -> tuple[Any, Any, Any]:
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
        yield "other", [owner]  # some job that is none of these: the owner is there all the same


def _owner(row: Mapping[str, Any]) -> Row:
    return {
        "produsername": row["produsername"],
        "workinggroup": row["workinggroup"],
        "processingtype": "pmerge" if row["is_merge"] else None,
        IS_DEFINED: row[IS_DEFINED],
    }


def _even(total: int, parts: int) -> list[int]:
    """``total`` in so many parts that differ by at most one."""
    return [(total + place) // parts for place in range(parts)]


def _share_cores(rows: list[Row], cores: int) -> None:
    for row, actual in zip(rows, _even(cores, len(rows)), strict=True):
        row["actualcorecount"] = actual


def _share_diskio(rows: list[Row], count: int, total: float) -> None:
    """Give ``count`` of the jobs a disk IO, so that its sum over their cores is ``total`` or as near as can be."""
    chosen = sorted(rows, key=lambda row: "corecount" not in row)[:count]
    left = Fraction(total)
    for place, row in enumerate(chosen):
        share = left / (len(chosen) - place)
        if "corecount" not in row and place == len(chosen) - 1:
            share = share.limit_denominator(_MOST_CORES)
            row["corecount"] = share.denominator
        cores = max(row.get("corecount") or 1, 1)
        row["diskio"] = round(share * cores)
        left -= Fraction(row["diskio"], cores)
