"""A job group of the SSS Job Object as a row of PanDA's task table, with a report of what has no place there.

Source: Scalable Systems Software Job Object Specification 3.0.3, JobGroup and JobDefaults; PanDA data model, tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from broker.formats.model.sss.job_columns import ColumnValue, MappedJob, MappingRules, epoch_text
from broker.formats.model.sss.model import Document, JobLevel
from broker.formats.model.sss.requests import CannotAskError, request_of
from broker.formats.model.sss.states import task_status_of

GROUP_COLUMNS: dict[str, tuple[str, int]] = {"JobGroupName": ("taskName", 256), "StatusMessage": ("errorDialog", 510)}
DEFAULT_COLUMNS: dict[str, tuple[str, int]] = {
    "UserId": ("userName", 128),
    "ProjectId": ("workingGroup", 20),  # 32 in the task table, but 20 in that of its jobs
    "QualityOfService": ("gshare", 32),
    "Queue": ("site", 60),
    "Executable": ("transPath", 128),
    "Architecture": ("architecture", 256),
}
"""Elements of the group and of its JobDefaults to column and width."""

TIMES = {"CreationTime": "creationDate", "StartTime": "startTime", "EndTime": "endTime", "DeadlineTime": "ttcRequested"}
#: Elements that go to a column only if it is wide enough; jobs have them in full.
_PLACED_IN_JOBS = frozenset({"Queue"})


@dataclass(frozen=True)
class MappedTask:
    """A job group in PanDA's columns; if it cannot be a task, ``columns`` is ``None`` and ``refused`` says why."""

    group_id: str
    columns: Mapping[str, ColumnValue] | None
    refused: str
    unmapped: tuple[str, ...]
    notes: tuple[str, ...]


class _TooWideError(Exception):
    pass


def map_task(document: Document, jobs: Sequence[MappedJob], rules: MappingRules | None = None) -> MappedTask | None:
    """The group of a document as a row, ``None`` for a document of a single job."""
    group = document.group
    if group is None:
        return None
    defaults = next(iter(group.of_level("JobDefaults")), None)
    notes: list[str] = []
    columns: Mapping[str, ColumnValue] | None = None
    refused = ""
    try:
        columns = dict(_columns(group, defaults, jobs, rules or MappingRules(), notes))
    except _TooWideError as error:
        refused = "too-wide"
        notes.append(f"too-wide: {error}")
    except CannotAskError as error:
        refused = error.reason
        notes.append(str(error))
    return MappedTask(group.text("JobGroupId") or "", columns, refused, _unmapped(group, defaults), tuple(notes))


def _columns(
    group: JobLevel, defaults: JobLevel | None, jobs: Sequence[MappedJob], rules: MappingRules, notes: list[str]
) -> Iterator[tuple[str, ColumnValue]]:
    yield from _texts(group, GROUP_COLUMNS, rules, notes)
    rows = [part.columns for job in jobs for part in (job.parts or (job,))]
    statuses = [str(columns["jobStatus"]) for columns in rows if columns is not None]
    yield "status", task_status_of(group.text("JobGroupState"), statuses)
    if defaults is not None:
        yield from _texts(defaults, DEFAULT_COLUMNS, rules, notes)
        priority = defaults.integer("Priority")
        if priority is not None:
            yield "taskPriority", priority
            yield "currentPriority", priority
        yield from _requested(defaults)
    for level in (group, defaults):
        for name, column in TIMES.items():
            seconds = None if level is None else level.integer(name)
            if seconds is not None:
                yield column, epoch_text(seconds)


def _texts(
    level: JobLevel, columns: Mapping[str, tuple[str, int]], rules: MappingRules, notes: list[str]
) -> Iterator[tuple[str, ColumnValue]]:
    for name, (column, width) in columns.items():
        text = level.text(name)
        if text is None:
            continue
        value = {"gshare": rules.shares, "site": rules.queues}.get(column, {}).get(text, text)
        if len(value) <= width:
            if name not in _PLACED_IN_JOBS:
                yield column, value
            continue
        if name not in _PLACED_IN_JOBS:
            raise _TooWideError(f"{name} has {len(value)} characters, the column takes {width}")
        notes.append(f"{name} is wider than the task's column: it stands with the jobs only")


def _requested(defaults: JobLevel) -> Iterator[tuple[str, ColumnValue]]:
    first = request_of(defaults.requested).first
    if first.fewest_cores is not None:
        yield "coreCount", first.fewest_cores
    if first.memory_mb is not None:
        yield "ramCount", first.memory_mb
        yield "ramUnit", "MB"
    if first.disk_mb is not None:
        yield "workDiskCount", first.disk_mb
        yield "workDiskUnit", "MB"
    if first.wall_s is not None:
        yield "walltime", first.wall_s
        yield "walltimeUnit", "s"


def _unmapped(group: JobLevel, defaults: JobLevel | None) -> tuple[str, ...]:
    placed = {"JobGroupId", "JobGroupState", "CreationTime", "Priority", *GROUP_COLUMNS, *TIMES}
    names = ["awarenessPolicy"] if group.policy is not None else []
    names += [prop.name for prop in group.properties if prop.name not in placed]
    names += ["NodeProperties"] if group.nodes else []
    names += ["Environment"] if group.environment else []
    names += ["Job (a reference)"] if any(job.reference is not None for job in group.of_level("Job")) else []
    if defaults is not None and defaults.requested is not None and defaults.requested.all_of("CpuDuration"):
        names.append("CpuDuration")  # the task's CPU time is HS06 s of an event, which is something else
    names += [element.name for element in group.unknown]
    return tuple(dict.fromkeys(names))
