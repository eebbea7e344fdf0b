"""A job object as typed values: levels with properties, conditions, environment and children.

Source: Scalable Systems Software Job Object Specification 3.0.3, structure and properties.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from broker.formats.model.sss import vocabulary
from broker.formats.model.sss.xml_reading import Element

Value: TypeAlias = int | float | str | bool | None
"""``None``: the element is there and empty, which removes an inherited value."""


@dataclass(frozen=True)
class Property:
    """An element with a value: its attributes in canonical spelling, the line it stands on, its text as it came."""

    name: str
    value: Value
    attributes: Mapping[str, str] = field(default_factory=dict)
    line: int = 0
    raw: str = field(default="", compare=False, repr=False)

    @property
    def key(self) -> tuple[str, str, str]:
        """What it is about: the name, and of an extension or resource also which."""
        if self.name in vocabulary.NAMED:
            return self.name, self.attributes.get("name", ""), self.attributes.get("type", "")
        return self.name, "", ""


@dataclass(frozen=True)
class Block:
    """``Requested`` or ``Delivered``: conditions or facts, and of those what is asked of nodes."""

    properties: tuple[Property, ...] = ()
    nodes: tuple[Property, ...] = ()
    unknown: tuple[Element, ...] = ()

    def all_of(self, name: str) -> tuple[Property, ...]:
        """The properties of one name, in their order."""
        return tuple(one for one in self.properties if one.name == name)


@dataclass(frozen=True)
class JobLevel:
    """One level of the object.

    Attributes:
        level: which.
        line: where it begins.
        reference: identifier, for a level that only points to one; it has nothing else then.
        properties: what stands directly in it, without the blocks.
        requested: the block, ``None`` without one.
        delivered: likewise.
        nodes: conditions on nodes outside the blocks.
        environment: variables by name, ``None`` without any; in order.
        policy: what to do about what is not known, ``None`` where it is not said.
        unknown: elements that are not known, kept as they are.
        children: levels inside, in order.
        source: the element that it was read from, with all that stands in it; ``None`` for a level made otherwise.
    """

    level: vocabulary.Level
    line: int = 0
    reference: str | None = None
    properties: tuple[Property, ...] = ()
    requested: Block | None = None
    delivered: Block | None = None
    nodes: tuple[Property, ...] = ()
    environment: Mapping[str, str] | None = None
    policy: str | None = None
    unknown: tuple[Element, ...] = ()
    children: tuple[JobLevel, ...] = ()
    source: Element | None = field(default=None, compare=False, repr=False)

    def get(self, name: str) -> Value:
        """The value of the first property of this name; ``None`` without one."""
        return next((one.value for one in self.properties if one.name == name), None)

    def text(self, name: str) -> str | None:
        """The same as text."""
        value = self.get(name)
        return None if value is None else str(value)

    def integer(self, name: str) -> int | None:
        """The same as a whole number, ``None`` for another kind of value."""
        value = self.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def has(self, name: str) -> bool:
        """Whether a property of this name stands here."""
        return any(one.name == name for one in self.properties)

    def all_of(self, name: str) -> tuple[Property, ...]:
        """The properties of one name, in their order."""
        return tuple(one for one in self.properties if one.name == name)

    def of_level(self, level: vocabulary.Level) -> tuple[JobLevel, ...]:
        """The children of one kind."""
        return tuple(child for child in self.children if child.level == level)

    def extension(self, name: str) -> str | None:
        """The text of an extension, ``None`` without it."""
        found = (one.value for one in self.all_of("Extension") if one.attributes.get("name") == name)
        value = next(found, None)
        return None if value is None else str(value)

    def walk(self) -> Iterator[JobLevel]:
        """This level and all below."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True)
class Document:
    """A whole document: a job group or a single job, and what was noticed without being wrong."""

    root: JobLevel
    warnings: tuple[str, ...] = ()

    @property
    def group(self) -> JobLevel | None:
        """The job group, ``None`` for a single job."""
        return self.root if self.root.level == "JobGroup" else None

    @property
    def jobs(self) -> tuple[JobLevel, ...]:
        """The jobs as they stand, without what they inherit; references are not among them."""
        if self.root.level == "Job":
            return (self.root,)
        return tuple(job for job in self.root.of_level("Job") if job.reference is None)
