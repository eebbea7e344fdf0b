"""Scenario files: YAML with the name of a grid and its parameters, or with every site, queue and task.

See docs/how-to/simulate.md for an example of each.
"""

from __future__ import annotations

import dataclasses
import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError

from broker.simulation.model.calibration.calibrated_grid import CalibratedChoice
from broker.simulation.model.calibration.calibration_file import CALIBRATED, read_calibration
from broker.simulation.model.calibration.fit import Calibration
from broker.simulation.model.errors import SimulationError
from broker.simulation.model.generated_grid import GridParameters
from broker.simulation.model.grids import make_grid
from broker.simulation.model.scenario import Ages, Outage, Queue, Scenario, Site, Task, TransferOutage
from broker.simulation.model.scenario_checks import check
from broker.simulation.model.scenario_parts import Pilots, Tape, Workers
from broker.yaml_text import read_yaml

_PARTS: dict[str, Any] = {"ages": Ages, "pilots": Pilots, "tape": Tape, "workers": Workers}
_LISTS: dict[str, Any] = {
    "sites": Site,
    "queues": Queue,
    "tasks": Task,
    "outages": Outage,
    "transfer_outages": TransferOutage,
}
#: Fields of a calibrated grid that may be set in addition to parts.
_SCALARS_OF_FIT = ("cycle_s", "task_cycle_s", "scouts", "memory_slack", "enforce_walltime", "heartbeat_s", "attempts")
#: Fields that only a grid makes and no file contains.
_NOT_IN_FILES = {"kinds", "transfer_failures", "known", "coming"}
#: Maximum size of a file once it is unpacked.
MOST_BYTES = 500_000_000


@dataclass(frozen=True)
class GridChoice:
    """A grid by name and parameters; calling it with a seed makes the scenario.

    Attributes:
        grid: one of the named grids.
        parameters: its size and mix.
        changes: fields of the scenario that are set afterwards, such as ages.
    """

    grid: str
    parameters: GridParameters
    changes: tuple[tuple[str, Any], ...] = ()

    def __call__(self, seed: int) -> Scenario:
        """Make the scenario of a seed."""
        scenario = make_grid(self.grid, self.parameters, seed)
        return check(dataclasses.replace(scenario, **dict(self.changes))) if self.changes else scenario


@dataclass(frozen=True)
class FixedScenario:
    """One scenario for all seeds: only the draws of jobs differ."""

    scenario: Scenario

    def __call__(self, seed: int) -> Scenario:
        """Return the scenario for a seed."""
        return self.scenario


def read_scenario(text: str, name: str) -> GridChoice | FixedScenario | CalibratedChoice:
    """Read the scenario that a file describes.

    Args:
        text: YAML text.
        name: name of the file, for messages.

    Raises:
        SimulationError: the text is no scenario; the message names the entry.
    """
    content = _content(text, name)
    if content.get("grid") == CALIBRATED:
        extra = sorted(set(content) - {"grid", "version", "parameters", "changes", "calibration"}, key=str)
        if extra:
            raise SimulationError(
                f"unknown key {extra[0]}", name, "there are grid, version, parameters, changes, calibration"
            )
        parameters = _parse(GridParameters, content.get("parameters") or {}, f"{name}: parameters")
        changes = _changes_of_fit(content.get("changes") or {}, f"{name}: changes")
        return CalibratedChoice(read_calibration(content, name), parameters, name, changes=changes)
    if "grid" in content:
        return _grid_choice(content, name)
    return FixedScenario(check(_whole(content, name)))


def _changes_of_fit(changes: Mapping[str, Any], place: str) -> tuple[tuple[str, Any], ...]:
    """The fields that are set after a fit; for a part of the scenario, only its named entries."""
    extra = sorted(set(changes) - set(_PARTS) - set(_SCALARS_OF_FIT), key=str)
    if extra:
        known = ", ".join(sorted({*_PARTS, *_SCALARS_OF_FIT}))
        raise SimulationError(f"unknown key {extra[0]}", place, f"a calibrated grid takes {known}")
    fields = _fields(changes, place)
    return tuple(
        (key, {name: getattr(value, name) for name in changes[key]} if key in _PARTS else value)
        for key, value in fields.items()
    )


def _content(text: str, name: str) -> Mapping[str, Any]:
    try:
        content = read_yaml(text)
    except yaml.YAMLError as error:
        raise SimulationError("the file is not YAML", name, str(error).splitlines()[0]) from error
    if not isinstance(content, Mapping):
        raise SimulationError("the file holds no scenario", name, "give grid and parameters, or sites, queues, tasks")
    return content


def read_packed(path: Path) -> str:
    """Read the text of a file, unpacked if its name ends with ``.gz``.

    Raises:
        SimulationError: the file cannot be read, or is too large.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise SimulationError(f"more than {MOST_BYTES} bytes", str(path), "give a smaller file")
        return data.decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise SimulationError("the file cannot be read", str(path), str(error)) from error


def calibration_in(text: str, name: str) -> Calibration:
    """Read the calibration in a text.

    Raises:
        SimulationError: the text is no calibrated grid.
    """
    content = _content(text, name)
    return read_calibration(content, name)


def _grid_choice(content: Mapping[str, Any], name: str) -> GridChoice:
    extra = sorted(set(content) - {"grid", "parameters", "changes"}, key=str)
    if extra:
        raise SimulationError(f"unknown key {extra[0]}", name, "there are grid, parameters, changes")
    parameters = _parse(GridParameters, content.get("parameters") or {}, f"{name}: parameters")
    changes = _fields(content.get("changes") or {}, f"{name}: changes")
    return GridChoice(str(content["grid"]), parameters, tuple(changes.items()))


def _whole(content: Mapping[str, Any], name: str) -> Scenario:
    fields = _fields(content, name)
    missing = sorted({"name", "days", "sites", "queues", "shares", "tasks"} - set(fields))
    if missing:
        raise SimulationError(
            f"{missing[0]} is missing", name, "a scenario has name, days, sites, queues, shares, tasks"
        )
    return Scenario(**fields)


def _fields(content: Mapping[str, Any], place: str) -> dict[str, Any]:
    known = {field.name for field in dataclasses.fields(Scenario)} - _NOT_IN_FILES
    values: dict[str, Any] = {}
    for key, value in content.items():
        where = f"{place}: {key}"
        if key not in known:
            raise SimulationError(f"unknown key {key}", place, f"there are {', '.join(sorted(known))}")
        if key in _PARTS:
            values[key] = _parse(_PARTS[key], value, where)
        elif key in _LISTS:
            entries = value if isinstance(value, list) else []
            values[key] = tuple(_parse(_LISTS[key], entry, f"{where}[{n}]") for n, entry in enumerate(entries))
        elif key == "shares":
            values[key] = tuple((str(share), _number(weight, where)) for share, weight in dict(value).items())
        elif key == "share_vos":
            values[key] = {str(share): str(vo) for share, vo in dict(value).items()}
        elif key == "link_bytes_s":
            values[key] = {(int(a), int(b)): _number(rate, where) for a, b, rate in value}
        else:
            values[key] = _scalar(key, value, where)
    return values


def _scalar(key: str, value: Any, where: str) -> Any:
    kind = next(field.type for field in dataclasses.fields(Scenario) if field.name == key)
    if kind == "str":
        return str(value)
    if kind == "bool":
        return bool(value)
    number = _number(value, where)
    return int(number) if kind == "int" else number


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SimulationError(f"{value!r} is no number", where, "give a number")
    return float(value)


def _parse(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, Mapping):
        raise SimulationError(f"{value!r} is no mapping", where, "give keys with values")
    known = [field.name for field in dataclasses.fields(kind)]
    extra = sorted(set(value) - set(known), key=str)
    if extra:
        raise SimulationError(f"unknown key {extra[0]}", where, f"there are {', '.join(known)}")
    try:
        return TypeAdapter(kind).validate_python(dict(value))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise SimulationError(f"{key}: {first['msg']}", where, "correct the value") from error
