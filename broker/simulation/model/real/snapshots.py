"""Up-to-date snapshots of the simulated grid: a snapshot is built once, and only its changing parts are replaced."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

import numpy as np

from broker.domain.arrays import Floats, Ints, texts
from broker.domain.grid import COUNTED_STATUSES, JobCounts, LinkMatrix
from broker.simulation.model.information import GridView
from broker.simulation.model.job_states import TaskState
from broker.simulation.model.real.chunk_work import FIRST_DATASET
from broker.simulation.model.real.grid_rows import START, instant, share_targets, static_snapshot
from broker.simulation.model.real.learned import CapacityKeeper, HealthKeeper, failed_inputs
from broker.simulation.model.real.user_figures import analysis_grid, outside_values
from broker.simulation.model.scenario import Scenario
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.sources.failed_inputs import FAILED_INPUTS
from broker.snapshot.sources.global_share_targets import SHARE_TARGETS
from broker.snapshot.sources.queue_capacity import QUEUE_CAPACITY
from broker.snapshot.sources.queue_health import QUEUE_HEALTH
from broker.snapshot.sources.task_failures import TASK_FAILURES

_DEFINED = COUNTED_STATUSES.index("defined")
_RUNNING = COUNTED_STATUSES.index("running")
_TRANSFERRING = COUNTED_STATUSES.index("transferring")
_GB = 2**30
#: Assumed cores of a running job if only the number of jobs is known.
RUNNING_JOB_CORES = 8.0


class SnapshotKeeper:
    """Converts views of the grid to snapshots.

    Args:
        scenario: scenario of the simulation.
        vo: VO whose queues the snapshots hold; None for all queues.

    Attributes:
        queue_of: (Q,) queue in the scenario of each candidate of the snapshot.
        site_of_nucleus: site in the scenario of each nucleus of the snapshot.
    """

    def __init__(self, scenario: Scenario, vo: str | None = None) -> None:
        queues = tuple(queue for queue in scenario.queues if vo is None or queue.takes(vo))
        self.scenario, self.base = scenario, static_snapshot(dataclasses.replace(scenario, queues=queues))
        self._of_vo = np.array(
            [[scenario.vo_of(s) == one for one in scenario.vos] for s in range(len(scenario.shares))]
        )
        number = {queue.name: place for place, queue in enumerate(scenario.queues)}
        self._order: Ints = np.array([number[str(name)] for name in self.base.unified.name], dtype=np.int64)
        self.queue_of: Ints = self._order[self.base.queues.unified]
        names = sorted(name for name, _ in scenario.shares)
        self._tags = tuple(names)
        self._tag_order = [[name for name, _ in scenario.shares].index(name) for name in names]
        sites = {site.name: place for place, site in enumerate(scenario.sites)}
        self._nuclei = [sites[str(name)] for name in self.base.nuclei.name]
        self.site_of_nucleus = self._nuclei
        self._link_sites = [sites[str(name)] for name in self.base.links.sites]
        self._storage_sites = np.array([sites[str(name)] for name in self.base.storages.site_name], dtype=np.int64)
        self._links: tuple[float, LinkMatrix] | None = None
        self._last: tuple[GridView, Snapshot] | None = None
        self.health = HealthKeeper(scenario)
        self.capacity = CapacityKeeper([queue.name for queue in scenario.queues])
        self._queues_online: bytes = b""
        self._queues = (self.base.queues, self.base.unified)

    def snapshot(self, view: GridView) -> Snapshot:
        """The grid of a view; jobs assigned since its statistics were read count as defined."""
        if self._last is None or self._last[0] is not view:
            self._last = (view, self._snapshot(view))
        return self._last[1]

    def _snapshot(self, view: GridView) -> Snapshot:
        self._set_online(view)
        queues, unified = self._queues
        last = last_starts_s(view) + START.timestamp()
        free = free_gb(view)[self._storage_sites]
        return dataclasses.replace(
            self.base,
            id=f"simulation-{view.now_s:.0f}",
            taken_at=instant(view.now_s),
            queues=queues,
            unified=dataclasses.replace(unified, laststart_s=last[self._order]),
            storages=dataclasses.replace(self.base.storages, space_free_gb=free),
            links=self._links_of(view),
            jobs=self._jobs(view),
        )

    def queues_of(self, snapshot: Snapshot) -> Ints:
        """(Q,) queue in the scenario of each candidate of a brokerage's snapshot; some brokerages add candidates."""
        return self._order[snapshot.queues.unified]

    def with_sources(
        self,
        view: GridView,
        sources: Collection[str],
        users: Sequence[int] | None,
        tasks: Sequence[TaskState] = (),
    ) -> Snapshot:
        """The snapshot of a view with the sources that the rules and steps of a job brokerage name.

        Args:
            view: view of the grid.
            sources: named sources.
            users: users whose figures the analysis brokerage needs; None for the production brokerage.
            tasks: brokered tasks.
        """
        snapshot = self.snapshot(view)
        offered = {name: value for name, value in outside_values(self.scenario, view.users).items() if name in sources}
        if SHARE_TARGETS in sources:
            offered[SHARE_TARGETS] = share_targets(self.scenario)
        if QUEUE_HEALTH in sources:
            offered[QUEUE_HEALTH] = self.health.learned(view, START.timestamp())
        if TASK_FAILURES in sources:
            offered[TASK_FAILURES] = self.health.failing_tasks(view, START.timestamp())
        if FAILED_INPUTS in sources:
            names = [queue.name for queue in self.scenario.queues]
            offered[FAILED_INPUTS] = failed_inputs(names, tasks, view.now_s, START.timestamp(), FIRST_DATASET)
        if QUEUE_CAPACITY in sources:
            offered[QUEUE_CAPACITY] = self.capacity.learned(view)
        if users is not None:
            analysis = analysis_grid(self.scenario, view, self._order, users)
            return dataclasses.replace(snapshot, analysis=analysis, offered=offered)
        return dataclasses.replace(snapshot, offered=offered) if offered else snapshot

    def _jobs(self, view: GridView) -> JobCounts:
        by_tag = view.counts[self._order][:, self._tag_order, :].copy()
        by_tag[:, :, _DEFINED] += view.assigned[self._order][:, self._tag_order]
        total = by_tag.sum(axis=1)
        transferring = over_nuclei(by_tag[:, :, _TRANSFERRING], len(self._nuclei)).sum(axis=1)
        running = view.counts[self._order][:, :, _RUNNING]
        cores: Floats = (running @ self._of_vo) * RUNNING_JOB_CORES
        no_cores = np.zeros_like(cores)  # cores of starting jobs are not distinguished here
        return JobCounts(
            self._tags,
            by_tag,
            total,
            transferring,
            cores,
            tuple((vo, "managed") for vo in self.scenario.vos),
            frozenset(),
            starting_cores=no_cores,
        )

    def _links_of(self, view: GridView) -> LinkMatrix:
        if self._links is None or self._links[0] != view.links_read_s:
            queued = np.array(
                [[view.queued.get((site, nucleus), 0) for nucleus in self._nuclei] for site in self._link_sites],
                dtype=np.float64,
            )
            base = self.base.links
            fresh = np.where(np.isnan(base.queued), np.nan, queued)
            matrix = dataclasses.replace(base, queued=fresh, total_queued=np.nansum(fresh, axis=0))
            self._links = (view.links_read_s, matrix)
        return self._links[1]

    def _set_online(self, view: GridView) -> None:
        key = view.online.tobytes()
        if key == self._queues_online:
            return
        self._queues_online = key
        status = np.where(view.online[self._order], "online", "offline").tolist()
        base = self.base
        unified = dataclasses.replace(base.unified, status=texts(status))
        of_candidate = [status[place] for place in base.queues.unified.tolist()]
        self._queues = (dataclasses.replace(base.queues, status=texts(of_candidate)), unified)


def last_starts_s(view: GridView) -> Floats:
    """(U,) virtual time of the last start at each queue; a minute ago if there was none, so as not to penalise it."""
    return np.where(np.isnan(view.last_start_s), view.now_s - 60.0, view.last_start_s)


def free_gb(view: GridView) -> Floats:
    """(sites,) free space in whole GB, as stored in the table of endpoints."""
    return np.asarray(np.maximum(np.floor(view.free_bytes / _GB), 0.0))


def over_nuclei(jobs: Floats, nuclei: int) -> Floats:
    """(..., N) whole jobs for each nucleus; they are spread evenly, as their destinations are not read."""
    if not nuclei:
        return np.zeros((*np.shape(jobs), 0))
    each, remainder = np.divmod(np.asarray(jobs, dtype=np.float64)[..., None], nuclei)
    return np.asarray(each + (np.arange(nuclei) < remainder))
