"""Build a snapshot from raw sources: pure, and the same for rows just read and rows stored for a replay."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import numpy as np

from broker.domain.analysis import AnalysisGrid
from broker.domain.arrays import Bools, Ints, codes_of, frozen
from broker.domain.grid import StorageTable
from broker.domain.work import DroppedRow
from broker.snapshot import build_queues as queues
from broker.snapshot.build_nuclei import nuclei_of, outputs_of, storage_sharing
from broker.snapshot.draft import BuildCache, Draft
from broker.snapshot.raw import RawSource, SourceState
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.source import SourceError
from broker.snapshot.source_list import NAMES, outside_source
from broker.snapshot.sources.features import FEATURES
from broker.snapshot.sources.gpus import GPUS
from broker.snapshot.sources.jobs import JOBS
from broker.snapshot.sources.links import LINKS
from broker.snapshot.sources.metrics import METRICS
from broker.snapshot.sources.pilots import PILOTS
from broker.snapshot.sources.pools import POOLS
from broker.snapshot.sources.queues import QUEUES
from broker.snapshot.sources.quota import QUOTA
from broker.snapshot.sources.resource_types import RESOURCE_TYPES
from broker.snapshot.sources.slots import SLOTS
from broker.snapshot.sources.software import SOFTWARE
from broker.snapshot.sources.storages import STORAGES
from broker.snapshot.sources.user_jobs import USER_JOBS
from broker.snapshot.sources.worker_nodes import WORKER_NODES
from broker.snapshot.sources.workers import WORKERS


def build_analysis(draft: Draft) -> AnalysisGrid:
    """Build the figures for analysis; outdated and unusable rows are dropped."""
    users, metrics, quota = draft.of(USER_JOBS), draft.of(METRICS), draft.of(QUOTA)
    return AnalysisGrid(
        starts=users.starts,
        users=users.users,
        users_running=users.users_running,
        present=users.present,
        by_user=users.by_user,
        by_type=draft.of(JOBS).by_type,
        of_user=users.of_user,
        of_group=users.of_group,
        share_usage=metrics.usage,
        share_usage_l1=metrics.usage_l1,
        site_class=metrics.site_class,
        user_slots_left=metrics.slots_left,
        quotas=quota.lines,
        full_endpoints=quota.full_endpoints,
    )


def with_outside_sources(snapshot: Snapshot, sources: Mapping[str, RawSource]) -> Snapshot:
    """The snapshot with ``offered`` filled from those ``sources`` that are not among the grid sources.

    A source that cannot be built, or is no longer installed, gets the state ``failed`` with the reason, so that rules
    that need it answer *unknown*.
    """
    names = sorted(set(sources) - set(NAMES))
    if not names:
        return snapshot
    values: dict[str, Any] = {}
    states = {state.name: state for state in snapshot.states}
    for name in names:
        try:
            values[name] = outside_source(name).build(sources[name], snapshot)
        except SourceError as error:
            states[name] = _failed(states, name, str(error))
        except Exception as error:  # a broken source must not stop the broker: its state reports the fault
            states[name] = _failed(states, name, f"{type(error).__name__}: {error}"[:200])
    return dataclasses.replace(snapshot, offered=values, states=tuple(states.values()))


def _failed(states: Mapping[str, SourceState], name: str, detail: str) -> SourceState:
    known = states.get(name, SourceState(name, "failed", 0, None, None))
    return dataclasses.replace(known, state="failed", detail=detail)


def build_snapshot(
    identifier: str,
    taken_at: datetime,
    sources: Mapping[str, RawSource],
    states: tuple[SourceState, ...],
    digests: Mapping[str, str] | None = None,
    cache: BuildCache | None = None,
) -> Snapshot:
    """Build the snapshot from ``sources`` (by name; an absent one counts as empty).

    An unusable row is dropped, with its reason in ``dropped_rows``; nothing here raises for the content of a row.

    Args:
        identifier: identifier of the snapshot.
        taken_at: its instant.
        sources: the rows.
        states: state of each source.
        digests: digests of the content of the sources, by name.
        cache: values built for earlier snapshots; those built from sources with equal digests are reused.
    """
    draft = Draft(sources, taken_at, digests, cache)
    stored, nuclei, links = draft.of(STORAGES), nuclei_of(draft), draft.of(LINKS)
    snapshot = Snapshot(
        id=identifier,
        taken_at=taken_at,
        **draft.once(_candidates),
        unified=queues.build_unified(draft.once(_described), _activity(draft)),
        slots=draft.of(SLOTS),
        storages=stored.storages,
        relations=stored.relations,
        nuclei=nuclei,
        links=links,
        jobs=draft.of(JOBS).counts,
        shares_storage=draft.once(_shares_storage),
        features=draft.of(FEATURES),
        pools=draft.of(POOLS),
        analysis=build_analysis(draft) if USER_JOBS.name in sources else AnalysisGrid(),
        # last, when every source has reported what it dropped
        states=tuple(_with_dropped_rows(state, draft.dropped_rows) for state in states),
        dropped_rows=tuple(draft.dropped_rows),
    )
    _freeze(snapshot)
    return with_outside_sources(snapshot, sources)


def _described(draft: Draft) -> dict[str, Any]:
    """CRIC fields of the unified queues."""
    known = draft.of(QUEUES)
    return queues.described(known.records, known.site_of_queue)


def _candidates(draft: Draft) -> dict[str, Any]:
    outputs, sites = outputs_of(draft), draft.once(_described)["atlas_site"]
    output_sites = _storage_sites(outputs, draft.of(STORAGES).storages, list(draft.of(LINKS).sites))
    nuclei, shutdown_s = codes_of(sites, list(nuclei_of(draft).name)), draft.of(FEATURES).shutdown_s
    of_queues = (nuclei, outputs, output_sites, shutdown_s, sites)
    return queues.tables_of_candidates(draft.of(QUEUES).records, draft.of(RESOURCE_TYPES), *of_queues)


def _shares_storage(draft: Draft) -> Bools:
    return storage_sharing(draft.once(_described), draft.of(STORAGES).relations, outputs_of(draft), nuclei_of(draft))


def _activity(draft: Draft) -> queues.QueueActivity:
    """Measured and published fields of the unified queues that do not come from CRIC's queue rows."""
    pilots, software = draft.of(PILOTS), draft.of(SOFTWARE)
    return queues.QueueActivity(
        n_pilots=pilots.n_pilots,
        laststart_s=pilots.laststart_s,
        n_workers=draft.of(WORKERS),
        average_diskio_kbps=draft.of(JOBS).average_diskio_kbps,
        software=software.of_queues,
        container_sources=software.container_sources,
        cpu_levels=draft.of(WORKER_NODES),
        gpus=draft.of(GPUS),
    )


def _with_dropped_rows(state: SourceState, dropped_rows: list[DroppedRow]) -> SourceState:
    count = sum(entry.source == state.name and entry.code != "defaulted" for entry in dropped_rows)
    return dataclasses.replace(state, dropped_rows=count)


def _freeze(table: Any) -> None:
    for field in dataclasses.fields(table):
        value = getattr(table, field.name)
        if isinstance(value, np.ndarray):
            frozen(value)
        elif dataclasses.is_dataclass(value):
            _freeze(value)


def _storage_sites(outputs: Ints, storages: StorageTable, link_sites: list[str | None]) -> Ints:
    """(U,): row of the link matrix of the default output endpoint's site, -1 if there is none."""
    if len(storages) == 0:
        return np.full(len(outputs), -1, dtype=np.int64)
    sites = codes_of(storages.site_name, link_sites)
    return np.where(outputs >= 0, sites[np.maximum(outputs, 0)], -1)
