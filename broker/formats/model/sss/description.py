"""An SSS Job Object described for readers: as one plain object for programs, and value by value for people.

:func:`describe` gives jobs with all they inherit, requests, and what they become in PanDA. :func:`listed` gives every
value with its unit and attributes.

Source: Scalable Systems Software Job Object Specification 3.0.3, properties and units of measure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from broker.domain.work import WayToRun
from broker.formats.model.sss import conditions, model, values
from broker.formats.model.sss.conditions import CompoundExpression, Condition, Expression, NegatedExpression
from broker.formats.model.sss.inheritance import WholeJob, whole_jobs
from broker.formats.model.sss.job_columns import MappedJob, MappingRules, map_job
from broker.formats.model.sss.model import Block, Document, JobLevel, Property, Value
from broker.formats.model.sss.requests import expression_in
from broker.formats.model.sss.task_columns import map_task
from broker.formats.model.sss.xml_reading import Element

SECONDS = "s"
INSTANT = "s since 1970 UTC"
NO_UNIT = ""
UNSAID = "not said"

_UNITS: dict[str, str] = {
    "Processors": "processors",
    "NodeCount": "nodes",
    "TaskCount": "tasks",
    "StartCount": "starts",
}
_UNSAID = frozenset({"Charge", "Network", "Resource", "ResourceLimit"})
"""Amounts whose unit only the document can state."""

_ATTRIBUTE_UNITS = {"consumptionRate": " (fraction)", "performanceFactor": " (factor of the wall time)"}

COLUMN_UNITS: dict[str, str] = {
    "coreCount": "cores",
    "actualCoreCount": "cores",
    "maxWalltime": SECONDS,
    "maxCpuCount": SECONDS,
    "cpuConsumptionTime": SECONDS,
    **dict.fromkeys(("maxRSS", "avgRSS", "maxSWAP", "avgSWAP"), "KB"),
    **dict.fromkeys(("minRamCount", "maxDiskCount", "ramCount", "workDiskCount"), "MB"),
    "walltime": SECONDS,
    "hs06": "HS06",
    "hs06sec": "HS06 s",
    **dict.fromkeys(("creationTime", "startTime", "endTime", "creationDate", "ttcRequested"), "UTC"),
}
"""Units of PanDA's columns."""


@dataclass(frozen=True)
class DescribedValue:
    """One value: its path, its text, its unit, and its other attributes with theirs."""

    path: str
    value: str
    unit: str
    attributes: str


def unit_of(one: Property) -> str:
    """The unit of a value: the one that is written, else that of its kind; ``not said`` if only its author knows."""
    written = one.attributes.get("units")
    if written:
        return written
    if one.name in model.SIZED:
        return f"{values.DEFAULT_UNIT} (assumed)"
    if one.name in _UNSAID:
        return UNSAID
    kind = model.KINDS.get(one.name)
    by_type = {"duration": SECONDS, "datetime": INSTANT}
    return _UNITS.get(one.name, NO_UNIT if kind is None else by_type.get(kind.type, NO_UNIT))


def listed(level: JobLevel, above: str = "") -> Iterator[DescribedValue]:
    """All values of a level and of those below it, in the order in which they are written."""
    if level.policy is not None:
        yield DescribedValue(f"{above}@awarenessPolicy", level.policy, NO_UNIT, "")
    yield from _properties(level.properties, above)
    for name, block in (("Requested", level.requested), ("Delivered", level.delivered)):
        if block is not None:
            yield from _block(block, f"{above}{name}/")
    yield from _properties(level.nodes, f"{above}NodeProperties/")
    for name, text in (level.environment or {}).items():
        yield DescribedValue(f"{above}Environment/{name}", text, NO_UNIT, "")
    for element in level.unknown:
        yield from _unknown(element, above)
    seen: dict[str, int] = {}
    for child in level.children:
        seen[child.level] = seen.get(child.level, 0) + 1
        step = child.level if child.level in model.ONCE_LEVELS else f"{child.level}[{seen[child.level]}]"
        if child.reference is not None:
            yield DescribedValue(f"{above}{step}", child.reference, NO_UNIT, "a reference")
        elif child.level != "Job":
            yield from listed(child, f"{above}{step}/")


def _block(block: Block, above: str) -> Iterator[DescribedValue]:
    yield from _properties(block.properties, above)
    yield from _properties(block.nodes, f"{above}NodeProperties/")
    for element in block.unknown:
        yield from _unknown(element, above)


def _properties(properties: Sequence[Property], above: str) -> Iterator[DescribedValue]:
    for prop in properties:
        yield DescribedValue(
            f"{above}{prop.name}", prop.raw or values.text_of(prop.value), unit_of(prop), _message(prop.attributes)
        )


def _unknown(element: Element, above: str) -> Iterator[DescribedValue]:
    yield DescribedValue(
        f"{above}{element.name}", "" if element.children else element.text.strip(), UNSAID, _message(element.attributes)
    )
    for child in element.children:
        yield from _unknown(child, f"{above}{element.name}/")


def _message(attributes: Mapping[str, str]) -> str:
    return ", ".join(
        f"{name}={text}{_ATTRIBUTE_UNITS.get(name, '')}" for name, text in attributes.items() if name != "units"
    )


def describe(document: Document, rules: MappingRules | None = None) -> dict[str, Any]:
    """The whole document; absent parts are omitted, sizes are in bytes under ``<name>_bytes``."""
    wholes = whole_jobs(document)
    mapped = [map_job(one, rules) for one in wholes]
    reported: dict[str, Any] = {}
    task = map_task(document, mapped, rules)
    if document.group is not None and task is not None:
        reported["group"] = {
            **_identity(document.group),
            "values": _values(document.group),
            "panda_task": task.columns,
            "unmapped": list(task.unmapped),
            "notes": list(task.notes),
        }
    reported["jobs"] = [_job(whole, one, document) for whole, one in zip(wholes, mapped, strict=True)]
    reported["warnings"] = list(document.warnings)
    return reported


def _values(level: JobLevel) -> list[dict[str, str]]:
    """Every value with its unit and attributes."""
    return [dataclasses.asdict(one) for one in listed(level)]


def _identity(level: JobLevel) -> dict[str, Any]:
    return {prop.name: prop.value for prop in level.properties if prop.name not in ("Extension", "Resource", "Hold")}


def _job(whole: WholeJob, mapped: MappedJob, document: Document) -> dict[str, Any]:
    job = whole.job
    reported: dict[str, Any] = {**_identity(job)}
    if job.policy is not None:
        reported["awarenessPolicy"] = job.policy
    if document.group is not None:
        reported["inherited"] = list(whole.inherited)
    reported["requested"] = _requested(job, plain=whole.bare)
    reported["delivered"] = _delivered(job.delivered)
    if job.environment:
        reported["environment"] = dict(job.environment)
    if holds := [one.value for one in job.all_of("Hold")]:
        reported["hold"] = holds
    if extensions := job.all_of("Extension"):
        reported["extensions"] = {one.attributes.get("name", ""): _extension(one) for one in extensions}
    if resources := _resources(job):
        reported["resources"] = resources
    groups = job.of_level("TaskGroup")
    if groups:
        reported["task_groups"] = [_task_group(group) for group in groups]
    if len(groups) == 1 and groups[0].of_level("Task"):
        reported["tasks"] = [_identity(task) for task in groups[0].of_level("Task")]
    return {
        **reported,
        "panda_job": mapped.columns,
        "refused": mapped.refused or None,
        **({"panda_jobs": [part.columns for part in mapped.parts]} if mapped.parts else {}),
        "values": _values(job),
        "alternatives": [_way(one.way) for one in mapped.request.alternatives] if mapped.request.is_fuzzy else [],
        "unmapped": list(mapped.unmapped),
        "notes": list(mapped.notes),
    }


def _way(way: WayToRun) -> dict[str, Any]:
    cores = None if way.accepted_cores is None else str(way.accepted_cores)
    return {
        "cores": cores,
        "memory_mb": way.memory_mb,
        "disk_mb": way.disk_mb,
        "wall_s": way.wall_s,
    }


def _task_group(group: JobLevel) -> dict[str, Any]:
    distribution = next(iter(group.all_of("TaskDistribution")), None)
    reported: dict[str, Any] = {
        "TaskGroupName": group.text("TaskGroupName"),
        "TaskCount": group.integer("TaskCount"),
        "Executable": group.text("Executable"),
        "requested": _requested(group, plain=False),
    }
    if group.has("NodeCount"):
        reported["NodeCount"] = group.integer("NodeCount")
    if distribution is not None:
        reported["distribution"] = [distribution.attributes.get("type"), distribution.value]
    if resources := _resources(group):
        reported["resources"] = resources
    features = [one.value for one in _nodes(group) if one.name == "Feature"]
    if features:
        reported["features"] = features
    if tasks := group.of_level("Task"):
        reported["tasks"] = [_identity(task) for task in tasks]
    return reported


def _nodes(level: JobLevel) -> Sequence[Property]:
    return (*level.nodes, *(level.requested.nodes if level.requested is not None else ()))


def _resources(level: JobLevel) -> list[list[Value]]:
    inside = level.requested.all_of("Resource") if level.requested is not None else ()
    return [
        [one.attributes.get("name"), one.attributes.get("type"), one.value]
        for one in (*level.all_of("Resource"), *inside)
    ]


def _extension(prop: Property) -> Value:
    text = "" if prop.value is None else str(prop.value)
    is_whole = prop.attributes.get("type", "").lower() == "integer" and text.lstrip("-").isdigit()
    return int(text) if is_whole else prop.value


def _named(name: str) -> str:
    return f"{name}_bytes" if name in model.SIZED else name


def _requested(level: JobLevel, *, plain: bool) -> dict[str, Any]:
    """Conditions by quantity: ``[[operator, value], ...]``, or the whole expression if there is a choice."""
    reported: dict[str, Any] = {}
    block = level.requested or Block()
    for name in dict.fromkeys(one.name for one in block.properties):
        if name not in model.RESOURCES:
            continue
        expression = expression_in(block, name)
        if expression is None:
            continue
        joined = _conjuncts(expression)
        if joined is None:
            reported[f"{_named(name)}_expression"] = conditions.reported(expression)
        elif plain and len(joined) == 1 and joined[0].operator == "EQ":
            reported[_named(name)] = joined[0].value
        else:
            reported[_named(name)] = [[one.operator, one.value] for one in joined]
    for one in _nodes(level):
        if one.name == "Name":
            reported["NodeName_pattern" if one.attributes.get("op") == "Match" else "NodeName"] = one.value
    return reported


def _conjuncts(expression: Expression) -> list[Condition] | None:
    """The comparisons of a plain list of conditions; ``None`` if there is a choice or a negation."""
    match expression:
        case Condition():
            return [expression]
        case NegatedExpression():
            return None
        case CompoundExpression("AND", parts):
            inside = [_conjuncts(part) for part in parts]
            return None if None in inside else [one for part in inside if part for one in part]
        case _:
            return None


def _delivered(block: Block | None) -> dict[str, Any]:
    reported: dict[str, Any] = {}
    for prop in () if block is None else block.properties:
        value: Any = prop.value
        if prop.name in model.SIZED and isinstance(value, int | float):
            value = values.size_bytes(value, prop.attributes.get("units"))
        metric = prop.attributes.get("metric")
        before = reported.get(_named(prop.name))
        if metric is None:
            reported[_named(prop.name)] = value
        else:
            reported[_named(prop.name)] = {**(before if isinstance(before, Mapping) else {}), metric: value}
    return reported
