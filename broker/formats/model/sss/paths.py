"""Queries a document for single properties, as SSS requests name them: an allow-list of simple paths.

``/JobGroup/Job[JobId='x']/Requested/Memory/@units``: names from the root down, ``//`` for anywhere below, ``*`` for any
name, a position or one equality in brackets, an attribute at the end. Nothing else of XPath is evaluated. Source:
Scalable Systems Software Job Object Specification 3.0.3, queries by modified XPath expressions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from broker.formats.model.sss.xml_reading import Element

MAX_CHARACTERS = 512
MAX_STEPS = 12

_STEP = re.compile(
    r"""(?P<slashes>//?)(?P<name>@?[A-Za-z][A-Za-z0-9]{0,63}|\*)"""
    r"""(?:\[(?:(?P<position>[1-9][0-9]{0,4})|(?P<key>@?[A-Za-z][A-Za-z0-9]{0,63})=(?P<quote>["'])(?P<value>[^"'\[\]]{0,256})(?P=quote))\])?"""
)


class BadPathError(ValueError):
    """A path that is not one of the simple ones."""


@dataclass(frozen=True)
class Step:
    """One step: a name, whether it may be anywhere below, and the condition on the element."""

    name: str
    anywhere: bool
    position: int | None = None
    key: str | None = None
    value: str | None = None


def steps_of(path: str) -> tuple[Step, ...]:
    """The steps of a path; one that does not begin with a slash may begin anywhere.

    Raises:
        BadPathError: it is too long or holds anything but simple steps.
    """
    text = path if path.startswith("/") else f"//{path}"
    if len(text) > MAX_CHARACTERS:
        raise BadPathError(f"longer than {MAX_CHARACTERS} characters")
    steps = []
    position = 0
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None:
            raise BadPathError(f"not a simple path, from {text[position : position + 40]!r}")
        number = match["position"]
        steps.append(
            Step(match["name"], match["slashes"] == "//", int(number) if number else None, match["key"], match["value"])
        )
        position = match.end()
    if not steps or len(steps) > MAX_STEPS or any(step.name.startswith("@") for step in steps[:-1]):
        raise BadPathError(f"1 to {MAX_STEPS} steps, with an attribute at most at the end")
    return tuple(steps)


def get(root: Element, path: str) -> list[str]:
    """The texts of the elements or attributes that a path names, in the order of the document.

    An element with elements inside has no text: it is named by its children.

    Raises:
        BadPathError: see :func:`steps_of`.
    """
    steps = steps_of(path)
    attribute = steps[-1].name[1:] if steps[-1].name.startswith("@") else None
    current = [Element("", 0, children=(root,))]
    for step in steps[: -1 if attribute else None]:
        current = list(_taken(current, step))
    if attribute is not None:
        elements = _below(current) if steps[-1].anywhere else current
        return [element.attributes[attribute] for element in elements if attribute in element.attributes]
    return [element.text.strip() for element in current if not element.children]


def _taken(parents: Sequence[Element], step: Step) -> Iterator[Element]:
    seen: set[int] = set()
    for parent in parents:
        inside = list(_below([parent])) if step.anywhere else list(parent.children)
        matches = [element for element in inside if step.name in ("*", element.name) and _matches(element, step)]
        chosen = matches if step.position is None else matches[step.position - 1 : step.position]
        for element in chosen:
            if id(element) not in seen:
                seen.add(id(element))
                yield element


def _below(parents: Sequence[Element]) -> Iterator[Element]:
    for parent in parents:
        for child in parent.children:
            yield child
            yield from _below([child])


def _matches(element: Element, step: Step) -> bool:
    if step.key is None:
        return True
    if step.key.startswith("@"):
        return element.attributes.get(step.key[1:]) == step.value
    return any(child.name == step.key and child.text.strip() == step.value for child in element.children)
