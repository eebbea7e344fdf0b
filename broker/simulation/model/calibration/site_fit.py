"""Fit queues, arrivals of tasks and sizes of files to a site's history.

Speeds: ln(median wall time) of a task at a queue is the sum of a part of the task and a part of the queue, fitted by
medians in turn. Failures: the failing part of the attempts is that of the task plus that of the queue, neither below 0.
Intervals come from resampling tasks, as the jobs of a task are copies of each other.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np

from broker.domain.arrays import Floats, Ints
from broker.simulation.model.calibration.estimate import Estimate
from broker.simulation.model.calibration.site_history import (
    History,
    SampleQuantiles,
    TapeRecord,
    TaskAtQueue,
    WorkersRecord,
)
from broker.simulation.model.scenario_parts import Tape, Workers
from broker.simulation.model.streams import stream

#: Minimum finished attempts of a task at a queue to count for its speed, and minimum jobs of a queue.
FEWEST_AT_QUEUE, FEWEST_JOBS = 10, 30
#: Minimum number of waits of workers to count.
FEWEST_WAITS = 10
#: Minimum tasks of a type of processing for a queue to have a speed of its own for that type.
FEWEST_TASKS = 3
RESAMPLES, ROUNDS = 100, 15
#: Spread of ln(speed) of an unknown queue, and its failures (assumed, as for generated grids).
UNKNOWN_SPEED_S, UNKNOWN_FAILURE = 0.3, 0.05
HOUR_S, HOURS_OF_WEEK = 3600.0, 168
#: The 90 % quantile of the standard normal distribution.
Z90 = 1.2815515655446004
#: Upper limit of failures: a request that always failed would be repeated for ever.
MOST_TAPE_FAILURE = 0.95
#: Computes a figure by queue from some rows.
Figures = Callable[[Ints], Floats]


@dataclass(frozen=True)
class SiteQueue:
    """A queue as described by its history.

    Attributes:
        name: name of the queue, or its rank if names are dropped.
        cores: most cores that ran at once.
        jobs: jobs that ended there.
        speed: wall times of the same task elsewhere over those here; 1 is the median queue.
        failure: part of the attempts that fails whatever runs.
        wait_s: time from activated to running: a result, never drawn.
        corepower: published HS06 a core; None if not published. Its deviation from the truth is part of ``speed``.
        worker_delay_s: time from submitted to started (:func:`_delay_of`).
        empty: part of the workers that had no job.
        speed_of_kind: speed by type of processing, for types with at least three compared tasks.
    """

    name: str
    cores: int
    jobs: int
    speed: Estimate
    failure: Estimate
    wait_s: SampleQuantiles | None = None
    corepower: float | None = None
    worker_delay_s: SampleQuantiles | None = None
    empty: float | None = None
    speed_of_kind: dict[str, Estimate] = field(default_factory=dict)


@dataclass(frozen=True)
class SiteFit:
    """The fit of a site.

    Attributes:
        days: length of its history.
        tasks: tasks that came in these days.
        queues: queues by name.
        use: part of the cores that ran.
        arrivals_production, arrivals_analysis: tasks by hour of the week, from Monday 0 h UTC on.
        sizes_gb: input and output of a job, over tasks with recorded files.
        pooled: queues with fewer than 30 jobs, whose speed and failures are those of all.
        lost_workers: part of the workers that vanished; None if no starts of workers are known.
        tape: how input on tape was read; None if unknown, and ``without_tape`` says why.
    """

    days: float
    tasks: int
    queues: tuple[SiteQueue, ...]
    use: float
    arrivals_production: tuple[int, ...]
    arrivals_analysis: tuple[int, ...]
    sizes_gb: dict[str, SampleQuantiles] = field(default_factory=dict)
    pooled: tuple[str, ...] = ()
    lost_workers: float | None = None
    tape: TapeRecord | None = None
    without_tape: str = ""

    @property
    def workers(self) -> Workers:
        """Workers of Harvester as recorded; disabled if their waits in the batch system are not known."""
        if self.lost_workers is None:
            return Workers()
        return Workers(enabled=True, lost=self.lost_workers)

    @property
    def read_tape(self) -> Tape:
        """Reading of tape as recorded; disabled if it is not known."""
        tape = self.tape
        if tape is None or tape.took_s is None or tape.took_s.p50 <= 0:
            return Tape()
        failure = min(MOST_TAPE_FAILURE, tape.failed / tape.files if tape.files else 0.0)
        return Tape(part=tape.part, median_s=tape.took_s.p50, spread=spread_of(tape.took_s), failure=failure)


def spread_of(values: SampleQuantiles) -> float:
    """The spread of ln of the counted values, by their upper half."""
    return math.log(max(values.p90, values.p50) / values.p50) / Z90


def fit_site(history: History) -> SiteFit:
    """Fit a site to its history."""
    ran = [queue for queue in history.queues if queue.most_cores >= 1]
    place = {queue.name: number for number, queue in enumerate(ran)}
    cells = [cell for cell in history.at_queues if cell.queue in place]
    speeds, failures = _speeds(cells, place, 1), _failures(cells, place)
    of_kind = {
        kind: _speeds([cell for cell in cells if cell.kind == kind], place, FEWEST_TASKS)
        for kind in sorted({cell.kind for cell in cells})
    }
    workers = {record.queue: record for record in history.workers}
    queues = []
    for queue, speed, failure in zip(ran, speeds, failures, strict=True):
        own = workers.get(queue.name)
        queues.append(
            SiteQueue(
                queue.name,
                round(queue.most_cores),
                queue.jobs,
                speed,
                failure,
                queue.wait_s,
                queue.corepower,
                None if own is None else _delay_of(own),
                None if own is None or not own.workers else own.empty / own.workers,
                {kind: of[place[queue.name]] for kind, of in of_kind.items() if of[place[queue.name]].n},
            )
        )
    capacity = sum(queue.most_cores for queue in ran) * history.length_s
    return SiteFit(
        history.length_s / 86_400.0,
        len(history.tasks),
        tuple(queues),
        sum(queue.core_s for queue in ran) / capacity if capacity else 0.0,
        _arrivals(history, analysis=False),
        _arrivals(history, analysis=True),
        _sizes(history),
        tuple(queue.name for queue in ran if queue.jobs < FEWEST_JOBS),
        _lost_workers(history),
        history.tape,
        history.without_tape,
    )


def _delay_of(workers: WorkersRecord) -> SampleQuantiles | None:
    """Delay of workers in the batch system, of those that found a slot free, as the model adds the wait for a slot.

    If these are too few, the delay of all workers: then the wait for a slot counts twice.
    """
    free = workers.free_delay_s
    return free if free is not None and free.n >= FEWEST_WAITS else workers.delay_s


def _lost_workers(history: History) -> float | None:
    """Part of the workers that vanished; None if waits are known for fewer workers than a cell needs jobs."""
    records = [record for record in history.workers if record.delay_s is not None and record.delay_s.p50 > 0]
    workers = sum(record.workers for record in records)
    return sum(record.lost for record in records) / workers if workers >= FEWEST_JOBS else None


def anonymous(fit: SiteFit) -> SiteFit:
    """The same fit with ranks by cores in place of the names of queues."""
    ordered = sorted(fit.queues, key=lambda queue: (-queue.cores, -queue.jobs, queue.name))
    rank = {queue.name: f"queue-{number:03d}" for number, queue in enumerate(ordered, start=1)}
    renamed = tuple(SiteQueue(**(vars(queue) | {"name": rank[queue.name]})) for queue in ordered)
    return SiteFit(**(vars(fit) | {"queues": renamed, "pooled": tuple(sorted(rank[name] for name in fit.pooled))}))


def speeds_of(fit: SiteFit) -> dict[tuple[str, str], float]:
    """Speed by queue and type of processing; the speed of the queue if none is known for the type."""
    kinds = sorted({kind for queue in fit.queues for kind in queue.speed_of_kind})
    return {
        (queue.name, kind): queue.speed_of_kind.get(kind, queue.speed).value for queue in fit.queues for kind in kinds
    }


def _speeds(cells: Sequence[TaskAtQueue], place: dict[str, int], fewest: int) -> list[Estimate]:
    usable = [cell for cell in cells if cell.wall_s and cell.jobs - cell.failed >= FEWEST_AT_QUEUE]
    queues_of = Counter(cell.task for cell in usable)
    known = [cell for cell in usable if queues_of[cell.task] >= 2]
    task, queue = _numbers(known, place)
    log_wall = np.log([cell.wall_s or 1.0 for cell in known])
    estimates = _resampled(
        task, queue, place, lambda rows: _speed(task[rows], queue[rows], log_wall[rows], len(place)), 1.0
    )
    return [estimate if estimate.n >= fewest else _unknown(1.0) for estimate in estimates]


def _speed(task: Ints, queue: Ints, log_wall: Floats, queues: int) -> Floats:
    """(Q,) speeds by alternating medians of the residuals of tasks and of queues; NaN for a queue never compared."""
    own = np.zeros(queues)
    for _ in range(ROUNDS):
        of_task = _medians(task, log_wall - own[queue])
        residuals = log_wall - of_task[task]
        medians = _medians(queue, residuals)
        own = np.full(queues, np.nan)
        own[: len(medians)] = medians
        own -= np.nanmedian(own) if np.isfinite(own).any() else 0.0
    return np.asarray(np.exp(-own)) if len(task) else np.full(queues, np.nan)


def _medians(group: Ints, values: Floats) -> Floats:
    """(G,) the median of the values of each group; NaN for none."""
    if not len(group):
        return np.zeros(0)
    order = np.lexsort((values, group))
    ordered, count = values[order], np.bincount(group)
    first = np.concatenate([[0], np.cumsum(count)[:-1]])
    low, high = first + (count - 1) // 2, first + count // 2
    last = len(ordered) - 1
    medians = (ordered[np.minimum(low, last)] + ordered[np.minimum(high, last)]) / 2.0
    return np.where(count > 0, medians, np.nan)


def _failures(cells: Sequence[TaskAtQueue], place: dict[str, int]) -> list[Estimate]:
    task, queue = _numbers(cells, place)
    jobs = np.array([float(cell.jobs) for cell in cells])
    failed = np.array([float(cell.failed) for cell in cells])

    def figure(rows: Ints) -> Floats:
        return _failure(task[rows], queue[rows], jobs[rows], failed[rows], len(place))

    return _resampled(task, queue, place, figure, UNKNOWN_FAILURE)


def _failure(task: Ints, queue: Ints, jobs: Floats, failed: Floats, queues: int) -> Floats:
    """(Q,) failure rates by alternating least squares, weighted by jobs, of tasks and queues, neither below 0."""
    of_task, of_queue = np.zeros(int(task.max(initial=-1)) + 1), np.zeros(queues)
    jobs_task = np.bincount(task, weights=jobs, minlength=len(of_task))
    jobs_queue = np.bincount(queue, weights=jobs, minlength=queues)
    for _ in range(ROUNDS):
        left = np.bincount(queue, weights=failed - of_task[task] * jobs, minlength=queues)
        of_queue = np.maximum(0.0, np.divide(left, jobs_queue, out=np.zeros(queues), where=jobs_queue > 0))
        left = np.bincount(task, weights=failed - of_queue[queue] * jobs, minlength=len(of_task))
        of_task = np.maximum(0.0, np.divide(left, jobs_task, out=np.zeros(len(of_task)), where=jobs_task > 0))
    return np.where(jobs_queue > 0, of_queue, np.nan)


def _numbers(cells: Sequence[TaskAtQueue], place: dict[str, int]) -> tuple[Ints, Ints]:
    tasks = {number: index for index, number in enumerate(dict.fromkeys(cell.task for cell in cells))}
    task = np.array([tasks[cell.task] for cell in cells], dtype=np.int64)
    return task, np.array([place[cell.queue] for cell in cells], dtype=np.int64)


def _resampled(task: Ints, queue: Ints, place: dict[str, int], figure: Figures, unknown: float) -> list[Estimate]:
    """A figure by queue with its 95 % interval; where no data determine it, ``unknown`` with a wide interval."""
    whole = figure(np.arange(len(task)))
    rows_of = [np.flatnonzero(task == number) for number in range(int(task.max(initial=-1)) + 1)]
    random = stream(0, "site", "resample")
    drawn = [
        figure(np.concatenate([rows_of[number] for number in random.integers(len(rows_of), size=len(rows_of))]))
        for _ in range(RESAMPLES if rows_of else 0)
    ]
    counts = np.bincount(queue, minlength=len(place))
    estimates = []
    for number in range(len(place)):
        if not np.isfinite(whole[number]):
            estimates.append(_unknown(unknown))
            continue
        own = np.array([sample[number] for sample in drawn])
        known = own[np.isfinite(own)]
        low, high = np.quantile(known, [0.025, 0.975]).tolist() if len(known) else (whole[number],) * 2
        estimates.append(Estimate(float(whole[number]), float(low), float(high), int(counts[number])))
    return estimates


def _unknown(value: float) -> Estimate:
    wide = math.exp(1.96 * UNKNOWN_SPEED_S)
    low, high = (1.0 / wide, wide) if value == 1.0 else (0.0, 2 * value)
    return Estimate(value, low, high, 0)


def _arrivals(history: History, *, analysis: bool) -> tuple[int, ...]:
    begin = datetime.fromtimestamp(history.since_s, UTC)
    first = begin.weekday() * 24 + begin.hour + begin.minute / 60.0
    hours = [
        int(first + task.arrival_s / HOUR_S) % HOURS_OF_WEEK for task in history.tasks if task.analysis is analysis
    ]
    return tuple(np.bincount(np.array(hours, dtype=np.int64), minlength=HOURS_OF_WEEK).tolist())


def _sizes(history: History) -> dict[str, SampleQuantiles]:
    sizes = {}
    for name in ("input_gb", "output_gb"):
        own = np.array([size for task in history.tasks if (size := getattr(task, name)) is not None and size > 0])
        if len(own):
            p10, p50, p90 = np.quantile(own, [0.1, 0.5, 0.9]).tolist()
            sizes[name] = SampleQuantiles(len(own), (p10, p50, p90))
    return sizes
