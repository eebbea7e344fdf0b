"""The current work of a site from the rows of its tables, as the start of a roll-out. Pure."""

from __future__ import annotations

import math
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from broker.domain.queue_health import kind_of
from broker.simulation.model.generated_grid import GridParameters
from broker.simulation.model.job_kinds import REFERENCE_HS06
from broker.simulation.model.snapshot_grid import grid_of_snapshot
from broker.simulation.model.work_ahead import RunningGroup, Shape, WaitingGroup, WorkAhead
from broker.snapshot.raw import RawSource
from broker.snapshot.snapshot import Snapshot

#: Minimum ended jobs of a kind to learn from; with fewer, the jobs of its resource type count, then the usual values.
FEWEST_ENDED = 10
USUAL_WALL_S, USUAL_SPREAD = 3600.0, 1.0
#: Number of distinct owners: more would make the tables of users large.
OWNERS = 64
_USUAL_RAM_MB_CORE = 2000.0


@dataclass(frozen=True)
class TaskRow:
    """Jobs of a task that wait for a queue, or all jobs of an arrived task."""

    task: int
    owner: str
    gshare: str
    resource_type: str
    processingtype: str
    label: str
    priority: float
    jobs: int
    cores: int
    ram_mb: float | None


@dataclass(frozen=True)
class JobRow(TaskRow):
    """Equal jobs at a queue; ``ages_s`` are the run times so far of each, or the wait of the first."""

    queue: str
    ages_s: tuple[float, ...]


@dataclass(frozen=True)
class EndedRow:
    """Ends of jobs of a kind at a queue, as summed in the record of queues; ``core_s`` is of the finished jobs."""

    queue: str
    kind: str
    processingtype: str
    resource_type: str
    finished: int
    failed: int
    core_s: float
    ratio_jobs: int
    ln_sum: float
    ln_square_sum: float


@dataclass(frozen=True)
class CapRow:
    """The maximum of running cores at a queue within weeks."""

    queue: str
    cores: int


@dataclass(frozen=True)
class WorkRows:
    """All rows of the work; ``came`` are the tasks that arrived in the last ``window_s``."""

    running: tuple[JobRow, ...]
    waiting: tuple[JobRow, ...]
    unassigned: tuple[TaskRow, ...]
    came: tuple[TaskRow, ...]
    ended: tuple[EndedRow, ...]
    cores: tuple[CapRow, ...]
    window_s: float


def work_of_site(rows: WorkRows, snapshot: Snapshot, sources: Mapping[str, RawSource]) -> WorkAhead:
    """The work on the grid of a snapshot, whose queues have the maximum of cores that ran there within weeks, if known.

    Places of input and output are ignored; queues that are not online, and their jobs, are left out.

    Raises:
        SimulationError: no queue of the snapshot is online with a site and cores, or there is no nucleus.
    """
    size, nothing = GridParameters(days=0.001, warm_up_s=0.0), (("tasks", ()), ("outages", ()))
    most_cores = {row.queue: row.cores for row in rows.cores}
    grid = grid_of_snapshot(snapshot, size, nothing, sources, most_cores)(0)
    power = {queue.name: queue.corepower for queue in grid.queues}
    place = {queue.name: number for number, queue in enumerate(grid.queues)}
    everything: list[TaskRow] = [*rows.running, *rows.waiting, *rows.unassigned, *rows.came]
    return WorkAhead(
        grid=grid,
        shapes=_shapes(everything, _Record(rows.ended, power)),
        online=(True,) * len(grid.queues),
        running=tuple(
            RunningGroup(place[row.queue], _name(row), row.ages_s, _owner(row.owner))
            for row in rows.running
            if row.queue in place
        ),
        waiting=(
            *(_waits(row, place[row.queue], row.ages_s[0]) for row in rows.waiting if row.queue in place),
            *(_waits(row, -1, 0.0) for row in rows.unassigned),
        ),
        came=tuple(_waits(row, -1, 0.0) for row in rows.came),
        window_s=rows.window_s,
    )


def _waits(row: TaskRow, queue: int, waited_s: float) -> WaitingGroup:
    return WaitingGroup(row.task, queue, _name(row), row.jobs, row.priority, waited_s, _owner(row.owner))


def _owner(name: str) -> int:
    return zlib.crc32(name.encode()) % OWNERS


def _name(row: TaskRow) -> str:
    return " / ".join((row.gshare, row.resource_type, row.processingtype, kind_of(row.label)))


def _shapes(rows: Sequence[TaskRow], record: _Record) -> dict[str, Shape]:
    by_name: dict[str, list[TaskRow]] = defaultdict(list)
    for row in rows:
        by_name[_name(row)].append(row)
    return {name: _shape(name, same, record) for name, same in by_name.items()}


def _shape(name: str, rows: Sequence[TaskRow], record: _Record) -> Shape:
    """The shape of most of the jobs."""
    first, cores = rows[0], Counter[int]()
    ram = Counter[float]()
    for row in rows:
        cores[row.cores] += row.jobs
        ram[(row.ram_mb or 0.0) / row.cores or _USUAL_RAM_MB_CORE] += row.jobs
    kind, most = kind_of(first.label), cores.most_common(1)[0][0]
    wall_s, spread, failure_rate = record.of(kind, first.processingtype, first.resource_type, most)
    return Shape(
        name, first.gshare, first.resource_type, most, ram.most_common(1)[0][0] / 1024.0, kind == "analysis",
        first.processingtype or "simul", 0.0, wall_s, spread, failure_rate,
    )  # fmt: skip


@dataclass
class _Sums:
    """Sums over ended jobs; ``hs06_s`` is the time of the finished ones on a core of the reference machine."""

    finished: int = 0
    failed: int = 0
    hs06_s: float = 0.0
    ratio_jobs: int = 0
    ln_sum: float = 0.0
    ln_square_sum: float = 0.0

    def add(self, row: EndedRow, corepower: float) -> None:
        self.finished += row.finished
        self.failed += row.failed
        self.hs06_s += row.core_s * corepower / REFERENCE_HS06
        self.ratio_jobs += row.ratio_jobs
        self.ln_sum += row.ln_sum
        self.ln_square_sum += row.ln_square_sum

    @property
    def spread(self) -> float:
        if self.ratio_jobs < FEWEST_ENDED:
            return USUAL_SPREAD
        mean = self.ln_sum / self.ratio_jobs
        return math.sqrt(max(0.01, self.ln_square_sum / self.ratio_jobs - mean * mean))


class _Record:
    """Run times of jobs by kind, type of processing and resource type, else by kind and resource type."""

    def __init__(self, rows: Iterable[EndedRow], corepower: Mapping[str, float]) -> None:
        self._sums: dict[tuple[str, ...], _Sums] = defaultdict(_Sums)
        for row in rows:
            power = corepower.get(row.queue, REFERENCE_HS06)
            self._sums[row.kind, row.processingtype, row.resource_type].add(row, power)
            self._sums[row.kind, row.resource_type].add(row, power)

    def of(self, kind: str, processingtype: str, resource_type: str, cores: int) -> tuple[float, float, float]:
        """Median and spread of the run times of finished jobs with this many cores, and the part that failed."""
        for key in ((kind, processingtype, resource_type), (kind, resource_type)):
            sums = self._sums.get(key)
            if sums is not None and sums.finished >= FEWEST_ENDED and sums.hs06_s > 0:
                mean_s = sums.hs06_s / sums.finished / cores
                wall_s = max(1.0, mean_s * math.exp(-(sums.spread**2) / 2.0))
                return wall_s, sums.spread, min(0.9, sums.failed / (sums.finished + sums.failed))
        return USUAL_WALL_S, USUAL_SPREAD, 0.0
