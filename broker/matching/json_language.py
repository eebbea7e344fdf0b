"""Requirements as JSON: an object with ``sw_platform``, ``base_platform``, ``cpu_specs`` and ``gpu_spec``."""

from __future__ import annotations

import json
from typing import Any

from broker.matching.cpu_language import alternatives
from broker.matching.gpu_language import check_constraint
from broker.matching.requirement import VERSION_KEYS, WILDCARD, CpuAlternative, GpuRequest, Problem, Requirement
from broker.matching.versions import Constraint, read_constraint

KEYS = ("sw_platform", "base_platform", "cpu_specs", "gpu_spec", "cpu_pref", "cpu_implied", "encoded_platform")
CPU_KEYS = ("arch", "vendor", "instr", "type")
GPU_KEYS = ("vendor", "model", "version", "vram", "microarchitecture", "driver_version")
MODEL_KEYS = ("pattern", "excl")
GENERATION_KEYS = ("names", "excl")
PREFERENCE_KEYS = ("preferred_architecture_level",)

Path = tuple[str | int, ...]


class JsonReader:
    """Reads one object and notes its problems, each with the place of its key in the text.

    Args:
        text: the JSON text.
        body: the object in it.
    """

    def __init__(self, text: str, body: dict[str, Any]) -> None:
        self._text, self._body = text, body
        self.problems: list[Problem] = []

    def read(self) -> Requirement:
        """The requirement; ``encoded_platform`` is left to the caller."""
        self._known((), self._body, KEYS)
        preference = self._object(("cpu_pref",), self._body.get("cpu_pref"), PREFERENCE_KEYS) or {}
        cpus = self._cpus(self._body.get("cpu_specs"))
        return Requirement(
            platform=self._word(("sw_platform",)) or "",
            base_platform=self._word(("base_platform",)),
            cpus=cpus,
            cpu_implied=bool(cpus) and self._body.get("cpu_implied") is True,
            gpu=self._gpu(self._body.get("gpu_spec")),
            preferred_cpu_level=self._word(("cpu_pref", "preferred_architecture_level"), preference) or None,
        )

    def _problem(self, path: Path, what: str, accepted: str, *, fatal: bool = False) -> None:
        name = ".".join(str(part) for part in path) or "the object"
        position = place_of(self._text, path) + 1
        self.problems.append(Problem(position, f"{name}: {what}", accepted, fatal))

    def _known(self, path: Path, value: dict[str, Any], keys: tuple[str, ...]) -> None:
        for key in value:
            if key in keys:
                continue
            accepted = ", ".join(keys)
            if path == ("gpu_spec",) and key in MODEL_KEYS:
                accepted = 'gpu_spec.model as {"pattern": "...", "excl": true}'
            self._problem((*path, key), "there is no such key here; it has no effect", accepted)

    def _object(self, path: Path, value: Any, keys: tuple[str, ...]) -> dict[str, Any] | None:
        if value is None:
            return None
        if not isinstance(value, dict):
            self._problem(path, f"is a {_kind(value)}", f"an object with {', '.join(keys)}", fatal=True)
            return None
        self._known(path, value, keys)
        return value

    def _word(self, path: Path, holder: dict[str, Any] | None = None) -> str | None:
        value = (self._body if holder is None else holder).get(str(path[-1]))
        if value is None or isinstance(value, str):
            return value.strip() if value else value
        self._problem(path, f"is a {_kind(value)}", "a text", fatal=True)
        return None

    def _cpus(self, value: Any) -> tuple[CpuAlternative, ...]:
        if value is None or value == []:
            return ()
        if not isinstance(value, list):
            self._problem(("cpu_specs",), f"is a {_kind(value)}", "a list of objects", fatal=True)
            return ()
        written = []
        for index, item in enumerate(value):
            path: Path = ("cpu_specs", index)
            if item is None or self._object(path, item, CPU_KEYS) is None:
                self._problem(path, "is no CPU", f"an object with {', '.join(CPU_KEYS)}", fatal=True)
                continue
            fields = [self._word((*path, key), item) or WILDCARD for key in CPU_KEYS[:3]]
            written.append(CpuAlternative(*fields))
        return alternatives(written, place_of(self._text, ("cpu_specs",)) + 1, self.problems)

    def _gpu(self, value: Any) -> GpuRequest | None:
        spec = self._object(("gpu_spec",), value, GPU_KEYS)
        if spec is None:
            return None
        model, model_excluded = self._model(spec.get("model"))
        generations, generations_excluded = self._generations(spec.get("microarchitecture"))
        constraints = {attribute: self._constraint(key, spec.get(key)) for attribute, key, _ in VERSION_KEYS}
        return GpuRequest(
            vendor=self._word(("gpu_spec", "vendor"), spec) or WILDCARD,
            model=model,
            model_excluded=model_excluded,
            generations=generations,
            generations_excluded=generations_excluded,
            **constraints,
        )

    def _model(self, value: Any) -> tuple[str, bool]:
        if value is None or isinstance(value, str):
            return (value or "").strip() or WILDCARD, False
        path: Path = ("gpu_spec", "model")
        spec = self._object(path, value, MODEL_KEYS) or {}
        pattern, excluded = self._word((*path, "pattern"), spec), self._flag((*path, "excl"), spec.get("excl"))
        if not pattern and excluded:
            self._problem(path, "excludes nothing", 'as {"pattern": "...", "excl": true}', fatal=True)
        return pattern or WILDCARD, excluded

    def _flag(self, path: Path, value: Any) -> bool:
        if value is None or isinstance(value, bool):
            return bool(value)
        self._problem(path, f"is a {_kind(value)}", "true or false", fatal=True)
        return False

    def _generations(self, value: Any) -> tuple[tuple[str, ...] | None, bool]:
        path: Path = ("gpu_spec", "microarchitecture")
        if isinstance(value, dict):
            spec = self._object(path, value, GENERATION_KEYS) or {}
            return self._names(path, spec.get("names")), self._flag((*path, "excl"), spec.get("excl"))
        return self._names(path, value), False

    def _names(self, path: Path, value: Any) -> tuple[str, ...] | None:
        if value is None or value == WILDCARD:
            return None
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            self._problem(path, "is neither a text nor a list of texts", '"Ampere" or ["Ampere", "Hopper"]', fatal=True)
            return None
        if not names:
            self._problem(path, "is an empty list, in which no GPU is", '"Ampere" or ["Ampere", "Hopper"]')
        return tuple(sorted(set(names)))

    def _constraint(self, key: str, value: Any) -> Constraint | None:
        if value is None or value == WILDCARD:
            return None
        path: Path = ("gpu_spec", key)
        if isinstance(value, dict | list):
            self._problem(path, f"is a {_kind(value)}", "a text such as >=12.0", fatal=True)
            return None
        constraint = read_constraint(value) if isinstance(value, str) else Constraint("", json.dumps(value))
        check_constraint(constraint, ".".join(map(str, path)), place_of(self._text, path) + 1, self.problems)
        return constraint


def _kind(value: Any) -> str:
    names = {dict: "object", list: "list", str: "text", bool: "truth value", int: "number", float: "number"}
    return names.get(type(value), "null")


def place_of(text: str, path: Path) -> int:
    """Offset of the key or item at ``path`` in a JSON text, or of the last existing part of the path."""
    place = value = _skipped(text, 0)
    for part in path:
        item = _item(text, value, part)
        if item is None:
            return place
        place, value = item
    return place


def _skipped(text: str, place: int) -> int:
    while place < len(text) and text[place] in " \t\r\n":
        place += 1
    return place


def _item(text: str, place: int, part: str | int) -> tuple[int, int] | None:
    """Where a key (or item of a list) and its value begin, inside the value that begins at ``place``."""
    is_object = text[place : place + 1] == "{"
    if not is_object and text[place : place + 1] != "[":
        return None
    decoder, place, number = json.JSONDecoder(), _skipped(text, place + 1), 0
    while place < len(text) and text[place] not in "]}":
        start, name = place, number
        key: str | int = name
        if is_object:
            key, place = decoder.raw_decode(text, place)
            place = _skipped(text, _skipped(text, place) + 1)
        if key == part:
            return start, place
        _, place = decoder.raw_decode(text, place)
        place, number = _skipped(text, place), number + 1
        if text[place : place + 1] == ",":
            place = _skipped(text, place + 1)
    return None
