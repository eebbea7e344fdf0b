"""What a document says and PanDA's columns cannot hold, as rows: kept beside the job and put back when it is written.

A row is a path with positions (``TaskGroup[1]/Task[2]/Node[1]``), the attributes, and the text.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from broker.formats.model.sss.job_columns import (
    DELIVERED_COLUMNS,
    EXTENSION_COLUMNS,
    REQUESTED_COLUMNS,
    STATUS_EXTENSION,
    unplaced_in,
)
from broker.formats.model.sss.model import Document, JobLevel
from broker.formats.model.sss.requests import Request
from broker.formats.model.sss.writing import write_document
from broker.formats.model.sss.xml_reading import Element, read_xml

_STEP = re.compile(r"([^\[\]/]{1,200})\[([1-9][0-9]{0,5})\]")


@dataclass(frozen=True)
class KeptRow:
    """One element without its children."""

    path: str
    attributes: dict[str, str]
    text: str


def kept_rows(job: JobLevel, unmapped: Sequence[str], request: Request) -> tuple[KeptRow, ...]:
    """The rows of a job: what has no column, its task groups, and blocks that hold more than columns can.

    Args:
        job: with all that it inherits.
        unmapped: names of elements without a column.
        request: what it asks for.
    """
    names = set(unmapped) | {"TaskGroup", "TaskGroupDefaults", "Environment", "NodeProperties"}
    names |= {"Extension"} if any(name.startswith("Extension ") for name in unmapped) else set()
    if request.is_fuzzy or unplaced_in(job.requested, REQUESTED_COLUMNS):
        names.add("Requested")
    if unplaced_in(job.delivered, DELIVERED_COLUMNS):
        names.add("Delivered")
    root = read_xml(write_document(Document(dataclasses.replace(job, policy=None))))
    return tuple(_flat([child for child in root.children if child.name in names and not _has_column(child)], ""))


def rows_of(element: Element) -> tuple[KeptRow, ...]:
    """An element with all that stands in it, as rows."""
    return tuple(_flat([element], ""))


def without_jobs(group: Element) -> Element:
    """A job group without its jobs, which are kept with their rows; references to jobs stay."""
    return dataclasses.replace(group, children=tuple(one for one in group.children if not _is_job(one)))


def with_task_group(job: Element, number: int) -> Element:
    """A job with the one of its task groups that is counted so, from 0."""
    groups = [child for child in job.children if child.name == "TaskGroup"]
    kept = tuple(child for child in job.children if child.name != "TaskGroup" or child is groups[number])
    return dataclasses.replace(job, children=kept)


def _is_job(element: Element) -> bool:
    return element.name == "Job" and bool(element.children)


def _has_column(element: Element) -> bool:
    """Whether an extension is one of those that travel in columns."""
    return element.name == "Extension" and element.attributes.get("name") in {*EXTENSION_COLUMNS, STATUS_EXTENSION}


def _flat(elements: Sequence[Element], above: str) -> Iterator[KeptRow]:
    seen: dict[str, int] = {}
    for element in elements:
        seen[element.name] = seen.get(element.name, 0) + 1
        path = f"{above}{element.name}[{seen[element.name]}]"
        yield KeptRow(path, dict(element.attributes), "" if element.children else element.text)
        yield from _flat(element.children, f"{path}/")


def elements_of(rows: Sequence[KeptRow]) -> tuple[Element, ...]:
    """The elements that rows stand for; rows must come with their parents before them.

    Raises:
        ValueError: a path is none, or its parent is missing.
    """
    inside: dict[str, list[tuple[str, KeptRow]]] = {}
    known = {""}
    for row in rows:
        above, _, last = row.path.rpartition("/")
        if not _STEP.fullmatch(last) or above not in known:
            raise ValueError(f"not a kept path: {row.path[:100]}")
        known.add(row.path)
        inside.setdefault(above, []).append((row.path, row))

    def made(path: str, row: KeptRow) -> Element:
        name = row.path.rpartition("/")[2].rpartition("[")[0]
        children = tuple(made(*one) for one in inside.get(path, []))
        return Element(name, 0, row.text, dict(row.attributes), children)

    return tuple(made(*one) for one in inside.get("", []))
