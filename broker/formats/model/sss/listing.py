"""Every value of a job object with its unit and attributes, for people.

Source: Scalable Systems Software Job Object Specification 3.0.3, properties and units of measure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from broker.formats.model.sss import values, vocabulary
from broker.formats.model.sss.model import Block, JobLevel, Property
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
"""Amounts whose unit only the document can say."""

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
class Listed:
    """One value: where it stands, its text, its unit, and its other attributes with theirs."""

    path: str
    value: str
    unit: str
    attributes: str


def unit_of(one: Property) -> str:
    """The unit of a value: the one that is written, else that of its kind; ``not said`` where only its author knows."""
    written = one.attributes.get("units")
    if written:
        return written
    if one.name in vocabulary.SIZED:
        return f"{values.DEFAULT_UNIT} (assumed)"
    if one.name in _UNSAID:
        return UNSAID
    kind = vocabulary.KINDS.get(one.name)
    by_type = {"duration": SECONDS, "datetime": INSTANT}
    return _UNITS.get(one.name, NO_UNIT if kind is None else by_type.get(kind.type, NO_UNIT))


def listed(level: JobLevel, above: str = "") -> Iterator[Listed]:
    """All that a level and those below it say, in the order in which it is written."""
    if level.policy is not None:
        yield Listed(f"{above}@awarenessPolicy", level.policy, NO_UNIT, "")
    yield from _properties(level.properties, above)
    for name, block in (("Requested", level.requested), ("Delivered", level.delivered)):
        if block is not None:
            yield from _block(block, f"{above}{name}/")
    yield from _properties(level.nodes, f"{above}NodeProperties/")
    for name, text in (level.environment or {}).items():
        yield Listed(f"{above}Environment/{name}", text, NO_UNIT, "")
    for element in level.unknown:
        yield from _unknown(element, above)
    seen: dict[str, int] = {}
    for child in level.children:
        seen[child.level] = seen.get(child.level, 0) + 1
        step = child.level if child.level in vocabulary.ONCE_LEVELS else f"{child.level}[{seen[child.level]}]"
        if child.reference is not None:
            yield Listed(f"{above}{step}", child.reference, NO_UNIT, "a reference")
        elif child.level != "Job":
            yield from listed(child, f"{above}{step}/")


def _block(block: Block, above: str) -> Iterator[Listed]:
    yield from _properties(block.properties, above)
    yield from _properties(block.nodes, f"{above}NodeProperties/")
    for element in block.unknown:
        yield from _unknown(element, above)


def _properties(properties: Sequence[Property], above: str) -> Iterator[Listed]:
    for one in properties:
        yield Listed(f"{above}{one.name}", one.raw or values.text_of(one.value), unit_of(one), _message(one.attributes))


def _unknown(element: Element, above: str) -> Iterator[Listed]:
    yield Listed(
        f"{above}{element.name}", "" if element.children else element.text.strip(), UNSAID, _message(element.attributes)
    )
    for child in element.children:
        yield from _unknown(child, f"{above}{element.name}/")


def _message(attributes: Mapping[str, str]) -> str:
    return ", ".join(
        f"{name}={text}{_ATTRIBUTE_UNITS.get(name, '')}" for name, text in attributes.items() if name != "units"
    )
