"""The elements and attributes of the SSS Job Object: types, where they may stand, how often, and which values.

Source: Scalable Systems Software Job Object Specification 3.0.3; names that only its later edition 3.1.0 has are read
as well, since a reader that knows them loses nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

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
"""Spellings that are met, by attribute and in lower case."""

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
        type: of its text.
        many: whether it may stand more than once at one level.
        choices: the values that are accepted, any without them.
        levels: where it may stand; anywhere without them.
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
"""What can be requested and delivered; outside both blocks it is one of the two by the state of the job."""

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
