"""Tables of the grid that rules read besides queues: storages, nuclei, links, job counts, output endpoints, pools.

All are columns: E storage endpoints, L relations of queues to endpoints, N nuclei, S x N links, U x G x status job
counts. :class:`OutputEndpoints` says where a nucleus would store each output and log dataset; :class:`PoolTable` says
which places (Site/CE/queue) belong to which queue, and which are eligible for which SubmitPool. Space is in GB (2**30
bytes); NaN is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from broker.domain.arrays import Bools, Floats, Ints, Texts, distinct, frozen
from broker.domain.work import PlacementConstraints

#: Order of the last axis of :class:`JobCounts`.
COUNTED_STATUSES = ("defined", "assigned", "activated", "starting", "running", "transferring")


@dataclass(frozen=True)
class StorageTable:
    """Storage endpoints (length E). Space in GB (2**30 bytes), NaN where unreported; activities: usable or not."""

    name: Texts
    site_name: Texts
    type: Texts
    is_tape: Bools
    space_total_gb: Floats
    space_free_gb: Floats
    space_expired_gb: Floats
    space_min_free_gb: Floats
    space_unavailable_gb: Floats
    blacklisted_read: Bools
    read_lan: Bools  # activity ON or not published
    write_lan: Bools
    read_wan: Bools
    write_wan: Bools
    open_read_lan: Bools  # activity neither OFF nor TEST
    open_write_lan: Bools
    open_read_wan: Bools
    open_write_wan: Bools

    def __len__(self) -> int:
        return len(self.name)

    @property
    def space_usable_gb(self) -> Floats:
        """Free and expired space without the reserved and unavailable parts, in GB; unreported figures are 0."""
        free, expired = np.nan_to_num(self.space_free_gb), np.nan_to_num(self.space_expired_gb)
        return free + expired - np.nan_to_num(self.space_min_free_gb) - np.nan_to_num(self.space_unavailable_gb)


@dataclass(frozen=True)
class RelationTable:
    """The endpoints used by queues (length L), by scope. Input: read_lan and not blacklisted for reading."""

    unified: Ints
    storage: Ints
    scope: Texts
    is_input: Bools
    is_output: Bools
    order_read: Floats
    order_write: Floats
    default_read: Bools
    default_write: Bools
    is_local: Bools

    def __len__(self) -> int:
        return len(self.unified)

    @cached_property
    def of_default_scope(self) -> Bools:
        """(L,): the relations of production, whose scope is ``default``."""
        return frozen(np.asarray(self.scope == "default", dtype=np.bool_))


@dataclass(frozen=True)
class NucleusTable:
    """ATLAS sites as collectors of output (length N): nuclei, and satellites that may serve as nuclei."""

    name: Texts
    is_nucleus: Bools  # False: satellite
    state: Texts
    bare: Ints  # BARE_NONE, BARE_ONLY, BARE_ALLOW
    secondary: Texts
    output_storage: Ints  # default output endpoint of the first queue by name, -1 if none
    first_unified: Ints  # that queue

    def __len__(self) -> int:
        return len(self.name)


@dataclass(frozen=True)
class LinkMatrix:
    """Links between the sites of storages (S rows) and nuclei (N columns); NaN without a fresh value.

    ``queued`` and ``queued_urgent`` are files, ``total_*`` their sums over all sources (N,), ``mbps_*`` MB/s.
    Source: PanDA data model, network matrix; ATLAS brokerage, network weight.
    """

    sites: Texts
    closeness: Floats
    queued: Floats
    queued_urgent: Floats
    mbps_1h: Floats
    mbps_1d: Floats
    mbps_1w: Floats
    total_queued: Floats
    total_queued_urgent: Floats


@dataclass(frozen=True)
class JobCounts:
    """Jobs by unified queue (U), accounting key (G) and status (see COUNTED_STATUSES).

    An accounting key is a global share, or ``#id`` for a work queue of function Resource. ``by_accounting_key`` counts
    every job under its share; rows of Resource queues are counted under ``#id`` as well. ``total`` (U, status) counts
    each job once.
    """

    accounting_keys: tuple[str, ...]
    by_accounting_key: Floats  # (U, G, status)
    total: Floats  # (U, status)
    transferring_to: Floats  # (U, N): transferring jobs by their nucleus
    running_cores: Floats  # (U, K): running cores by (vo, prodsourcelabel), see core_keys
    core_keys: tuple[tuple[str | None, str | None], ...]
    resource_work_queues: frozenset[int]
    starting_cores: Floats = field(default_factory=lambda: np.zeros((0, 0)))  # (U, K), as running_cores
    rows: Iterable[Mapping[str, Any]] = ()  # what was counted, with the position of the queue under ``unified``


@dataclass(frozen=True)
class OutputEndpoints:
    """The endpoint for each output or log dataset at each nucleus.

    ``token`` (O,) points from the datasets of an :class:`~broker.domain.task_work.OutputTable` into the rows of the
    tables, -1 for a distributed dataset, which has no fixed place. Tables (K, N) hold positions in the storage table,
    -1 for none: ``own`` at the nucleus itself, ``secondary`` at its secondary nucleus, ``written`` like ``own`` except
    for a satellite without one, which uses its default output endpoint.
    """

    token: Ints
    own: Ints
    secondary: Ints
    written: Ints
    has_secondary: Bools  # (N,)


@dataclass(frozen=True)
class PoolTable:
    """Places (length N), each a Site/CE/queue, by ascending number; and pools (length P).

    ``unified`` points into UnifiedTable. ``members`` holds the comma-separated numbers of a pool's eligible places.
    """

    number: Ints
    site: Texts
    unified: Ints
    pool: Texts
    members: Texts

    def admitted(self, constraints: PlacementConstraints, own_sites: Texts) -> tuple[Bools, Bools]:
        """Whether each unified queue has a place at a requested site, and one there that is eligible for the pool.

        ``own_sites`` (U,): the site of each queue, used if its places are unknown.
        """
        right = _admitted_sites(constraints, *self._sites)
        at_site = _admitted_sites(constraints, *distinct(own_sites))
        at_site[self.unified] = False
        at_site[self.unified[right]] = True
        if constraints.pool is None:
            return at_site, at_site
        in_pool = np.zeros(len(own_sites), dtype=np.bool_)
        members = self.tie_break_order(constraints.pool)
        in_pool[self.unified[members[right[members]]]] = True
        return at_site, in_pool

    @cached_property
    def _sites(self) -> tuple[list[str | None], Ints]:
        return distinct(self.site)

    @cached_property
    def _members_of(self) -> dict[str | None, str | None]:
        return dict(zip(self.pool.tolist(), self.members.tolist(), strict=True))

    def tie_break_order(self, pool: str) -> Ints:
        """Positions of the places that are eligible for a pool."""
        members = self._members_of.get(pool)
        return np.flatnonzero(np.isin(self.number, np.array(members.split(",") if members else [], dtype=np.int64)))


def _admitted_sites(constraints: PlacementConstraints, sites: list[str | None], code: Ints) -> Bools:
    return np.array([constraints.admits(site) for site in sites], dtype=np.bool_)[code]


def _nothing() -> PoolTable:
    text, whole = np.empty(0, dtype=np.object_), np.empty(0, dtype=np.int64)
    return PoolTable(whole, text, whole, text, text)


NO_POOLS = _nothing()
"""The table without places and pools."""
