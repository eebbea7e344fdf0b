"""Traces of recorded tasks: arrival, number of jobs, run times and failures, without names.

Wall times are those at the median queue, and failures those of the task alone, without the part of the queue.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from broker.simulation.model.calibration.site_fit import SiteFit
from broker.simulation.model.calibration.site_history import History, SampleQuantiles, TaskAtQueue, TaskRecord
from broker.simulation.model.errors import SimulationError

COLUMNS = (
    "arrival_s", "kind", "share", "analysis", "user", "priority", "jobs", "cores", "asked_mb", "failure", "wall_p10_s",
    "wall_p50_s", "wall_p90_s", "cpu_p50_s", "input_gb", "output_gb",
)  # fmt: skip
#: Memory of a job without a request, MB a core; CPU time over wall time and cores if none is recorded (assumed).
USUAL_MB_CORE, USUAL_EFFICIENCY = 2000.0, 0.9


@dataclass(frozen=True)
class TraceTask:
    """A task of a trace; names contain the units, ``failure`` is the part of the attempts that fails at any queue."""

    arrival_s: float
    kind: str
    share: str
    analysis: bool
    user: int
    priority: float
    jobs: int
    cores: int
    asked_mb: float
    failure: float
    wall_p10_s: float
    wall_p50_s: float
    wall_p90_s: float
    cpu_p50_s: float
    input_gb: float = 0.0
    output_gb: float = 0.0


@dataclass(frozen=True)
class Trace:
    """The tasks by arrival; ``left_out`` counts tasks without a finished job, whose run times are unknown."""

    tasks: tuple[TraceTask, ...]
    left_out: int = 0

    @property
    def days(self) -> float:
        """Days until the last arrival, rounded up."""
        return float(max(1, math.ceil(max((task.arrival_s for task in self.tasks), default=0.0) / 86_400.0)))


def trace_of(history: History, fit: SiteFit) -> Trace:
    """The tasks of a history read with the speeds of a fit; the failures of the queues they ran at are subtracted."""
    cells: dict[int, list[TaskAtQueue]] = {}
    for cell in history.at_queues:
        cells.setdefault(cell.task, []).append(cell)
    failures = {queue.name: queue.failure.value for queue in fit.queues}
    tasks = [
        _traced(task, _failures_of_queues(cells.get(task.task, ()), failures))
        for task in history.tasks
        if task.wall_s is not None
    ]
    return Trace(tuple(sorted(tasks, key=lambda task: task.arrival_s)), len(history.tasks) - len(tasks))


def _failures_of_queues(cells: Sequence[TaskAtQueue], failures: Mapping[str, float]) -> float:
    """The mean failure rate of the queues where the attempts of a task ran, weighted by attempts."""
    known = [cell for cell in cells if cell.queue in failures]
    weights = [cell.jobs for cell in known]
    return float(np.average([failures[cell.queue] for cell in known], weights=weights)) if known else 0.0


def _traced(task: TaskRecord, failure: float) -> TraceTask:
    wall = task.wall_s or SampleQuantiles(0, (1.0, 1.0, 1.0))
    cpu = task.cpu_s.p50 if task.cpu_s else USUAL_EFFICIENCY * task.cores * wall.p50
    p10, p50, p90 = (max(1.0, one) for one in wall.quantiles)
    return TraceTask(
        task.arrival_s, task.kind, task.share, task.analysis, task.user, task.priority, max(1, task.jobs), task.cores,
        task.asked_mb or USUAL_MB_CORE * task.cores, max(0.0, task.failed / max(1, task.attempts) - failure),
        p10, p50, p90, cpu, task.input_gb or 0.0, task.output_gb or 0.0,
    )  # fmt: skip


def without_names(trace: Trace) -> Trace:
    """The trace without owners, and with ranks by work in place of the names of shares and types."""
    ranks = {}
    for name in ("share", "kind"):
        work: dict[str, float] = {}
        for task in trace.tasks:
            work[getattr(task, name)] = work.get(getattr(task, name), 0.0) + task.jobs * task.cores * task.wall_p50_s
        ordered = sorted(work, key=lambda one: (-work[one], one))
        ranks[name] = {one: f"{name}-{place:02d}" for place, one in enumerate(ordered, start=1)}
    tasks = [
        dataclasses.replace(task, share=ranks["share"][task.share], kind=ranks["kind"][task.kind], user=0)
        for task in trace.tasks
    ]
    return Trace(tuple(tasks), trace.left_out)


def write_trace(trace: Trace) -> str:
    """The trace as CSV with a header and six digits a figure."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for task in trace.tasks:
        writer.writerow([_cell(getattr(task, column)) for column in COLUMNS])
    return text.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return int(value)
    return f"{value:.6g}" if isinstance(value, float) else value


def read_trace(text: str, where: str) -> Trace:
    """Read the trace of a CSV text.

    Raises:
        SimulationError: a column is missing, or a value is invalid; the message names the line.
    """
    reader = csv.DictReader(io.StringIO(text))
    missing = [column for column in COLUMNS if column not in (reader.fieldnames or ())]
    if missing:
        raise SimulationError(f"no column {missing[0]}", where, "write a trace with broker calibrate --trace FILE")
    tasks = [_read(row, f"{where}: line {number}") for number, row in enumerate(reader, start=2)]
    if not tasks:
        raise SimulationError("the trace holds no task", where, "take a longer time")
    return Trace(tuple(sorted(tasks, key=lambda task: task.arrival_s)))


def _read(row: Mapping[str, str], where: str) -> TraceTask:
    values: dict[str, object] = {}
    for entry in dataclasses.fields(TraceTask):
        text = row[entry.name] or ""
        try:
            number = 0.0 if entry.type == "str" else float(text)
        except ValueError as error:
            raise SimulationError(f"{entry.name} is {text!r}", where, "give a number") from error
        if not (math.isfinite(number) and number >= 0) and entry.name != "priority":
            raise SimulationError(f"{entry.name} is {text!r}", where, "give a number not below 0")
        values[entry.name] = {"str": text, "bool": bool(number), "int": int(number)}.get(str(entry.type), number)
    task = TraceTask(**values)  # type: ignore[arg-type]
    if task.jobs < 1 or task.cores < 1 or not 0 < task.wall_p10_s <= task.wall_p50_s <= task.wall_p90_s:
        raise SimulationError("jobs, cores or wall times", where, "give at least 1 of each, and rising quantiles")
    return task
