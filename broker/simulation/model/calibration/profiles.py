"""Profiles: counts, failures by code and quantiles of finished jobs, for each label of jobs and each queue.

Public profiles of jobs have this form, and a site's own tables and records are counted in it. A label is a task or a
kind of jobs; no fit uses its name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from broker.simulation.model.errors import SimulationError

#: Quantities of finished jobs, by their names in the document.
QUANTITIES = ("wall_s", "cpu_s", "cpu_efficiency", "max_rss_mb")
#: The probabilities of the three quantiles that follow the mean.
PROBABILITIES = (0.1, 0.5, 0.9)
#: Minimum jobs of a cell: the quantiles of smaller ones mean nothing.
FEWEST_JOBS = 30
LOOPING = frozenset({1150, 1344})
MEMORY = frozenset({1212, 1235})
KILLED_BY_MEMORY = 137
CLASSES = ("no_code", "memory", "looping", "payload", "other")


@dataclass(frozen=True)
class Quantiles:
    """Mean and the 10, 50 and 90 % quantiles of one quantity, all positive."""

    mean: float
    p10: float
    p50: float
    p90: float


@dataclass(frozen=True)
class Cell:
    """Jobs of one label, or at one queue.

    Attributes:
        name: name of the label or queue; that of a queue without its set.
        jobs: ended jobs.
        failed: failed jobs among them.
        quantities: quantiles of finished jobs, by the names of :data:`QUANTITIES`; unknown ones are left out.
        failures: failed jobs by class of failure.
        memory_asked_mb: requested memory at a queue, None if its jobs request different memory.
        queues: jobs of a label by queue.
        campaign: campaign of a queue, whose sets ran alike at several sites.
        site: site of a queue, empty for a single one.
    """

    name: str
    jobs: int
    failed: int
    quantities: Mapping[str, Quantiles]
    failures: Mapping[str, int]
    memory_asked_mb: float | None = None
    queues: Mapping[str, int] | None = None
    campaign: str = ""
    site: str = ""

    @property
    def failure_rate(self) -> float:
        """Part of the jobs that failed."""
        return self.failed / self.jobs


@dataclass(frozen=True)
class Profiles:
    """The labels and the queues of a document; ``origin`` names the source of its figures."""

    origin: str
    labels: tuple[Cell, ...]
    queues: tuple[Cell, ...]
    dropped: tuple[str, ...] = ()


def failure_class(code: str) -> str:
    """The class of ``pilot code/exe code/transformation exit code``.

    >>> [failure_class(code) for code in ("0/0/0", "1305/0/137", "1150/0/240", "1305/0/1", "1103/0/0")]
    ['no_code', 'memory', 'looping', 'payload', 'other']
    """
    try:
        pilot, exe, transformation = (int(part) for part in code.split("/"))
    except ValueError:
        return "other"
    if pilot in MEMORY or transformation == KILLED_BY_MEMORY:
        return "memory"
    if pilot in LOOPING:
        return "looping"
    if (pilot, exe, transformation) == (0, 0, 0):
        return "no_code"
    return "payload" if pilot == 1305 or exe or transformation else "other"


def read_profiles(document: Any, where: str) -> Profiles:
    """Read the profiles of a document; cells with fewer than 30 jobs or without quantiles are left out and listed.

    Raises:
        SimulationError: the document has another form; the message names the entry.
    """
    if not isinstance(document, Mapping) or not isinstance(document.get("labels"), list):
        raise SimulationError("the file holds no profiles of jobs", where, "give a document with labels and queues")
    dropped: list[str] = []
    labels = _cells(document["labels"], "label", f"{where}: labels", dropped)
    queues = _cells(document.get("queues") or [], "queue", f"{where}: queues", dropped)
    if not labels:
        raise SimulationError("no label has 30 jobs", where, "take a longer time, or a larger file")
    return Profiles(str(document.get("source") or where), labels, queues, tuple(dropped))


def _cells(entries: Any, key: str, where: str, dropped: list[str]) -> tuple[Cell, ...]:
    if not isinstance(entries, Sequence):
        raise SimulationError("this is no list", where, "give a list of cells")
    cells = []
    for number, entry in enumerate(entries):
        place = f"{where}[{number}]"
        if not isinstance(entry, Mapping):
            raise SimulationError("the entry is no object", place, "give label or queue, jobs, failed and quantiles")
        jobs, failed = _count(entry, "jobs", place), _count(entry, "failed", place)
        if failed > jobs:
            raise SimulationError(f"{failed} of {jobs} jobs failed", place, "jobs count those that failed as well")
        quantities = {name: _quantiles(entry[name], f"{place}: {name}") for name in QUANTITIES if entry.get(name)}
        known = {name: value for name, value in quantities.items() if value is not None}
        if jobs < FEWEST_JOBS or not known:
            dropped.append(f"{place}: {jobs} jobs" if jobs < FEWEST_JOBS else f"{place}: no quantiles")
            continue
        cells.append(_cell(entry, key, jobs, failed, known))
    return tuple(cells)


def _cell(entry: Mapping[str, Any], key: str, jobs: int, failed: int, known: Mapping[str, Quantiles]) -> Cell:
    failures = dict.fromkeys(CLASSES, 0)
    for code, count in dict(entry.get("failures") or {}).items():
        failures[failure_class(str(code))] += int(count)
    request_mb = entry.get("memory_asked_mb")
    campaign, _, site = str(entry.get("set", "")).partition(" at site ")
    return Cell(
        name=str(entry.get(key, "")),
        jobs=jobs,
        failed=failed,
        quantities=known,
        failures={name: count for name, count in failures.items() if count},
        memory_asked_mb=float(request_mb) if isinstance(request_mb, int | float) and request_mb > 0 else None,
        queues=dict(entry.get("queues") or {}) or None,
        campaign=campaign,
        site=site,
    )


def _count(entry: Mapping[str, Any], key: str, where: str) -> int:
    value = entry.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise SimulationError(f"{key} is {value!r}", where, "give a whole number from 0 on")
    return value


def _quantiles(value: Any, where: str) -> Quantiles | None:
    """Mean, p10, p50, p90; None unless all are above 0, as nothing can be fitted otherwise."""
    if not isinstance(value, Sequence) or len(value) != 4 or not all(isinstance(one, int | float) for one in value):
        raise SimulationError(f"{value!r} is not mean, p10, p50, p90", where, "give four numbers")
    mean, p10, p50, p90 = (float(one) for one in value)
    if not p10 <= p50 <= p90:
        raise SimulationError(f"the quantiles {p10}, {p50}, {p90} fall", where, "give p10, p50 and p90 in this order")
    return Quantiles(mean, p10, p50, p90) if p10 > 0 and math.isfinite(p90) and mean > 0 else None
