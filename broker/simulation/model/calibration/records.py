"""Records of single jobs as a document of profiles: counts and quantiles, without anything about a single job."""

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

#: Columns of a record by PanDA's names; the first existing column of each group is read.
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
    """One ended job; unknown figures are NaN."""

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
    """Read the records of a CSV text with a header.

    Columns: ``jeditaskid`` (or ``task``), ``computingsite``, ``wall_time`` and ``cpuconsumptiontime`` in s,
    ``actualcorecount``, ``maxrss`` in kB, ``minramcount`` in MB; with ``jobstatus``, failed jobs may be included, with
    ``piloterrorcode``, ``exeerrorcode`` and ``transexitcode``.

    Raises:
        SimulationError: a column is missing, or there is no record.
    """
    reader = csv.DictReader(io.StringIO(text))
    header = reader.fieldnames or ()
    of = {name: next((column for column in names if column in header), None) for name, names in COLUMNS.items()}
    missing = [COLUMNS[name][0] for name in LEAST if of[name] is None]
    if missing:
        raise SimulationError(f"no column {missing[0]}", where, f"there are {', '.join(header)[:200]}")
    records = [_record(row, of) for row in reader]
    if not records:
        raise SimulationError("the file holds no record", where, "give a line a job below the head")
    return records


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
            _cell(own, {"set": "own", "queue": name, "memory_asked_mb": _requested_mb(own)})
            for name, own in _by(records, "queue")
        ],
    }


def _by(records: Iterable[Record], field: str) -> list[tuple[str, list[Record]]]:
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(getattr(record, field), []).append(record)
    return sorted(groups.items())


def _counts(records: Iterable[Record]) -> dict[str, int]:
    return {name: len(own) for name, own in _by(records, "queue")}


def _requested_mb(records: Sequence[Record]) -> float | None:
    """Requested memory of all jobs at a queue, None if their requests differ."""
    requests = {record.asked_mb for record in records}
    (only,) = requests if len(requests) == 1 else (math.nan,)
    return only if only > 0 else None


def _cell(records: Sequence[Record], fields: Mapping[str, Any]) -> dict[str, Any]:
    failed = [record for record in records if record.failed]
    codes = [record.code for record in failed]
    good = [record for record in records if not record.failed and record.wall_s > 0]
    wall, cpu = np.array([record.wall_s for record in good]), np.array([record.cpu_s for record in good])
    cores = np.array([record.cores if record.cores > 0 else 1.0 for record in good])
    columns = {
        "wall_s": wall,
        "cpu_s": cpu,
        "cpu_efficiency": cpu / (wall * cores) if len(good) else cpu,
        "max_rss_mb": np.array([record.max_rss_mb for record in good]),
    }
    quantiles = {name: _quantiles(values[values > 0]) for name, values in columns.items()}
    return {
        **fields, "jobs": len(records), "failed": len(failed),
        **{name: value for name, value in quantiles.items() if value is not None},
        "failures": {code: codes.count(code) for code in sorted(set(codes))},
    }  # fmt: skip


def _quantiles(values: np.ndarray) -> list[float] | None:
    if len(values) < FEWEST_JOBS:
        return None
    return [float(values.mean()), *np.quantile(values, [0.1, 0.5, 0.9]).tolist()]
