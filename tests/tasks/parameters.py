"""Task parameters for tests."""

from __future__ import annotations

from typing import Any

OUTPUT = {
    "type": "template", "param_type": "output", "dataset": "mc.$JEDITASKID.hits",
    "value": "--out=hits.$JEDITASKID._${SN/P}.root",
}  # fmt: skip
LOG = {"type": "template", "param_type": "log", "dataset": "mc.$JEDITASKID.log", "value": "log.$JEDITASKID.${SN}.tgz"}
INPUT = {"type": "template", "param_type": "input", "dataset": "mc:evgen", "value": "--in=${IN/L}"}


def constant(value: str, **keys: Any) -> dict[str, Any]:
    return {"type": "constant", "value": value, **keys}


def parameters(*items: dict[str, Any], **overrides: Any) -> dict[str, Any]:
    """Parameters of a production task: the items, an output and a log."""
    defaults = {"taskName": "sim", "transPath": "/cvmfs/run.sh", "vo": "myexp", "userName": "ada", "nucleus": "NUC"}
    return {**defaults, "jobParameters": [*items, OUTPUT], "log": LOG, **overrides}


def files(count: int, **keys: Any) -> list[dict[str, Any]]:
    return [{"lfn": f"evgen._{number:05d}.root", "filesize": 10**9, "events": 100, **keys} for number in range(count)]
