"""Jobs and tasks as SSS Job Objects: imported ones as they came, with what has changed in PanDA's tables since. Pure.

What was imported is written back as it came. An element is replaced only if the columns that it represents have
changed: the row as it was imported is compared, name by name, with the row as it is now. Source: Scalable Systems
Software Job Object Specification 3.0.3; PanDA data model, jobs and tasks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from broker.formats.model.sss import from_panda, inheritance
from broker.formats.model.sss.from_panda import ElementRow, Row, elements_of
from broker.formats.model.sss.job_columns import STATUS_EXTENSION
from broker.formats.model.sss.model import Document
from broker.formats.model.sss.reading import document_of
from broker.formats.model.sss.writing import write_document
from broker.formats.model.sss.xml_reading import Element, read_xml

BLOCKS = frozenset({"Requested", "Delivered", "JobDefaults"})
"""Elements that are compared by their contents."""

Key: TypeAlias = tuple[str, str]
"""The name of an element, and which one: the name of an extension, or in a block the name of the element inside."""

JOB_STATUS: Key = ("Extension", "PandaJobStatus")
TASK_STATUS: Key = ("Extension", "PandaTaskStatus")
OWN_KEYS: tuple[Key, ...] = (
    ("JobId", ""), ("GlobalJobId", ""), ("JobGroupId", ""), JOB_STATUS, TASK_STATUS, ("Extension", "JediTaskID"),
)  # fmt: skip
"""This installation's identifiers of a job or task, and its exact status: written whether they changed or not."""

#: The few SSS states follow the exact status, which may change while they stay the same.
_FOLLOWS: dict[Key, Key] = {JOB_STATUS: ("JobState", ""), TASK_STATUS: ("JobGroupState", "")}

#: Elements that say the same as another.
_ALSO: dict[Key, tuple[Key, ...]] = {("ExitCode", ""): (("CompletionCode", ""),)}


@dataclass(frozen=True)
class Renewal:
    """How changes are written.

    Attributes:
        inherited: names that the element inherits from defaults unless it says otherwise.
        own: write this installation's identifiers and exact status; else the imported ones.
        is_part: the row is one task group of its job, so that changes are written into this group.
    """

    inherited: Collection[str] = ()
    own: bool = True
    is_part: bool = False


def renewed(came: Element, then: Element, now: Element, how: Renewal) -> Element:
    """The element ``came`` with what has changed from ``then`` to ``now``.

    Args:
        came: a job or job group as it was imported.
        then: its row when it was imported.
        now: its row now.
        how: where and under which names changes are written.
    """
    before, after = _by_key(then), _by_key(now)
    changed = {key for key in {*before, *after} if _contents(before.get(key, ())) != _contents(after.get(key, ()))}
    changed |= {follows for key, follows in _FOLLOWS.items() if key in changed}
    if how.own:
        changed |= {key for key in OWN_KEYS if key in after}
    for key in (key for key in dict.fromkeys((*before, *after)) if key in changed):
        new = after.get(key, ())
        if how.is_part and key not in {*OWN_KEYS, *_FOLLOWS.values()}:
            groups = (_replaced(child, key, new, ()) if child.name == "TaskGroup" else child for child in came.children)
            came = dataclasses.replace(came, children=tuple(groups))
        else:
            came = _replaced(came, key, new, how.inherited)
    return came


def _by_key(element: Element) -> dict[Key, list[Element]]:
    by_key: dict[Key, list[Element]] = {}
    for child in element.children:
        if child.name in BLOCKS:
            for inner in child.children:
                by_key.setdefault((child.name, inner.name), []).append(inner)
        else:
            by_key.setdefault(_key(child), []).append(child)
    return by_key


def _key(child: Element) -> Key:
    return child.name, child.attributes.get("name", "") if child.name == "Extension" else ""


def _contents(elements: Sequence[Element]) -> list[object]:
    return [
        (element.name, element.text.strip(), sorted(element.attributes.items()), _contents(element.children))
        for element in elements
    ]


def _replaced(came: Element, key: Key, new: Sequence[Element], inherited: Collection[str]) -> Element:
    """The element with others in place of those that a key names, wherever they are in it."""
    name = key[0]
    rest = _without(came, key)
    if name in BLOCKS:
        if not new:
            return rest
        block = next((child for child in rest.children if child.name == name), Element(name, 0))
        renewed_block = dataclasses.replace(block, children=(*block.children, *new))
        others = tuple(child for child in rest.children if child.name != name)
        return dataclasses.replace(rest, children=(*others, renewed_block))
    if not new and name in inherited:
        new = (Element(name, 0),)  # an empty element removes an inherited value
    return dataclasses.replace(rest, children=(*new, *rest.children))


def _without(element: Element, key: Key) -> Element:
    """The element without what a key names, in its blocks and outside them, and in its task groups."""
    name, inside = key
    names = {key, *(_ALSO.get(key, ()))}
    if name in ("Requested", "Delivered"):
        names.add((inside, ""))  # outside the blocks it would be one of the two
    children = []
    for child in element.children:
        if _key(child) in names and child.name not in BLOCKS:
            continue
        if child.name == name and name in BLOCKS:
            rest = tuple(one for one in child.children if one.name != inside)
            if rest:
                children.append(dataclasses.replace(child, children=rest))
            continue
        children.append(_without(child, key) if child.name == "TaskGroup" else child)
    return dataclasses.replace(element, children=tuple(children))


@dataclass(frozen=True)
class Record:
    """What is known about the document that a row came from.

    Attributes:
        document_rows: the element as it came; for an import from before ``written`` existed, only what has no column.
        written: the row as it was imported; empty for such an import.
        job_id: the identifier of the job in its document.
        first_part: for a job with several rows, one for each task group, the id of the first of them.
    """

    document_rows: Sequence[ElementRow] = ()
    written: Sequence[ElementRow] = ()
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
        group: the record of the job group that it came in; without rows if there was none.
        naming: how jobs are named.
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
    """One element for each job of the document, however many rows it has."""
    parts: dict[int, list[Element]] = {}
    for row, record in jobs:
        first = int(row["pandaid"]) if record.first_part is None else record.first_part
        parts.setdefault(first, []).append(_job(row, record, defaults, naming))
    return [_joined(group) for group in parts.values()]


def _came(record: Record, name: str) -> Element | None:
    """The whole element as it came, ``None`` if only parts of it were kept."""
    if not record.written:
        return None
    elements = elements_of(record.document_rows)
    return elements[0] if len(elements) == 1 and elements[0].name == name else None


def _defaults(group: Element | None) -> Element | None:
    return None if group is None else next((child for child in group.children if child.name == "JobDefaults"), None)


def _job(row: Row, record: Record, defaults: Element | None, naming: Naming) -> Element:
    came = _came(record, "Job")
    instance = "" if naming.original else naming.instance
    if came is None:
        return from_panda.job_element(row, record.document_rows if not record.written else (), instance)
    (then,) = elements_of(record.written)
    inherited = frozenset(child.name for child in defaults.children) if defaults is not None else frozenset()
    how = Renewal(inherited, own=not naming.original, is_part=record.first_part is not None)
    return renewed(came, then, from_panda.job_element(row, (), instance), how)


def _joined(parts: Sequence[Element]) -> Element:
    """The job that its parts were made from: that of the first, with the task groups of all."""
    first = parts[0]
    groups = tuple(child for part in parts[1:] for child in part.children if child.name == "TaskGroup")
    states = {child.text for part in parts for child in part.children if child.name == "JobState"}
    children = (*first.children, *groups)
    if len(states) > 1:  # while its parts differ, the job has begun if one of them has, and is not over
        replaced = ("JobState", "ExitCode")
        rest = (
            child
            for child in children
            if child.name not in replaced and child.attributes.get("name") != STATUS_EXTENSION
        )
        children = (_leaf("JobState", "Running" if states & {"Running", "Completed"} else "Idle"), *rest)
    return dataclasses.replace(first, children=children)


def _leaf(name: str, text: str) -> Element:
    return Element(name, 0, text)
