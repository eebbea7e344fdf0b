"""Calibrations as YAML: the format that ``broker calibrate --out`` writes and ``broker simulate --grid FILE`` reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError

from broker.simulation.model.calibration.fit import Calibration
from broker.simulation.model.errors import SimulationError

#: Value in place of the name of a grid.
CALIBRATED = "calibrated"
VERSION = 1
#: Significant digits of a written figure.
DIGITS = 6
_HEAD = """# A calibrated grid, written by broker calibrate. Kinds of jobs are labels by rank, without their names.
# Every figure has the number of jobs or cells it is of. The same input gives the same bytes.
"""


def write_calibration(calibration: Calibration, parameters: Mapping[str, Any] | None = None) -> str:
    """The YAML text of a calibration; ``parameters`` are those of the grid, as in a scenario file."""
    content = TypeAdapter(Calibration).dump_python(calibration, mode="json")
    document = {
        "grid": CALIBRATED, "version": VERSION, "parameters": dict(parameters or {}), "calibration": _rounded(content),
    }  # fmt: skip
    return _HEAD + yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=120)


def read_calibration(content: Mapping[str, Any], where: str) -> Calibration:
    """Read the calibration of a document.

    Raises:
        SimulationError: the document is no calibration, or of another version; the message names the entry.
    """
    if content.get("grid") != CALIBRATED or not isinstance(content.get("calibration"), Mapping):
        raise SimulationError("the file holds no calibrated grid", where, "write one with broker calibrate --out FILE")
    if content.get("version") != VERSION:
        raise SimulationError(f"version {content.get('version')!r}", where, f"this broker reads version {VERSION}")
    try:
        calibration = TypeAdapter(Calibration).validate_python(content["calibration"])
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise SimulationError(f"{place}: {first['msg']}", where, "calibrate again") from error
    if not calibration.kinds:
        raise SimulationError("no kind of jobs", where, "calibrate with more jobs")
    return calibration


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, Mapping):
        return {key: _rounded(entry) for key, entry in value.items()}
    return [_rounded(entry) for entry in value] if isinstance(value, list | tuple) else value
