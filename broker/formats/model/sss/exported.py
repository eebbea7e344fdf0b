"""Jobs and tasks as SSS Job Objects: those that were imported as they came, with what has changed since. Pure.

Source: Scalable Systems Software Job Object Specification 3.0.3; PanDA data model, jobs and tasks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from broker.formats.model.sss import from_panda, inheritance
from broker.formats.model.sss.from_panda import Row
from broker.formats.model.sss.job_columns import STATUS_EXTENSION
from broker.formats.model.sss.kept import KeptRow, elements_of
from broker.formats.model.sss.model import Document
from broker.formats.model.sss.reading import document_of
from broker.formats.model.sss.renewal import Renewal, renewed
from broker.formats.model.sss.writing import write_document
from broker.formats.model.sss.xml_reading import Element, read_xml


@dataclass(frozen=True)
class Record:
    """What is known of the document that a row came from.

    Attributes:
        kept: the element as it came, or of an import before there was ``written`` only what has no column.
        written: what the row said when it was imported; empty for such an import.
        job_id: of the job in its document.
        first_part: for a job that several rows stand for, one for each task group, the id of the first of them.
    """

    kept: Sequence[KeptRow] = ()
    written: Sequence[KeptRow] = ()
    job_id: str = ""
    first_part: int | None = None


@dataclass(frozen=True)
class Naming:
    """How an export names things: by this installation (with its name, for global identifiers), or as they came."""

    instance: str = ""
    original: bool = False


def job_export(jobs: Sequence[tuple[Row, Record]], group: Record, naming: Naming) -> Element:
    """A job as a document of its own, with what it inherits.

    Args:
        jobs: its row with its record, or those of all its parts.
        group: of the job group that it came in; without rows for none.
        naming: of jobs.
    """
    defaults = _defaults(_came(group, "JobGroup"))
    (job,) = _jobs(jobs, defaults, naming)
    if defaults is None or _came(jobs[0][1], "Job") is None:
        return job
    together = document_of(Element("JobGroup", 0, children=(_leaf("JobGroupId", "-"), defaults, job)))
    merged = inheritance.merge(together.root.of_level("JobDefaults")[0], together.jobs[0])
    return read_xml(write_document(Document(merged)))


def task_export(task: Row, group: Record, jobs: Sequence[tuple[Row, Record]], naming: Naming) -> Element:
    """A task with its jobs as a job group.

    Raises:
        ValueError: the task has no jobs, and a group without jobs is none.
    """
    if not jobs:
        raise ValueError("a task without jobs is no job group")
    now = from_panda.task_element(task)
    came = _came(group, "JobGroup")
    if came is not None:
        (then,) = elements_of(group.written)
        now = renewed(came, then, now, Renewal(own=not naming.original))
    defaults = _defaults(now)
    return dataclasses.replace(now, children=(*now.children, *_jobs(jobs, defaults, naming)))


def _jobs(jobs: Sequence[tuple[Row, Record]], defaults: Element | None, naming: Naming) -> list[Element]:
    """One element for each job of the document, whatever the number of rows that it is."""
    parts: dict[int, list[Element]] = {}
    for row, record in jobs:
        first = int(row["pandaid"]) if record.first_part is None else record.first_part
        parts.setdefault(first, []).append(_job(row, record, defaults, naming))
    return [_joined(some) for some in parts.values()]


def _came(record: Record, name: str) -> Element | None:
    """The whole element as it came, ``None`` where only parts of it were kept."""
    if not record.written:
        return None
    elements = elements_of(record.kept)
    return elements[0] if len(elements) == 1 and elements[0].name == name else None


def _defaults(group: Element | None) -> Element | None:
    return None if group is None else next((one for one in group.children if one.name == "JobDefaults"), None)


def _job(row: Row, record: Record, defaults: Element | None, naming: Naming) -> Element:
    came = _came(record, "Job")
    instance = "" if naming.original else naming.instance
    if came is None:
        return from_panda.job_element(row, record.kept if not record.written else (), instance)
    (then,) = elements_of(record.written)
    inherited = frozenset(one.name for one in defaults.children) if defaults is not None else frozenset()
    how = Renewal(inherited, own=not naming.original, is_part=record.first_part is not None)
    return renewed(came, then, from_panda.job_element(row, (), instance), how)


def _joined(parts: Sequence[Element]) -> Element:
    """The job that its parts were made of: that of the first, with the task groups of all."""
    first = parts[0]
    groups = tuple(child for part in parts[1:] for child in part.children if child.name == "TaskGroup")
    states = {child.text for part in parts for child in part.children if child.name == "JobState"}
    children = (*first.children, *groups)
    if len(states) > 1:  # as long as one of its parts is there, the job has begun and is not over
        of_one = ("JobState", "ExitCode")
        rest = (
            child for child in children if child.name not in of_one and child.attributes.get("name") != STATUS_EXTENSION
        )
        children = (_leaf("JobState", "Running" if states & {"Running", "Completed"} else "Idle"), *rest)
    return dataclasses.replace(first, children=children)


def _leaf(name: str, text: str) -> Element:
    return Element(name, 0, text)
