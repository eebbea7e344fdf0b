"""An imported element with what has changed in PanDA's tables since. Pure.

What came is written back as it came. An element gives way only where the columns that it stands for have changed: what
the row said when it was imported is compared, name by name, with what it says now.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from broker.formats.model.sss.xml_reading import Element

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
