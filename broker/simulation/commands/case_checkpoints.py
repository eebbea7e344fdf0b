"""Finished simulations of a comparison in a folder, one file each, so that a stopped comparison can be resumed."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from broker import __version__
from broker.simulation.model.comparing import Case, CaseResult
from broker.simulation.model.errors import SimulationError

_FORM: TypeAdapter[CaseResult] = TypeAdapter(CaseResult)
TABLE = "table.txt"


class CaseCheckpoints:
    """The folder of a comparison.

    A file is named after policy, seed, and everything else that affects its figures: the grid, values, the profile and
    the version of the broker. So a case with other settings is never mistaken for this one, and is left alone.

    Args:
        folder: folder of the files; it is created if it does not exist.

    Attributes:
        folder: folder of the files.

    Raises:
        SimulationError: the folder cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SimulationError(
                f"the folder cannot be made: {error.strerror}", str(folder), "name another"
            ) from error

    def load(self, cases: Sequence[Case]) -> dict[int, CaseResult]:
        """Return the results of finished cases by their position.

        Raises:
            SimulationError: a file of one of them cannot be read.
        """
        known = {}
        for place, case in enumerate(cases):
            path = self._path(case)
            if path.exists():
                known[place] = _read(path)
        return known

    def keep(self, case: Case, result: CaseResult) -> None:
        """Write a finished case atomically."""
        self._write(self._path(case), json.dumps(_strict(dataclasses.asdict(result)), allow_nan=False))

    def keep_table(self, text: str) -> None:
        """Write the comparison of the cases finished so far."""
        self._write(self.folder / TABLE, text)

    def others(self, cases: Sequence[Case]) -> int:
        """Return the number of files of cases with other settings."""
        own = {self._path(case) for case in cases}
        return sum(1 for path in self.folder.glob("*.json") if path not in own)

    def _write(self, path: Path, text: str) -> None:
        temporary = path.with_name(f".{path.name}.part")
        try:
            temporary.write_text(text, encoding="utf-8")
            os.replace(temporary, path)
        except OSError as error:
            raise SimulationError(f"it cannot be written: {error.strerror}", str(path), "give it room") from error

    def _path(self, case: Case) -> Path:
        return self.folder / f"{name_of(case)}.json"


def name_of(case: Case) -> str:
    """The name of a case, different for each label, seed and setting that affects its figures."""
    settings = repr((__version__, case.policy, case.values, case.profile, case.scenario_of))
    name = "".join(letter if letter.isalnum() or letter in "_-" else "-" for letter in case.label)[:80]
    digest = hashlib.sha256(f"{case.label}\n{settings}".encode()).hexdigest()[:12]
    return f"{name}-seed-{case.seed:04d}-{digest}"


def _read(path: Path) -> CaseResult:
    try:
        return _FORM.validate_python(json.loads(path.read_bytes()))
    except (OSError, ValueError) as error:
        first = str(error).splitlines()[0]
        raise SimulationError(f"a finished case cannot be read: {first}", str(path), "remove the file") from error


def _strict(value: Any) -> Any:
    """The value in strict JSON: figures that are unknown or beyond the record become texts."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {key: _strict(one) for key, one in value.items()}
    return [_strict(one) for one in value] if isinstance(value, list | tuple) else value
