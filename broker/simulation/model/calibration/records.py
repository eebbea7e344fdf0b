"""Records of single jobs as a document of profiles: counted, with quantiles, without anything of a single job."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from broker.simulation.model.calibration.profiles import FEWEST_JOBS
from broker.simulation.model.errors import SimulationError

#: Columns of a record, as PanDA names them; the first of each group that is there is read.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "task": ("jeditaskid", "task"),
    "queue": ("computingsite",),
    "wall_s": ("wall_time",),
    "cpu_s": ("cpuconsumptiontime",),
    "cores": ("actualcorecount", "corecount"),
    "max_rss_kb": ("maxrss",),
    "asked_mb": ("minramcount",),
}
LEAST = ("task", "queue", "wall_s", "cpu_s")


@dataclass(frozen=True)
class Record:
    """One job that ended; figures that are not known are NaN."""

    task: str
    queue: str
    failed: bool
    code: str
    wall_s: float
    cpu_s: float
    cores: float
    max_rss_mb: float
    asked_mb: float


def read_records(text: str, where: str) -> list[Record]:
    """The records of a CSV text with a head.

    Columns: ``jeditaskid`` (or ``task``), ``computingsite``, ``wall_time`` and ``cpuconsumptiontime`` in s,
    ``actualcorecount``, ``maxrss`` in kB, ``minramcount`` in MB; with ``jobstatus`` also those that failed, with
    ``piloterrorcode``, ``exeerrorcode`` and ``transexitcode``.

    Raises:
        SimulationError: a column is missing, or there is no record.
    """
    reader = csv.DictReader(io.StringIO(text))
    there = reader.fieldnames or ()
    of = {name: next((one for one in names if one in there), None) for name, names in COLUMNS.items()}
    missing = [COLUMNS[name][0] for name in LEAST if of[name] is None]
    if missing:
        raise SimulationError(f"no column {missing[0]}", where, f"there are {', '.join(there)[:200]}")
    found = [_record(row, of) for row in reader]
    if not found:
        raise SimulationError("the file holds no record", where, "give a line a job below the head")
    return found


def _record(row: Mapping[str, str], of: Mapping[str, str | None]) -> Record:
    def number(name: str) -> float:
        try:
            return float(row[of[name] or ""])
        except (KeyError, ValueError):
            return math.nan

    codes = "/".join(row.get(name) or "0" for name in ("piloterrorcode", "exeerrorcode", "transexitcode"))
    return Record(
        task=row[of["task"] or ""],
        queue=row[of["queue"] or ""],
        failed=row.get("jobstatus", "finished") == "failed",
        code=codes,
        wall_s=number("wall_s"),
        cpu_s=number("cpu_s"),
        cores=number("cores"),
        max_rss_mb=number("max_rss_kb") / 1024.0,
        asked_mb=number("asked_mb"),
    )


def profiles_of(records: Sequence[Record], source: str) -> dict[str, Any]:
    """The document of profiles of records, by task and by queue."""
    return {
        "source": source,
        "labels": [_cell(own, {"label": f"task {name}", "queues": _counts(own)}) for name, own in _by(records, "task")],
        "queues": [
            _cell(own, {"set": "own", "queue": name, "memory_asked_mb": _asked(own)})
            for name, own in _by(records, "queue")
        ],
    }


def _by(records: Iterable[Record], field: str) -> list[tuple[str, list[Record]]]:
    groups: dict[str, list[Record]] = {}
    for one in records:
        groups.setdefault(getattr(one, field), []).append(one)
    return sorted(groups.items())


def _counts(records: Iterable[Record]) -> dict[str, int]:
    return {name: len(own) for name, own in _by(records, "queue")}


def _asked(records: Sequence[Record]) -> float | None:
    """What all jobs at a queue ask for, None where they ask for different memory."""
    asked = {one.asked_mb for one in records}
    (only,) = asked if len(asked) == 1 else (math.nan,)
    return only if only > 0 else None


def _cell(records: Sequence[Record], named: Mapping[str, Any]) -> dict[str, Any]:
    failed = [one for one in records if one.failed]
    codes = [one.code for one in failed]
    good = [one for one in records if not one.failed and one.wall_s > 0]
    wall, cpu = np.array([one.wall_s for one in good]), np.array([one.cpu_s for one in good])
    cores = np.array([one.cores if one.cores > 0 else 1.0 for one in good])
    columns = {
        "wall_s": wall,
        "cpu_s": cpu,
        "cpu_efficiency": cpu / (wall * cores) if len(good) else cpu,
        "max_rss_mb": np.array([one.max_rss_mb for one in good]),
    }
    found = {name: _quantiles(values[values > 0]) for name, values in columns.items()}
    return {
        **named, "jobs": len(records), "failed": len(failed),
        **{name: value for name, value in found.items() if value is not None},
        "failures": {code: codes.count(code) for code in sorted(set(codes))},
    }  # fmt: skip


def _quantiles(values: np.ndarray) -> list[float] | None:
    if len(values) < FEWEST_JOBS:
        return None
    return [float(values.mean()), *np.quantile(values, [0.1, 0.5, 0.9]).tolist()]
