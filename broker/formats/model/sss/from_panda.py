"""Rows of PanDA's tables as an SSS Job Object: a task is a job group, its jobs are the jobs.

What the few states and elements of the SSS Job Object cannot express is put into extensions, so that our own import
reads the same row back. What PanDA's columns cannot hold of a document is kept as rows alongside the job, and put back
when the job is written: a row is a path with positions (``TaskGroup[1]/Task[2]/Node[1]``), the attributes, and the
text. Source: Scalable Systems Software Job Object Specification 3.0.3; PanDA data model, jobs and tasks.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from broker.domain.instants import aware
from broker.formats.model.sss.job_columns import (
    DELIVERED_COLUMNS,
    EXTENSION_COLUMNS,
    REQUESTED_COLUMNS,
    STATUS_EXTENSION,
    TEXT_COLUMNS,
    TIME_COLUMNS,
    unplaced_in,
)
from broker.formats.model.sss.model import Document, JobLevel
from broker.formats.model.sss.reading import document_of
from broker.formats.model.sss.requests import Request
from broker.formats.model.sss.states import group_state_of, job_state_of
from broker.formats.model.sss.task_columns import TIMES
from broker.formats.model.sss.writing import clean, write_document
from broker.formats.model.sss.xml_reading import Element, read_xml

_STEP = re.compile(r"([^\[\]/]{1,200})\[([1-9][0-9]{0,5})\]")


@dataclass(frozen=True)
class ElementRow:
    """One element without its children."""

    path: str
    attributes: dict[str, str]
    text: str


def unmapped_rows(job: JobLevel, unmapped: Sequence[str], request: Request) -> tuple[ElementRow, ...]:
    """The rows of a job: what has no column, its task groups, and blocks that hold more than columns can.

    Args:
        job: the job with all that it inherits.
        unmapped: names of elements without a column.
        request: what it requests.
    """
    names = set(unmapped) | {"TaskGroup", "TaskGroupDefaults", "Environment", "NodeProperties"}
    names |= {"Extension"} if any(name.startswith("Extension ") for name in unmapped) else set()
    if request.is_fuzzy or unplaced_in(job.requested, REQUESTED_COLUMNS):
        names.add("Requested")
    if unplaced_in(job.delivered, DELIVERED_COLUMNS):
        names.add("Delivered")
    root = read_xml(write_document(Document(dataclasses.replace(job, policy=None))))
    return tuple(_flat([child for child in root.children if child.name in names and not _has_column(child)], ""))


def rows_of(element: Element) -> tuple[ElementRow, ...]:
    """An element with all its contents, as rows."""
    return tuple(_flat([element], ""))


def without_jobs(group: Element) -> Element:
    """A job group without its jobs, which are kept with their own rows; references to jobs stay."""
    return dataclasses.replace(group, children=tuple(child for child in group.children if not _is_job(child)))


def with_task_group(job: Element, number: int) -> Element:
    """A job with only the task group of this number, counted from 0."""
    groups = [child for child in job.children if child.name == "TaskGroup"]
    children = tuple(child for child in job.children if child.name != "TaskGroup" or child is groups[number])
    return dataclasses.replace(job, children=children)


def _is_job(element: Element) -> bool:
    return element.name == "Job" and bool(element.children)


def _has_column(element: Element) -> bool:
    """Whether an extension is one of those that are stored in columns."""
    return element.name == "Extension" and element.attributes.get("name") in {*EXTENSION_COLUMNS, STATUS_EXTENSION}


def _flat(elements: Sequence[Element], above: str) -> Iterator[ElementRow]:
    seen: dict[str, int] = {}
    for element in elements:
        seen[element.name] = seen.get(element.name, 0) + 1
        path = f"{above}{element.name}[{seen[element.name]}]"
        yield ElementRow(path, dict(element.attributes), "" if element.children else element.text)
        yield from _flat(element.children, f"{path}/")


def elements_of(rows: Sequence[ElementRow]) -> tuple[Element, ...]:
    """The elements that rows represent; each row must come after its parent.

    Raises:
        ValueError: a path is invalid, or its parent is missing.
    """
    inside: dict[str, list[tuple[str, ElementRow]]] = {}
    known = {""}
    for row in rows:
        above, _, last = row.path.rpartition("/")
        if not _STEP.fullmatch(last) or above not in known:
            raise ValueError(f"not a kept path: {row.path[:100]}")
        known.add(row.path)
        inside.setdefault(above, []).append((row.path, row))

    def build(path: str, row: ElementRow) -> Element:
        name = row.path.rpartition("/")[2].rpartition("[")[0]
        children = tuple(build(*one) for one in inside.get(path, []))
        return Element(name, 0, row.text, dict(row.attributes), children)

    return tuple(build(*one) for one in inside.get("", []))


Row = Mapping[str, Any]
"""A row by column name in lower case, as the database returns it."""

DIAGNOSTICS = (
    "piloterrordiag", "exeerrordiag", "superrordiag", "ddmerrordiag", "brokerageerrordiag", "jobdispatchererrordiag",
    "taskbuffererrordiag",
)  # fmt: skip
_TASK_TEXTS = {
    "UserId": "username", "ProjectId": "workinggroup", "QualityOfService": "gshare", "Executable": "transpath",
    "Architecture": "architecture", "Queue": "site",
}  # fmt: skip
#: PanDA's way of writing that a time is not set.
_UNSET_YEAR = 1970
_DISK_MB = {"MB": 1, "GB": 1024}


def job_document(row: Row, element_rows: Sequence[ElementRow] = (), instance: str = "") -> Document:
    """A job as a document of its own.

    Args:
        row: a row of one of the job tables.
        element_rows: the stored rows of the document that it was imported from.
        instance: name of this installation, for the global identifier.
    """
    return document_of(job_element(row, element_rows, instance))


def task_document(task: Row, jobs: Sequence[tuple[Row, Sequence[ElementRow]]], instance: str = "") -> Document:
    """A task with its jobs as a job group.

    Raises:
        ValueError: the task has no jobs, and a group without jobs is none.
    """
    if not jobs:
        raise ValueError("a task without jobs is no job group")
    group = task_element(task)
    return document_of(
        replace(
            group, children=(*group.children, *(job_element(row, element_rows, instance) for row, element_rows in jobs))
        )
    )


def task_element(task: Row) -> Element:
    """A task as a job group without its jobs."""
    parts = [_leaf("JobGroupId", task["jeditaskid"]), _leaf("JobGroupState", group_state_of(task.get("status")))]
    parts += _leaves({"JobGroupName": task.get("taskname"), "StatusMessage": task.get("errordialog")})
    parts += [_leaf("Extension", task["status"], name="PandaTaskStatus")] if task.get("status") else []
    parts += list(_times(task, {name: column for name, column in TIMES.items() if name != "DeadlineTime"}))
    defaults = list(_leaves({name: task.get(column) for name, column in _TASK_TEXTS.items()}))
    if task.get("taskpriority") is not None:
        defaults.append(_leaf("Priority", task["taskpriority"]))
    defaults += list(_times(task, {"DeadlineTime": TIMES["DeadlineTime"]}))
    if defaults:
        parts.append(Element("JobDefaults", 0, children=tuple(defaults)))
    return Element("JobGroup", 0, children=tuple(parts))


def _leaf(name: str, value: object, /, **attributes: str) -> Element:
    return Element(name, 0, clean(str(value)), attributes)


def _leaves(values: Mapping[str, object]) -> Iterator[Element]:
    for name, value in values.items():
        if value is not None and str(value).strip():
            yield _leaf(name, value)


def job_element(row: Row, element_rows: Sequence[ElementRow] = (), instance: str = "") -> Element:
    """A job as an element, with the stored rows of the document that it came from.

    These rows replace what the columns would say under the same name.
    """
    extras = elements_of(element_rows)
    replaced = {element.name for element in extras if element.name != "Extension"}
    parts = [_leaf("JobId", row["pandaid"])]
    if instance:
        parts.append(_leaf("GlobalJobId", f"panda://{instance}/{row['pandaid']}"))
    parts.append(_leaf("JobState", job_state_of(row.get("jobstatus"))))
    columns = {name: column for name, (column, _) in TEXT_COLUMNS.items()}
    parts += _leaves({name: row.get(column.lower()) for name, column in columns.items()})
    parts += _leaves({"Priority": row.get("currentpriority"), "StatusMessage": _diagnostic(row)})
    parts += _times(row, TIME_COLUMNS)
    if row.get("attemptnr"):
        parts.append(_leaf("StartCount", row["attemptnr"]))
    if row.get("maxattempt"):
        parts.append(_leaf("Restartable", "true" if row["maxattempt"] > 1 else "false"))
    code = str(row.get("transexitcode") or row.get("exeerrorcode") or "").strip()
    if job_state_of(row.get("jobstatus")) == "Completed" and code.lstrip("-").isdigit():
        parts.append(_leaf("ExitCode", int(code)))
    parts += _block("Requested", _requested(row))
    parts += _block("Delivered", _delivered(row))
    parts += _extensions(row)
    return Element("Job", 0, children=(*(part for part in parts if part.name not in replaced), *extras))


def _diagnostic(row: Row) -> str | None:
    return next((str(row[name]) for name in DIAGNOSTICS if row.get(name)), None)


def _times(row: Row, names: Mapping[str, str]) -> Iterator[Element]:
    for name, column in names.items():
        time = row.get(column.lower())
        if isinstance(time, datetime) and time.year != _UNSET_YEAR:
            yield _leaf(name, int(aware(time).timestamp()))


def _block(name: str, parts: Iterator[Element]) -> list[Element]:
    children = tuple(parts)
    return [Element(name, 0, children=children)] if children else []


def _requested(row: Row) -> Iterator[Element]:
    if row.get("corecount"):
        yield _leaf("Processors", row["corecount"], op="EQ")
    if row.get("minramcount"):
        yield _leaf("Memory", row["minramcount"], op="GE", units="MB")
    factor = _DISK_MB.get(str(row.get("maxdiskunit") or "MB").strip())
    if row.get("maxdiskcount") and factor is not None:
        yield _leaf("Disk", int(row["maxdiskcount"]) * factor, op="GE", units="MB")
    if row.get("maxwalltime"):
        yield _leaf("WallDuration", row["maxwalltime"])
    if row.get("maxcpucount"):
        yield _leaf("CpuDuration", row["maxcpucount"])


def _delivered(row: Row) -> Iterator[Element]:
    start, end, cores = row.get("starttime"), row.get("endtime"), row.get("actualcorecount")
    spent = row.get("cpuconsumptiontime")
    wall_s = int((end - start).total_seconds()) if isinstance(start, datetime) and isinstance(end, datetime) else 0
    if cores:
        attributes = {}
        if spent and wall_s > 0:
            attributes["consumptionRate"] = f"{float(spent) / (wall_s * int(cores)):.2f}"
        yield _leaf("Processors", cores, **attributes)
    for name, metric, column in (
        ("Memory", "Maximum", "maxrss"),
        ("Memory", "Average", "avgrss"),
        ("Swap", "Maximum", "maxswap"),
        ("Swap", "Average", "avgswap"),
    ):
        if row.get(column):
            yield _leaf(name, row[column], metric=metric, units="KB")
    if wall_s > 0:
        yield _leaf("WallDuration", wall_s)
    if spent:
        yield _leaf("CpuDuration", int(spent))


def _extensions(row: Row) -> Iterator[Element]:
    if row.get("jobstatus"):
        yield _leaf("Extension", row["jobstatus"], name=STATUS_EXTENSION)
    for name, (column, width) in EXTENSION_COLUMNS.items():
        value = row.get(column.lower())
        if value is not None and str(value).strip():
            yield _leaf("Extension", value, name=name, **({} if width else {"type": "Integer"}))
