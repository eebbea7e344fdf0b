"""The SSS Job Object as types: its elements and attributes, and a document as levels with typed values.

The tables say where an element or attribute is allowed, how often, and which values it takes. A :class:`Document` has
levels with properties, conditions, environment and children. Names that only the later edition 3.1.0 has are read as
well, since a reader that knows them loses nothing.

Source: Scalable Systems Software Job Object Specification 3.0.3, structure and properties.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from broker.formats.model.sss.xml_reading import Element

Type = Literal["string", "text", "integer", "float", "boolean", "datetime", "duration"]
"""``text`` is a string that may hold line ends and tabs."""

Level = Literal["JobGroup", "JobDefaults", "Job", "TaskGroupDefaults", "TaskGroup", "TaskDefaults", "Task"]

LEVELS: tuple[Level, ...] = (
    "JobGroup", "JobDefaults", "Job", "TaskGroupDefaults", "TaskGroup", "TaskDefaults", "Task",
)  # fmt: skip
CHILD_LEVELS: dict[str, tuple[Level, ...]] = {
    "JobGroup": ("JobDefaults", "Job"),
    "JobDefaults": ("TaskGroupDefaults", "TaskGroup"),
    "Job": ("TaskGroupDefaults", "TaskGroup"),
    "TaskGroupDefaults": ("TaskDefaults",),
    "TaskGroup": ("TaskDefaults", "Task"),
    "TaskDefaults": (),
    "Task": (),
}
ONCE_LEVELS = frozenset({"JobDefaults", "TaskGroupDefaults", "TaskDefaults"})
IDENTIFIERS: dict[str, str] = {"JobGroup": "JobGroupId", "Job": "JobId"}
"""What a level must have; an element without children of the level's name is a reference to one instead."""

JOB_STATES = ("Idle", "Hold", "Running", "Suspended", "Completed")
GROUP_STATES = ("NotQueued", "Unstarted", "Active", "Completed")
HOLDS = ("User", "System", "Operator")
METRICS = ("Average", "Maximum", "Minimum", "Total")
OPERATORS = ("EQ", "NE", "LT", "GT", "LE", "GE", "Match")
CONJUNCTIONS = ("And", "Or", "AndNot", "OrNot")
POLICIES = ("Reject", "Warn", "Ignore")
CONDITIONS = ("OnSuccess", "OnFailure", "OnExit", "OnStart")
ALIASES: dict[str, dict[str, str]] = {
    "op": {"g": "GT", "l": "LT", "eq": "EQ", "=": "EQ"},
    "metric": {"max": "Maximum", "min": "Minimum", "avg": "Average"},
    "conj": {},
    "awarenessPolicy": {},
    "condition": {},
}
"""Spellings that occur in practice, by attribute and in lower case."""

CHOICES: dict[str, tuple[str, ...]] = {
    "op": OPERATORS,
    "metric": METRICS,
    "conj": CONJUNCTIONS,
    "awarenessPolicy": POLICIES,
    "condition": CONDITIONS,
}

ResourceElements: TypeAlias = frozenset[str]


@dataclass(frozen=True)
class ElementKind:
    """One element with a value.

    Attributes:
        type: the type of its text.
        many: whether it may occur more than once at one level.
        choices: the accepted values; empty for any.
        levels: where it may occur; empty for anywhere.
    """

    type: Type
    many: bool = False
    choices: tuple[str, ...] = ()
    levels: tuple[Level, ...] = ()


def _all(type_: Type, names: str, **changes: object) -> dict[str, ElementKind]:
    return {name: ElementKind(type_, **changes) for name in names.split()}  # type: ignore[arg-type]


_GROUP: tuple[Level, ...] = ("JobGroup",)

KINDS: dict[str, ElementKind] = {
    **_all("string", "JobGroupId JobGroupName CreationTimeZone", levels=_GROUP),
    "JobGroupState": ElementKind("string", choices=GROUP_STATES, levels=_GROUP),
    "CreationTime": ElementKind("datetime", levels=_GROUP),
    "Description": ElementKind("text", levels=_GROUP),
    "JobState": ElementKind("string", choices=JOB_STATES),
    "Hold": ElementKind("string", many=True, choices=HOLDS),
    **_all(
        "string",
        "JobId GlobalJobId JobName JobType UserId GroupId GlobalUserId ProjectId Application Executable "
        "InitialWorkingDirectory Shell InputFile OutputFile ErrorFile MachineName Queue Partition QualityOfService "
        "Architecture OperatingSystem QuoteId ReservationId SubmitHost CheckpointName ResourceManagerType TimeCategory "
        "TaskGroupId TaskGroupName TaskId SessionId TaskDistribution Name",
    ),
    **_all("text", "Arguments StatusMessage"),
    **_all("string", "Feature Node NotificationList ResourceLimit Dependency Extension", many=True),
    **_all("integer", "NodeCount TaskCount Priority ExitCode CompletionCode StartCount ProcessId Processors"),
    **_all("float", "Memory Disk Swap Network Charge"),
    "Resource": ElementKind("float", many=True),
    **_all(
        "datetime",
        "SubmissionTime QueuedTime StagedTime EligibleTime StartTime EndTime DeadlineTime ReservationTime",
    ),
    **_all("duration", "WallDuration CpuDuration SuspendDuration"),
    **_all("boolean", "Restartable Suspendable Interactive"),
}
del KINDS["CreationTimeZone"]

RESOURCES: ResourceElements = frozenset(
    {"Processors", "Memory", "Disk", "Swap", "Network", "NodeCount", "WallDuration", "CpuDuration"}
)
"""What can be requested and delivered; outside both blocks, the state of the job decides which of the two it is."""

IN_BLOCKS: ResourceElements = RESOURCES | {"Resource", "Feature", "Architecture", "OperatingSystem", "Name"}

SIZED: ResourceElements = frozenset({"Memory", "Disk", "Swap"})
"""Elements whose ``units`` are those of bytes."""

ATTRIBUTES: frozenset[str] = frozenset(
    {
        "units", "metric", "consumptionRate", "dynamic", "op", "conj", "group", "preference", "performanceFactor",
        "name", "type", "uri", "condition", "designator", "awarenessPolicy",
    }
)  # fmt: skip
NAMED = frozenset({"Resource", "Extension"})
"""Elements that need the attribute ``name``."""

NEVER_INHERITED = frozenset(
    {"JobId", "GlobalJobId", "TaskGroupId", "TaskId", "JobGroupId", "JobState", "JobGroupState", "JobGroupName"}
)


Value: TypeAlias = int | float | str | bool | None
"""``None``: the element is present and empty, which removes an inherited value."""


@dataclass(frozen=True)
class Property:
    """An element with a value: its attributes in canonical spelling, the line it is on, its text as it came."""

    name: str
    value: Value
    attributes: Mapping[str, str] = field(default_factory=dict)
    line: int = 0
    raw: str = field(default="", compare=False, repr=False)

    @property
    def key(self) -> tuple[str, str, str]:
        """What it is about: the name, and for an extension or resource also which one."""
        if self.name in NAMED:
            return self.name, self.attributes.get("name", ""), self.attributes.get("type", "")
        return self.name, "", ""


@dataclass(frozen=True)
class Block:
    """``Requested`` or ``Delivered``: conditions or facts, and separately those about nodes."""

    properties: tuple[Property, ...] = ()
    nodes: tuple[Property, ...] = ()
    unknown: tuple[Element, ...] = ()

    def all_of(self, name: str) -> tuple[Property, ...]:
        """The properties of one name, in their order."""
        return tuple(prop for prop in self.properties if prop.name == name)


@dataclass(frozen=True)
class JobLevel:
    """One level of the object.

    Attributes:
        level: which level it is.
        line: where it begins.
        reference: identifier, for a level that only points to one; it has nothing else then.
        properties: the properties directly in it, without the blocks.
        requested: the block, ``None`` without one.
        delivered: likewise.
        nodes: conditions on nodes outside the blocks.
        environment: variables by name, ``None`` without any; in order.
        policy: what to do about unknown elements, ``None`` if it is not stated.
        unknown: unknown elements, kept as they are.
        children: levels inside, in order.
        source: the element that it was read from, with all its contents; ``None`` for a level made otherwise.
    """

    level: Level
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
        return next((prop.value for prop in self.properties if prop.name == name), None)

    def text(self, name: str) -> str | None:
        """The value of the first property of this name as text; ``None`` without one."""
        value = self.get(name)
        return None if value is None else str(value)

    def integer(self, name: str) -> int | None:
        """The value of the first property of this name as a whole number, ``None`` for another kind of value."""
        value = self.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def has(self, name: str) -> bool:
        """Whether this level has a property of this name."""
        return any(prop.name == name for prop in self.properties)

    def all_of(self, name: str) -> tuple[Property, ...]:
        """The properties of one name, in their order."""
        return tuple(prop for prop in self.properties if prop.name == name)

    def of_level(self, level: Level) -> tuple[JobLevel, ...]:
        """The children of one kind."""
        return tuple(child for child in self.children if child.level == level)

    def extension(self, name: str) -> str | None:
        """The text of an extension, ``None`` without it."""
        matches = (prop.value for prop in self.all_of("Extension") if prop.attributes.get("name") == name)
        value = next(matches, None)
        return None if value is None else str(value)

    def walk(self) -> Iterator[JobLevel]:
        """This level and all below."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True)
class Document:
    """A whole document: a job group or a single job, and warnings about what is odd but not wrong."""

    root: JobLevel
    warnings: tuple[str, ...] = ()

    @property
    def group(self) -> JobLevel | None:
        """The job group, ``None`` for a single job."""
        return self.root if self.root.level == "JobGroup" else None

    @property
    def jobs(self) -> tuple[JobLevel, ...]:
        """The jobs as they are written, without what they inherit; references are not among them."""
        if self.root.level == "Job":
            return (self.root,)
        return tuple(job for job in self.root.of_level("Job") if job.reference is None)
