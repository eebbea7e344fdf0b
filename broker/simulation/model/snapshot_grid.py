"""A scenario with the grid of a snapshot; its work is generated, as a snapshot holds no tasks.

Queues keep what they publish (limits, capability, software, hardware), so that rules see the same values in the
simulation as on the grid. Shares keep their targets, and have work in proportion to their jobs. What a snapshot lacks
is assumed, as for generated grids: sizes of nodes, hidden speeds, failures, bandwidths of storages. The cores of a
queue are the larger of its running and its pledged cores; a known maximum of running cores replaces the pledge.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from broker.domain.arrays import Floats
from broker.simulation.model.errors import SimulationError
from broker.simulation.model.generated_grid import (
    SHARES,
    GridParameters,
    Share,
    draw_outages,
    draw_tasks,
    expected_core_s,
)
from broker.simulation.model.job_kinds import KINDS
from broker.simulation.model.scenario import Ages, Queue, Scenario, Site
from broker.simulation.model.scenario_checks import check
from broker.simulation.model.streams import stream
from broker.snapshot.raw import BadValueError, RawSource, json_object
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.sources.global_share_targets import SHARE_TARGETS, GlobalShareTargets
from broker.snapshot.sources.software import ALL_QUEUES

USUAL_COREPOWER, USUAL_MEMORY_GB_CORE, USUAL_MAXTIME_S = 10.0, 2.0, 345_600.0
#: Bytes of a storage that reports none, and bytes/s of storages: of nuclei (True) and of others.
USUAL_SPACE = {True: 2e15, False: 4e14}
STORAGE_BYTES_S = {True: 2e10, False: 5e9}
#: A limit above this per core is what single jobs may use, and not what nodes have.
MOST_MEMORY_GB_CORE = 6.0
_GB = 2.0**30
#: Sources that do not change in a simulation and name only queues.
KEPT = ("resource_types", "worker_nodes", "gpus")
#: Kinds of jobs of a share unknown to generated grids: of users if its name says so, else of production.
OF_USERS, OF_PRODUCTION = ("analysis",), ("simul", "digi_reco")


@dataclass(frozen=True)
class SnapshotGrid:
    """The grid of a snapshot; calling it with a seed makes the scenario.

    Attributes:
        name: name of the snapshot.
        sites, queues: sites and queues of the snapshot; queues lack the values drawn from a seed.
        link_bytes_s: measured bandwidth by pair of sites.
        parameters: parameters of the work: days, load, users, tasks.
        shares: leaf shares, with targets and parts of the work.
        known: sources copied from the snapshot.
        changes: fields of the scenario that are set afterwards, such as ages.
    """

    name: str
    sites: tuple[Site, ...]
    queues: tuple[Queue, ...]
    link_bytes_s: Mapping[tuple[int, int], float]
    parameters: GridParameters
    shares: tuple[Share, ...] = SHARES
    known: tuple[RawSource, ...] = ()
    changes: tuple[tuple[str, Any], ...] = field(default=())

    def __call__(self, seed: int) -> Scenario:
        """Make the scenario of a seed."""
        queues = tuple(self._drawn(queue, seed) for queue in self.queues)
        scenario = Scenario(
            name=self.name,
            days=self.parameters.days,
            sites=self.sites,
            queues=queues,
            shares=tuple((name, weight) for name, weight, _, _ in self.shares),
            tasks=draw_tasks(self.parameters, queues, self.sites, seed, self.shares),
            link_bytes_s=dict(self.link_bytes_s),
            default_link_bytes_s=self.parameters.wan_bytes_s,
            outages=draw_outages(self.parameters, queues, seed),
            ages=Ages(),
            warm_up_s=self.parameters.warm_up_s,
        )
        return check(dataclasses.replace(scenario, known=self.known, **dict(self.changes)))

    def _drawn(self, queue: Queue, seed: int) -> Queue:
        random = stream(seed, queue.name, "hardware")
        return dataclasses.replace(
            queue,
            hidden_speed=float(np.exp(random.normal(0.0, self.parameters.speed_spread))),
            failure_rate=float(random.beta(2, 38)),
        )


def grid_of_snapshot(
    snapshot: Snapshot,
    parameters: GridParameters,
    changes: tuple[tuple[str, Any], ...] = (),
    sources: Mapping[str, RawSource] | None = None,
    most_cores: Mapping[str, int] | None = None,
) -> SnapshotGrid:
    """The queues of a snapshot that are online and have a site and cores, with their sites, rules and links.

    Args:
        snapshot: snapshot of the grid.
        parameters: parameters of the work.
        changes: fields of the scenario that are set afterwards.
        sources: sources that the snapshot was built from, by name; None for queues that differ only in their size.
        most_cores: maximum of running cores by name of queue; it replaces the pledge of the queue.

    Raises:
        SimulationError: there is no such queue, or no nucleus among its sites.
    """
    cores, unified = _cores(snapshot, most_cores or {}), snapshot.unified
    used = [
        number
        for number in range(len(unified))
        if unified.status[number] == "online" and unified.atlas_site[number] and cores[number] >= 1
    ]
    where = f"snapshot {snapshot.id}"
    if not used:
        raise SimulationError(
            "no queue is online, with a site, and runs or pledges any core", where, "take another snapshot"
        )
    nuclei = {str(n) for n, is_one in zip(snapshot.nuclei.name, snapshot.nuclei.is_nucleus, strict=True) if is_one}
    names = sorted({str(unified.atlas_site[number]) for number in used} | nuclei)
    sites = tuple(_site(snapshot, name, name in nuclei) for name in names)
    if not nuclei:
        raise SimulationError("none of its sites is a nucleus", where, "output needs somewhere to go")
    queues = tuple(
        _queue(snapshot, number, round(float(cores[number])), names.index(str(unified.atlas_site[number])))
        for number in used
    )
    grid = SnapshotGrid(snapshot.id, sites, queues, _links(snapshot, names), parameters, changes=changes)
    return grid if sources is None else _with_rules(grid, snapshot, sources)


def _with_rules(grid: SnapshotGrid, snapshot: Snapshot, sources: Mapping[str, RawSource]) -> SnapshotGrid:
    """The grid with what its queues publish, and with the shares of the snapshot if it has any."""
    published = _documents(sources.get("queues"), "schedconfig_json")
    tags = _documents(sources.get("software"), "sw_tags")
    queues = tuple(
        dataclasses.replace(queue, published=published.get(queue.name, {}), software=tags.get(queue.name, {}))
        for queue in grid.queues
    )
    known = tuple(sources[name] for name in KEPT if name in sources and sources[name].row_count)
    return dataclasses.replace(grid, queues=queues, shares=_shares(snapshot, sources, queues), known=known)


def _documents(source: RawSource | None, table: str) -> dict[str, dict[str, Any]]:
    """The JSON document of each queue, by nickname if it has one; documents that cannot be read are skipped."""
    documents: dict[str, dict[str, Any]] = {}
    for row in () if source is None else source.rows(table).records():
        if row["panda_queue"] == ALL_QUEUES:
            continue
        try:
            document = json_object(row["data"], "data")
        except BadValueError:
            continue
        documents.setdefault(str(document.get("nickname") or row["panda_queue"]), document)
    return documents


def _shares(snapshot: Snapshot, sources: Mapping[str, RawSource], queues: Sequence[Queue]) -> tuple[Share, ...]:
    """The leaf shares with their targets, and parts of the work in proportion to their jobs at queues.

    Without any jobs the work is in proportion to the targets; without shares those of generated grids are used.
    """
    raw = sources.get(SHARE_TARGETS)
    targets = {} if raw is None else GlobalShareTargets().build(raw, snapshot)
    wanted = {name: float(target) for name, target in targets.items() if target > 0}
    if not wanted:
        return SHARES
    jobs = dict(zip(snapshot.jobs.accounting_keys, snapshot.jobs.by_accounting_key.sum(axis=(0, 2)), strict=True))
    power = float(np.average([queue.corepower for queue in queues], weights=[queue.cores for queue in queues]))
    kinds = {name: _kinds_of(name) for name in wanted}
    work = {
        name: float(jobs.get(name, 0.0)) * float(np.mean([expected_core_s(KINDS[kind], power) for kind in kinds[name]]))
        for name in wanted
    }
    parts = work if sum(work.values()) > 0 else wanted
    whole = sum(parts.values())
    return tuple((name, wanted[name], parts[name] / whole, kinds[name]) for name in sorted(wanted))


def _kinds_of(share: str) -> tuple[str, ...]:
    usual = {name: kinds for name, _, _, kinds in SHARES}
    return usual.get(share, OF_USERS if "analysis" in share.lower() else OF_PRODUCTION)


def _cores(snapshot: Snapshot, most: Mapping[str, int]) -> Floats:
    """(U,) cores of each queue: the larger of its running cores and of their maximum, or without one its pledge."""
    running = snapshot.jobs.running_cores.sum(axis=1) if snapshot.jobs.running_cores.size else np.zeros(0)
    cores = running if len(running) == len(snapshot.unified) else np.zeros(len(snapshot.unified))
    pledged = np.zeros(len(snapshot.unified))
    np.maximum.at(pledged, snapshot.queues.unified, np.nan_to_num(snapshot.queues.pledgedcpu))
    ran = np.array([most.get(str(name), 0) for name in snapshot.unified.name], dtype=np.float64)
    return np.asarray(np.maximum(cores, np.where(ran > 0, ran, pledged)))


def _site(snapshot: Snapshot, name: str, is_nucleus: bool) -> Site:
    own = snapshot.storages.site_name == name
    total = float(np.nansum(snapshot.storages.space_total_gb[own])) * _GB
    free = float(np.nansum(snapshot.storages.space_free_gb[own])) * _GB
    if total <= 0:
        total, free = USUAL_SPACE[is_nucleus], 0.4 * USUAL_SPACE[is_nucleus]
    rate = STORAGE_BYTES_S[is_nucleus]
    return Site(name, is_nucleus, total, min(total, max(0.0, total - free)), rate, rate)


def _queue(snapshot: Snapshot, number: int, cores: int, site: int) -> Queue:
    """A queue as described by its pseudo-queues, with nodes of 32 cores, or of 16 if it has fewer cores.

    A limit of more than :data:`MOST_MEMORY_GB_CORE` a core is what single jobs may use, and not what each core has: a
    node has the largest other limit per core, and room for one of the largest jobs.
    """
    own = snapshot.queues.unified == number
    table, name = snapshot.queues, str(snapshot.unified.name[number])
    node_cores = 32 if cores >= 32 else 16
    memory_gb = node_memory_gb(
        np.nan_to_num(table.maxrss_mb[own]), np.maximum(np.nan_to_num(table.cores[own]), 1.0), node_cores
    )
    power = np.nan_to_num(table.corepower[own]).max(initial=0.0)
    maxtime = np.nan_to_num(table.maxtime_s[own]).max(initial=0.0)
    pulls = any(str(workflow or "").startswith("pull") for workflow in table.workflow[own])
    return Queue(
        name=name,
        site=site,
        nodes=max(1, round(cores / node_cores)),
        node_cores=node_cores,
        node_memory_gb=memory_gb,
        corepower=float(power or USUAL_COREPOWER),
        mode="pull" if pulls else "push",
        max_waiting_pilots=max(5, cores // 100),
        maxtime_s=float(maxtime or USUAL_MAXTIME_S),
    )


def node_memory_gb(maxrss_mb: Floats, cores: Floats, node_cores: int) -> float:
    """Memory of a node by the limits and cores of jobs of its pseudo-queues; a limit of 0 means no limit.

    >>> node_memory_gb(np.array([64_000.0, 4_096.0]), np.array([1.0, 1.0]), 32)
    128.0
    >>> node_memory_gb(np.array([0.0]), np.array([8.0]), 32)
    64.0
    """
    a_core = maxrss_mb / cores / 1024.0
    usual = a_core[(a_core > 0) & (a_core <= MOST_MEMORY_GB_CORE)]
    job_gb = float(maxrss_mb[cores <= node_cores].max(initial=0.0)) / 1024.0
    return max(node_cores * float(usual.max(initial=0.0) or USUAL_MEMORY_GB_CORE), job_gb)


def _links(snapshot: Snapshot, names: list[str]) -> dict[tuple[int, int], float]:
    """Bytes/s of the measured links: over the last hour, else the last day, else the last week."""
    links, bandwidths = snapshot.links, {}
    place = {name: number for number, name in enumerate(names)}
    for row, source in enumerate(links.sites):
        for column, target in enumerate(snapshot.nuclei.name):
            rates = (table[row, column] for table in (links.mbps_1h, links.mbps_1d, links.mbps_1w))
            rate = next((float(one) for one in rates if one > 0), 0.0)
            if rate > 0 and source in place and target in place and source != target:
                bandwidths[place[str(source)], place[str(target)]] = rate * 1e6
    return bandwidths
