"""What a task asks for now, and where each value came from: its submission, its scouts, or what was learned."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from broker.sizing.statements import request_rows
from broker.store.query_context import Answer, Asking, NothingFound

#: Shown values: column, that of its unit, and what it is.
SHOWN = (
    ("ramcount", "ramunit", "memory"),
    ("cputime", "cputimeunit", "CPU time"),
    ("walltime", "walltimeunit", "walltime"),
    ("outdiskcount", "outdiskunit", "output"),
    ("workdiskcount", "workdiskunit", "work directory"),
    ("iointensity", "iointensityunit", "I/O intensity"),
    ("diskio", "diskiounit", "disk I/O"),
)


class RequestValue(Answer):
    """One value that a task asks for.

    Attributes:
        value, unit: that count now.
        source: ``submission``, ``scouts`` (PanDA's formulae), ``learned`` (a quantile of its jobs), or ``kind``.
        since: when the source set it; null for the submission.
        reason: with the sample; empty for the submission.
        scouts: what PanDA's formulae give; null where its jobs were not looked at, or have no such figure.
    """

    name: str
    column: str
    value: int | None
    unit: str | None
    source: str
    since: datetime | None
    reason: str
    scouts: int | None


class LearnedMemory(Answer):
    """What jobs of the task used, in MB of the unit of its memory.

    Attributes:
        p50, ask: the middle, and the quantile that may be asked for; null where it is not known, ``unknown`` says why.
        low, high: between them ``ask`` lies with 90 %; high is null where it may be above all jobs.
    """

    evaluated_at: datetime
    finished: int
    killed: int
    p50: float | None
    ask: float | None
    low: float | None
    high: float | None
    unknown: str


class RequestChange(Answer):
    """A change of what a task asks for; passive ones (``active`` false) were only found."""

    changed_at: datetime
    source: str
    active: bool
    before: dict[str, Any]
    after: dict[str, Any]
    reason: str


class TaskRequests(Answer):
    """What a task asks for."""

    now: datetime
    jeditaskid: int
    taskname: str | None
    status: str | None
    cores: int
    values: tuple[RequestValue, ...]
    learned: LearnedMemory | None
    changes: tuple[RequestChange, ...]


def task_requests(asking: Asking, jeditaskid: int) -> TaskRequests:
    """What a task asks for, and where each value came from.

    Raises:
        NothingFound: there is no such task.
    """
    row = request_rows.read_shown(asking.connection, asking.catalogue, jeditaskid)
    if row is None:
        raise NothingFound("task", jeditaskid, "jedi_tasks")
    changes = [RequestChange(**one) for one in request_rows.read_changes(asking.connection, jeditaskid, asking.now)]
    learned = request_rows.read_learned(asking.connection, jeditaskid)
    scouts = {} if learned is None else learned["scouts"]
    return TaskRequests(
        now=asking.now,
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
    """The last change that set the value as it is; a value that nobody of ours set is the submission's."""
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
