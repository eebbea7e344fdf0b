"""The current request of a task, and the origin of each value: submission, scouts, or what was learned."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from broker.sizing.statements import request_rows
from broker.store.query_context import NothingFound, QueryContext, ResponseModel

#: Shown values: column, column of the unit, and meaning.
SHOWN = (
    ("ramcount", "ramunit", "memory"),
    ("cputime", "cputimeunit", "CPU time"),
    ("walltime", "walltimeunit", "walltime"),
    ("outdiskcount", "outdiskunit", "output"),
    ("workdiskcount", "workdiskunit", "work directory"),
    ("iointensity", "iointensityunit", "I/O intensity"),
    ("diskio", "diskiounit", "disk I/O"),
)


class RequestValue(ResponseModel):
    """One value that a task requests.

    Attributes:
        value: current value.
        unit: unit of the values.
        source: ``submission``, ``scouts`` (PanDA's formulae), ``learned`` (a quantile of its jobs), or ``kind``.
        since: time when the source set it; null for the submission.
        reason: reason with the sample; empty for the submission.
        scouts: value by PanDA's formulae; null if its jobs were not examined, or have no such figure.
    """

    name: str
    column: str
    value: int | None
    unit: str | None
    source: str
    since: datetime | None
    reason: str
    scouts: int | None


class LearnedMemory(ResponseModel):
    """Memory used by jobs of the task, in MB of its memory unit.

    Attributes:
        p50: median; null if unknown: ``unknown`` says why.
        ask: quantile that may be requested; null if unknown: ``unknown`` says why.
        low: lower end of the 90 % interval of ``ask``.
        high: upper end of the 90 % interval of ``ask``; null if it may exceed all jobs.
    """

    evaluated_at: datetime
    finished: int
    killed: int
    p50: float | None
    ask: float | None
    low: float | None
    high: float | None
    unknown: str


class RequestChange(ResponseModel):
    """A change of a task's requests; passive changes (``active`` false) were only recorded."""

    changed_at: datetime
    source: str
    active: bool
    before: dict[str, Any]
    after: dict[str, Any]
    reason: str


class TaskRequests(ResponseModel):
    """The requests of a task."""

    now: datetime
    jeditaskid: int
    taskname: str | None
    status: str | None
    cores: int
    values: tuple[RequestValue, ...]
    learned: LearnedMemory | None
    changes: tuple[RequestChange, ...]


def task_requests(query: QueryContext, jeditaskid: int) -> TaskRequests:
    """The request of a task, and the origin of each value.

    Raises:
        NothingFound: there is no such task.
    """
    row = request_rows.read_shown(query.connection, query.catalogue, jeditaskid)
    if row is None:
        raise NothingFound("task", jeditaskid, "jedi_tasks")
    changes = [RequestChange(**one) for one in request_rows.read_changes(query.connection, jeditaskid, query.now)]
    learned = request_rows.read_learned(query.connection, jeditaskid)
    scouts = {} if learned is None else learned["scouts"]
    return TaskRequests(
        now=query.now,
        jeditaskid=jeditaskid,
        taskname=row["taskname"],
        status=row["status"],
        cores=int(row["corecount"] or 1),
        values=tuple(_value(name, column, unit, row, changes, scouts) for column, unit, name in SHOWN),
        learned=None if learned is None else _learned(learned),
        changes=tuple(changes),
    )


def _value(
    name: str, column: str, unit: str, row: dict[str, Any], changes: list[RequestChange], scouts: dict[str, Any]
) -> RequestValue:
    """A value with the last change that set it; a value that no change set is the submission's."""
    own = next((one for one in reversed(changes) if one.active and column in one.after), None)
    own = own if own is not None and own.after[column] == row[column] else None
    return RequestValue(
        name=name,
        column=column,
        value=row[column],
        unit=row[unit],
        source="submission" if own is None else own.source,
        since=None if own is None else own.changed_at,
        reason="" if own is None else own.reason,
        scouts=scouts.get(column),
    )


def _learned(row: dict[str, Any]) -> LearnedMemory:
    shown = ("evaluated_at", "finished", "killed", "unknown")
    figures = {name: row[f"{name}_mb"] for name in ("p50", "ask", "low", "high")}
    return LearnedMemory(**{name: row[name] for name in shown}, **figures)
