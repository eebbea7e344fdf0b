"""A job of the SSS Job Object as a row of PanDA's job tables, with a report of what has no place there.

Source: Scalable Systems Software Job Object Specification 3.0.3, properties of jobs; PanDA data model, job tables.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from broker.formats.model.sss import inheritance, values
from broker.formats.model.sss.inheritance import WholeJob
from broker.formats.model.sss.model import Block, JobLevel, Property
from broker.formats.model.sss.requests import QUANTITIES, CannotAskError, Request, request_of
from broker.formats.model.sss.states import job_status_of

ColumnValue: TypeAlias = int | str

TEXT_COLUMNS: dict[str, tuple[str, int]] = {
    "JobName": ("jobName", 256),
    "ProjectId": ("workingGroup", 20),
    "UserId": ("prodUserName", 60),
    "GlobalUserId": ("prodUserID", 250),
    "Application": ("homepackage", 80),
    "Executable": ("transformation", 250),
    "Arguments": ("jobParameters", 1_000_000),
    "Architecture": ("cmtConfig", 250),
    "MachineName": ("computingElement", 128),
    "Queue": ("computingSite", 128),
    "SubmitHost": ("creationHost", 128),
    "QualityOfService": ("gshare", 32),
}
"""Element to column and its width."""

TIME_COLUMNS = {"SubmissionTime": "creationTime", "StartTime": "startTime", "EndTime": "endTime"}
EXTENSION_COLUMNS: dict[str, tuple[str, int]] = {
    "JediTaskID": ("jediTaskID", 0),
    "GlobalShare": ("gshare", 32),
    "VO": ("VO", 32),
    "ResourceType": ("resource_type", 56),
    "ContainerName": ("container_name", 200),
    "NEvents": ("nEvents", 0),
    "HS06": ("hs06", 0),
    "HS06sec": ("hs06sec", 0),
    "JobLabel": ("job_label", 20),
    "ProcessingType": ("processingType", 64),
    "ProdSourceLabel": ("prodSourceLabel", 20),
    "PandaJobSubStatus": ("jobSubStatus", 80),
}
"""Extensions that our own exports write: column and width, 0 for numbers."""

STATUS_EXTENSION = "PandaJobStatus"
_PLACED_ELSEWHERE = frozenset(
    {"JobId", "JobState", "Priority", "ExitCode", "CompletionCode", "Extension", *TEXT_COLUMNS, *TIME_COLUMNS}
)  # fmt: skip
_READ_ATTRIBUTES = frozenset(
    {"units", "metric", "op", "conj", "group", "preference", "name", "type", "consumptionRate"}
)
REQUESTED_COLUMNS = frozenset({(name, "") for name in QUANTITIES})
DELIVERED_COLUMNS = frozenset(
    {("Processors", ""), ("WallDuration", ""), ("CpuDuration", ""), ("Memory", "Maximum"), ("Memory", "Average"),
     ("Swap", "Maximum"), ("Swap", "Average")}
)  # fmt: skip
"""What a block may hold that has a column or can be derived from columns: element and metric."""

_RANGE_OF_INTEGER = 2**31 - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class MappingRules:
    """An installation's tables of names: SSS to PanDA's; a name that is not in a table is used as it is."""

    shares: Mapping[str, str] = field(default_factory=dict)
    queues: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class MappedJob:
    """A job in PanDA's columns.

    Attributes:
        job_id: identifier in the document.
        columns: values by column; ``None`` if the job cannot be one of PanDA's.
        refused: why it cannot, as a code; empty if it can.
        parts: for a job of several task groups, each of these as a job of its own; then ``columns`` is ``None``.
        request: what it requests, with its alternatives.
        unmapped: elements that have no column; they are kept alongside the row.
        notes: what was assumed or is odd.
    """

    job_id: str
    columns: Mapping[str, ColumnValue] | None
    refused: str
    request: Request
    unmapped: tuple[str, ...]
    notes: tuple[str, ...]
    parts: tuple[MappedJob, ...] = ()


class _RefusedError(Exception):
    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


def map_job(whole: WholeJob, rules: MappingRules | None = None) -> MappedJob:
    """The job as a row."""
    job = whole.job
    job_id = job.text("JobId") or ""
    notes = [*whole.notes, *inheritance.remarks_on(whole)]
    request, columns, refused = Request(), None, ""
    parts = tuple(map_job(part, rules) for part in parts_of(whole))
    try:
        _one_task_group(job)
        request = request_of(requested_of(job))
        columns = dict(_columns(job, request, rules or MappingRules(), notes))
    except (_RefusedError, CannotAskError) as error:
        refused = error.reason
        notes.append(f"{error.reason}: {error.detail}")
    if columns is None or "PandaID" not in columns:
        notes.append("JobId is foreign: kept in the side table, PandaID is assigned")
    if parts:
        notes.append(
            f"an import makes {len(parts)} jobs of it, one for each task group, and nothing starts them together"
        )
    return MappedJob(job_id, columns, refused, request, _unmapped(job), tuple(notes), parts)


def parts_of(whole: WholeJob) -> tuple[WholeJob, ...]:
    """A job of several task groups as one job for each of them; nothing for any other job.

    What the job as a whole was given is stated for the first part only, so that it is not counted twice.
    """
    groups = whole.job.of_level("TaskGroup")
    if len(groups) < 2:
        return ()
    others = tuple(child for child in whole.job.children if child.level != "TaskGroup")
    return tuple(
        replace(
            whole,
            job=replace(whole.job, children=(*others, group), delivered=whole.job.delivered if number == 0 else None),
            notes=(),
        )
        for number, group in enumerate(groups)
    )


def epoch_text(seconds: int) -> str:
    """A time as PanDA's tables hold it: UTC, without zone."""
    return (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%d %H:%M:%S")


def requested_of(job: JobLevel) -> Block | None:
    """The block of requests of a job: that of its only task group, if it has one, with what the job requests."""
    groups = job.of_level("TaskGroup")
    return groups[0].requested or job.requested if len(groups) == 1 else job.requested


def delivered_of(job: JobLevel) -> Block | None:
    """The block of what a job was given: its own, else that of its only task group."""
    groups = job.of_level("TaskGroup")
    return groups[0].delivered if job.delivered is None and len(groups) == 1 else job.delivered


def _one_task_group(job: JobLevel) -> None:
    if len(job.of_level("TaskGroup")) > 1:
        raise _RefusedError("multi-task-group", "a job of PanDA is one group of equal tasks")


def _columns(
    job: JobLevel, request: Request, rules: MappingRules, notes: list[str]
) -> Iterator[tuple[str, ColumnValue]]:
    group = next(iter(job.of_level("TaskGroup")), None)
    exported = job.extension(STATUS_EXTENSION)
    number = (job.text("JobId") or "").strip()
    if exported is not None and number.isascii() and number.isdigit() and len(number) <= 18:
        yield "PandaID", int(number)
        notes.append("written by our own exporter: JobId is the PandaID and the exact status travels in the extension")
    yield "jobStatus", _status(job, exported, notes)
    yield from _texts(job, group, rules, notes)
    priority = job.integer("Priority")
    if priority is not None:
        if abs(priority) > _RANGE_OF_INTEGER:
            raise _RefusedError("out-of-range", f"Priority {priority}")
        yield "currentPriority", priority
    for name, column in TIME_COLUMNS.items():
        seconds = job.integer(name)
        if seconds is not None:
            yield column, epoch_text(seconds)
    yield from _requested(request, notes)
    yield from _delivered(job, notes)
    yield from _outcome(job)
    yield from _hosts(job, group, notes)
    yield from _extensions(job)


def _status(job: JobLevel, exported: str | None, notes: list[str]) -> str:
    if exported is not None:
        return _fitting("PandaJobStatus", exported, 15)
    state = job.text("JobState")
    code = exit_code_of(job)
    if state == "Completed" and code is None:
        notes.append("no exit code: finished is assumed and flagged")
    if state == "Suspended":
        notes.append("Suspended has no counterpart: running is written")
    return job_status_of(state, code, held=bool(job.all_of("Hold")))


def exit_code_of(job: JobLevel) -> int | None:
    """The exit code, under whichever of its two names it is written."""
    code = job.integer("ExitCode")
    return job.integer("CompletionCode") if code is None else code


def _texts(
    job: JobLevel, group: JobLevel | None, rules: MappingRules, notes: list[str]
) -> Iterator[tuple[str, ColumnValue]]:
    for name, (column, width) in TEXT_COLUMNS.items():
        text = job.text(name)
        if group is not None and group.has(name):
            text = group.text(name)
        if text is None or (column == "gshare" and job.extension("GlobalShare") is not None):
            continue
        if column == "jobParameters":
            notes.append("Arguments stays one string, it is not split")
        table = {"gshare": rules.shares, "computingSite": rules.queues}.get(column, {})
        yield column, _fitting(name, table.get(text, text), width)


def _fitting(name: str, text: str, width: int) -> str:
    """The text, if it fits; it is never truncated."""
    if len(text) > width:
        raise _RefusedError("too-wide", f"{name} has {len(text)} characters, the column takes {width}")
    return text


def _requested(request: Request, notes: list[str]) -> Iterator[tuple[str, ColumnValue]]:
    first = request.first
    if request.fewest_cores is not None:
        yield "coreCount", request.fewest_cores
    if first.memory_mb is not None:
        yield "minRamCount", first.memory_mb
        yield "minRamUnit", "MB"
    if first.disk_mb is not None:
        yield "maxDiskCount", first.disk_mb
        yield "maxDiskUnit", "MB"
    if first.wall_s is not None:
        yield "maxWalltime", first.wall_s
        notes.append("op absent means EQ; a WallDuration request is nevertheless treated as an upper limit")
    if first.cpu_s is not None:
        yield "maxCpuCount", first.cpu_s
    if request.is_fuzzy:
        notes.append(f"{len(request.alternatives)} alternative(s) in brokerage: the first that some queue satisfies")


def _delivered(job: JobLevel, notes: list[str]) -> Iterator[tuple[str, ColumnValue]]:
    delivered = delivered_of(job)
    if delivered is None:
        return
    for name, columns in (("Memory", ("maxRSS", "avgRSS")), ("Swap", ("maxSWAP", "avgSWAP"))):
        for prop in delivered.all_of(name):
            column = {"Maximum": columns[0], "Average": columns[1]}.get(prop.attributes.get("metric", ""))
            if column is not None and isinstance(prop.value, int | float):
                yield column, values.size_bytes(prop.value, prop.attributes.get("units")) // 1024
    processors = next(iter(delivered.all_of("Processors")), None)
    if processors is not None and isinstance(processors.value, int):
        yield "actualCoreCount", processors.value
    spent = next((prop.value for prop in delivered.all_of("CpuDuration")), None)
    if isinstance(spent, int):
        yield "cpuConsumptionTime", spent
    elif (estimate := _estimated_cpu_s(delivered, processors)) is not None:
        yield "cpuConsumptionTime", estimate
        notes.append("cpuConsumptionTime estimated as consumptionRate x processors x wall time")


def _estimated_cpu_s(delivered: Block, processors: Property | None) -> int | None:
    wall_s = inheritance.wall_s_in(delivered)
    rate = None if processors is None else processors.attributes.get("consumptionRate")
    if processors is None or rate is None or wall_s is None or not isinstance(processors.value, int):
        return None
    return math.floor(float(rate) * processors.value * wall_s + 0.5)


def _outcome(job: JobLevel) -> Iterator[tuple[str, ColumnValue]]:
    code, message = exit_code_of(job), job.text("StatusMessage")
    if code is not None:
        yield "transExitCode", str(code)
    if message is not None and code:
        yield "supErrorDiag", _fitting("StatusMessage", message, 250)
    if job.get("Restartable") is not None:
        yield "maxAttempt", 3 if job.get("Restartable") else 1


def _hosts(job: JobLevel, group: JobLevel | None, notes: list[str]) -> Iterator[tuple[str, ColumnValue]]:
    nodes = [str(one.value) for level in job.walk() for one in level.all_of("Node") if one.value is not None]
    if not nodes:
        return
    if len(set(nodes)) > 1:
        count = len(group.of_level("Task")) if group is not None else len(nodes)
        notes.append(
            f"{count} tasks on {len(set(nodes))} nodes do not fit modificationHost (one host): first node is written, "
            "all are kept in the side table"
        )
    if job.text("JobState") == "Running":
        yield "modificationHost", _fitting("Node", nodes[0], 128)


def _extensions(job: JobLevel) -> Iterator[tuple[str, ColumnValue]]:
    for name, (column, width) in EXTENSION_COLUMNS.items():
        text = job.extension(name)
        if text is None:
            continue
        if width:
            yield column, _fitting(name, text, width)
        elif text.lstrip("-").isdigit() and len(text) <= 18:
            yield column, int(text)
        else:
            raise _RefusedError("not-a-number", f"Extension {name} holds {text[:40]!r}")


def unplaced_in(block: Block | None, columns: AbstractSet[tuple[str, str]]) -> tuple[str, ...]:
    """Names of what a block holds that no column takes."""
    if block is None:
        return ()
    names = [prop.name for prop in block.properties if (prop.name, prop.attributes.get("metric", "")) not in columns]
    names += ["NodeProperties"] if block.nodes else []
    return (*names, *(element.name for element in block.unknown))


def _unmapped(job: JobLevel) -> tuple[str, ...]:
    """Elements and attributes without a column, in the order of the document."""
    placed = _PLACED_ELSEWHERE | ({"StatusMessage"} if exit_code_of(job) else set())
    names = ["awarenessPolicy"] if job.policy is not None else []
    names += [prop.name for prop in job.properties if prop.name not in placed]
    names += [
        f"Extension {prop.attributes.get('name', '')}"
        for prop in job.all_of("Extension")
        if prop.attributes.get("name") not in {*EXTENSION_COLUMNS, STATUS_EXTENSION}
    ]
    names += ["NodeProperties"] if job.nodes else []
    names += ["Environment"] if job.environment else []
    names += [element.name for element in job.unknown]
    names += [*unplaced_in(requested_of(job), REQUESTED_COLUMNS), *unplaced_in(delivered_of(job), DELIVERED_COLUMNS)]
    for group in job.of_level("TaskGroup"):
        names += [prop.name for prop in group.properties if prop.name not in TEXT_COLUMNS]
        names += ["NodeProperties"] if group.nodes or (group.requested is not None and group.requested.nodes) else []
        names += ["Delivered"] if group.delivered is not None and delivered_of(job) is not group.delivered else []
        names += [element.name for element in group.unknown]
        names += ["Task"] if group.of_level("Task") else []
    return (*dict.fromkeys(names), *dict.fromkeys(_unread_attributes(job)))


def _unread_attributes(job: JobLevel) -> Iterator[str]:
    """Attributes that nothing here reads, as ``Element@attribute``."""
    for level in job.walk():
        blocks = [block.properties for block in (level.requested, level.delivered) if block is not None]
        for one in (one for properties in (level.properties, *blocks) for one in properties):
            yield from (f"{one.name}@{name}" for name in one.attributes if name not in _READ_ATTRIBUTES)
