"""Map worker statistics as Harvester reports them to rows of ``harvester_worker_stats``.

Source: PanDA server API v1, report_worker_statistics; PanDA data model, harvester_worker_stats.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from broker.domain.instants import naive
from broker.domain.work import DroppedRow
from broker.feeds.model.rows import Key, MappedTable, dropped_row, named, whole_number
from broker.fetching.documents import Document, DocumentRefused
from broker.snapshot.raw import BadValueError

KEY = ("harvester_id", "computingsite", "resourcetype", "status", "jobtype")
COLUMNS = ("n_workers", "lastupdate")
UNDEFINED = "Undefined"
_LONGEST = {"harvester_id": 50, "panda_queue": 128, "resourcetype": 56, "status": 80, "jobtype": 20}
_MOST_WORKERS = 2**31 - 1


def worker_table(document: Document, now: datetime) -> MappedTable:
    """Build the rows of one report, or of a list of reports; resource type ``Undefined`` is dropped.

    The table covers the rows of the harvesters and queues that report. A report with an unusable part is dropped as a
    whole: the rows of its queue stay.

    Raises:
        DocumentRefused: the document is neither a report nor a list of reports, or is empty.
    """
    reports = document.content if isinstance(document.content, list) else [document.content]
    if not reports or not all(isinstance(one, dict) and one for one in reports):
        raise DocumentRefused("empty" if not reports else "wrong_type", "no reports", document.name)
    rows: dict[Key, tuple[Any, ...]] = {}
    rewritten: set[tuple[str, str]] = set()
    dropped_rows: list[DroppedRow] = []
    stamp = naive(now)
    for report in reports:
        queue = report.get("panda_queue")
        try:
            reporter, counts = _read(document, report)
            if reporter in rewritten:
                raise BadValueError("duplicate_name", "panda_queue", queue)
        except BadValueError as bad:
            dropped_rows.append(dropped_row(document.name, queue, bad))
            continue
        rewritten.add(reporter)
        rows |= {(*reporter, *rest): (count, stamp) for rest, count in counts}
    about: frozenset[Key] = frozenset(rewritten)
    return MappedTable("harvester_worker_stats", KEY, COLUMNS, rows, dropped_rows=tuple(dropped_rows), about=about)


def _read(document: Document, report: dict[str, Any]) -> tuple[tuple[str, str], list[tuple[Key, int]]]:
    fault = document.fault_of(report)
    if fault:
        raise BadValueError(fault, "report", report.get("panda_queue"))
    reporter = (_name(report.get("harvester_id"), "harvester_id"), _name(report.get("panda_queue"), "panda_queue"))
    return reporter, list(_counts(report.get("statistics")))


def _counts(statistics: Any) -> Iterator[tuple[Key, int]]:
    for jobtype, types in _pairs(statistics, "statistics"):
        for resource, statuses in _pairs(types, "jobtype"):
            for status, count in _pairs(statuses, "resourcetype"):
                number = whole_number(count, "count", 0, _MOST_WORKERS)
                if number is None:
                    raise BadValueError("missing", "count", None)
                if resource != UNDEFINED:
                    names = (("resourcetype", resource), ("status", status), ("jobtype", jobtype))
                    yield tuple(_name(value, field) for field, value in names), number


def _pairs(value: Any, field: str) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, dict):
        raise BadValueError("wrong_type", field, type(value).__name__)
    yield from value.items()


def _name(value: Any, field: str) -> str:
    return named(value, field, _LONGEST[field])
