"""Jobs and tasks as SSS Job Objects: those that were imported as they came, with what has changed since. Pure.

Source: Scalable Systems Software Job Object Specification 3.0.3; PanDA data model, jobs and tasks.

An imported element with what has changed in PanDA's tables since. Pure.

What came is written back as it came. An element gives way only where the columns that it stands for have changed: what
the row said when it was imported is compared, name by name, with what it says now.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from broker.formats.model.sss import from_panda, inheritance
from broker.formats.model.sss.from_panda import KeptRow, Row, elements_of
from broker.formats.model.sss.job_columns import STATUS_EXTENSION
from broker.formats.model.sss.model import Document
from broker.formats.model.sss.reading import document_of
from broker.formats.model.sss.writing import write_document
from broker.formats.model.sss.xml_reading import Element, read_xml

BLOCKS = frozenset({"Requested", "Delivered", "JobDefaults"})
"""Elements that are compared by what stands in them."""

Key: TypeAlias = tuple[str, str]
"""The name of an element, and which: of an extension its name, in a block the name of the element inside."""

JOB_STATUS: Key = ("Extension", "PandaJobStatus")
TASK_STATUS: Key = ("Extension", "PandaTaskStatus")
OWN_KEYS: tuple[Key, ...] = (
    ("JobId", ""), ("GlobalJobId", ""), ("JobGroupId", ""), JOB_STATUS, TASK_STATUS, ("Extension", "JediTaskID"),
)  # fmt: skip
"""What this installation calls a job or task, and its exact status: written whether it changed or not."""

#: The few states follow the exact status, which may change while they stay.
_FOLLOWS: dict[Key, Key] = {JOB_STATUS: ("JobState", ""), TASK_STATUS: ("JobGroupState", "")}

#: Elements that say the same as another.
_ALSO: dict[Key, tuple[Key, ...]] = {("ExitCode", ""): (("CompletionCode", ""),)}


@dataclass(frozen=True)
class Renewal:
    """How changes are written.

    Attributes:
        inherited: names that the element gets from defaults unless it says otherwise.
        own: write this installation's identifiers and exact status; else those that came.
        is_part: the row is one task group of its job, so that what changed is said of this group.
    """

    inherited: Collection[str] = ()
    own: bool = True
    is_part: bool = False


def renewed(came: Element, then: Element, now: Element, how: Renewal) -> Element:
    """The element ``came`` with what has changed from ``then`` to ``now``.

    Args:
        came: a job or job group as it was imported.
        then: what its row said when it was imported.
        now: what it says now.
        how: where and under which names.
    """
    before, after = _by_key(then), _by_key(now)
    changed = {key for key in {*before, *after} if _contents(before.get(key, ())) != _contents(after.get(key, ()))}
    changed |= {follows for key, follows in _FOLLOWS.items() if key in changed}
    if how.own:
        changed |= {key for key in OWN_KEYS if key in after}
    for key in (key for key in dict.fromkeys((*before, *after)) if key in changed):
        new = after.get(key, ())
        if how.is_part and key not in {*OWN_KEYS, *_FOLLOWS.values()}:
            groups = (_replaced(one, key, new, ()) if one.name == "TaskGroup" else one for one in came.children)
            came = dataclasses.replace(came, children=tuple(groups))
        else:
            came = _replaced(came, key, new, how.inherited)
    return came


def _by_key(element: Element) -> dict[Key, list[Element]]:
    found: dict[Key, list[Element]] = {}
    for child in element.children:
        if child.name in BLOCKS:
            for inner in child.children:
                found.setdefault((child.name, inner.name), []).append(inner)
        else:
            found.setdefault(_key(child), []).append(child)
    return found


def _key(child: Element) -> Key:
    return child.name, child.attributes.get("name", "") if child.name == "Extension" else ""


def _contents(elements: Sequence[Element]) -> list[object]:
    return [(one.name, one.text.strip(), sorted(one.attributes.items()), _contents(one.children)) for one in elements]


def _replaced(came: Element, key: Key, new: Sequence[Element], inherited: Collection[str]) -> Element:
    """The element with others in place of those that a key names, wherever they stand in it."""
    name = key[0]
    rest = _without(came, key)
    if name in BLOCKS:
        if not new:
            return rest
        block = next((child for child in rest.children if child.name == name), Element(name, 0))
        made = dataclasses.replace(block, children=(*block.children, *new))
        others = tuple(child for child in rest.children if child.name != name)
        return dataclasses.replace(rest, children=(*others, made))
    if not new and name in inherited:
        new = (Element(name, 0),)  # an empty element takes an inherited value away
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
            kept = tuple(one for one in child.children if one.name != inside)
            if kept:
                children.append(dataclasses.replace(child, children=kept))
            continue
        children.append(_without(child, key) if child.name == "TaskGroup" else child)
    return dataclasses.replace(element, children=tuple(children))


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
    """One element for each job of the document, however many rows it has."""
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
