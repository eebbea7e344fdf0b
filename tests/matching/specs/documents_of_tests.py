"""Documents of jobs and nodes in the formats v0.1 and v0.2, with changes applied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

REMOVED = object()


def changed(document: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Copy a document and set fields by their dotted names, such as ``cpu.ram-mb``; ``REMOVED`` deletes a field."""
    copy = {name: changed(value, {}) if isinstance(value, Mapping) else value for name, value in document.items()}
    for name, value in changes.items():
        first, dot, rest = name.partition(".")
        if dot:
            copy[first] = changed(copy.get(first) or {}, {rest: value})
        elif value is REMOVED:
            copy.pop(first, None)
        else:
            copy[first] = value
    return copy


SPEC: dict[str, Any] = {
    "system": {"name": "Linux"},
    "wall-time": 3600,
    "cpu": {
        "num-cores": {"min": 1, "max": 1},
        "architecture": {"name": "x86_64", "microarchitecture-level": {"min": 1}},
    },
    "tags": "",
}
NODE_A: dict[str, Any] = {
    "site": "S.One",
    "system": {"name": "Linux", "glibc": "2.34", "user-namespaces": True},
    "wall-time": 172_800,
    "cpu-work": 400_000,
    "cpu": {
        "num-cores": 8,
        "ram-mb": 16_000,
        "architecture": {"name": "x86_64", "microarchitecture-level": 3},
    },
    "gpu": {"count": 0},
    "tags": ["cvmfs:lhcb", "os:el9"],
}
GPUS: dict[str, Any] = {
    "count": 2,
    "ram-mb": 40_960,
    "vendor": "nvidia",
    "compute-capability": "9.0",
    "driver-version": "535.104.05",
}
GPU_NEED: dict[str, Any] = {
    "count": {"min": 1, "max": 2},
    "ram-mb": 8192,
    "vendor": "nvidia",
    "compute-capability": {"min": "8.0", "max": None},
}


def job(*changes: Mapping[str, Any]) -> dict[str, Any]:
    """A job in format v0.1, with one spec for each set of changes."""
    return {
        "submit_time": "2026-03-28T10:00:00Z",
        "owner": "lbprods",
        "group": "lhcb_mc",
        "type": "MCSimulation",
        "matching_specs": [changed(SPEC, change) for change in changes or ({},)],
    }


def node(changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Node A with changes applied."""
    return changed(NODE_A, changes or {})


REQUIREMENTS: dict[str, Any] = {
    "wall_time": 3600,
    "cpu": {"architecture": {"name": "x86_64", "level": "x86-64-v3"}},
}
NODE_V02: dict[str, Any] = {
    "site": "SiteA",
    "system": {"name": "Linux"},
    "wall_time": 86_400,
    "cpu_power_db12": 11.5,
    "cpu": {
        "num_nodes": 1,
        "num_cores": 16,
        "ram_mb": 24_576,
        "architecture": {
            "name": "x86_64",
            "features": [
                "cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3", "avx", "avx2", "bmi1", "bmi2", "f16c",
                "fma", "abm", "movbe", "xsave",
            ],
        },
    },
    "gpu": {"count": 0},
    "tags": ["cvmfs:lhcb", "os:el9"],
}  # fmt: skip


def alone(changes: Mapping[str, Any] | None = None, **other_fields: Any) -> dict[str, Any]:
    """A job in format v0.2, with changed requirements and with other fields beside them."""
    return {"requirements": changed(REQUIREMENTS, changes or {}), **other_fields}
