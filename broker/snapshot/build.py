"""Raw sources to a snapshot: pure, and the same for rows just read and rows kept for a replay."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import numpy as np

from broker.domain.analysis import AnalysisGrid
from broker.domain.arrays import Floats, Ints, codes_of, frozen
from broker.domain.grid import StorageTable
from broker.domain.work import DroppedRow
from broker.snapshot import build_jobs as jobs
from broker.snapshot import build_queues as queues
from broker.snapshot.build_analysis import build_analysis
from broker.snapshot.build_features import build_features
from broker.snapshot.build_links import build_links
from broker.snapshot.build_offered import with_outside_sources
from broker.snapshot.build_pins import PINS, pins_in_force, unknown_queues
from broker.snapshot.build_pools import build_pools
from broker.snapshot.build_storages import build_relations, build_storages, storage_sharing
from broker.snapshot.raw import RawSource
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.software_rows import build_gpus, build_software
from broker.snapshot.sources import SOURCES, SourceState


def build_snapshot(
    identifier: str, taken_at: datetime, sources: Mapping[str, RawSource], states: tuple[SourceState, ...]
) -> Snapshot:
    """The snapshot made from ``sources`` (by name; one that is not there counts as empty).

    A row that cannot be used is left out, with its reason in ``dropped_rows``; nothing here raises for the content of a
    row.
    """
    raw = {name: sources.get(name, RawSource(name, {})) for name in SOURCES}
    now_s = taken_at.timestamp()
    dropped_rows: list[DroppedRow] = []
    records = queues.read_queues(raw["queues"], dropped_rows, pins_in_force(raw[PINS], now_s, dropped_rows))
    kinds = queues.read_resource_types(raw["resource_types"], dropped_rows)
    site_of_queue, sites = queues.read_sites(raw["queues"], dropped_rows)
    unified = {record.name: index for index, record in enumerate(records)}
    unknown_queues(raw[PINS], unified, dropped_rows)
    storages = build_storages(raw["storages"], dropped_rows)
    relations = build_relations(raw["storages"], unified, storages, dropped_rows)
    outputs = queues.default_outputs(relations, len(records))
    nuclei = queues.build_nuclei(records, site_of_queue, sites, outputs)
    nucleus_index = {str(name): index for index, name in enumerate(nuclei.name)}
    links = build_links(raw["links"], now_s, list(nucleus_index), dropped_rows)
    special = jobs.resource_work_queues(raw["work_queues"], dropped_rows)
    counts, average_diskio = jobs.build_jobs(raw["jobs"], unified, nucleus_index, special, dropped_rows)
    activity = _activity(raw, unified, now_s, average_diskio, dropped_rows)
    table = queues.build_unified(records, site_of_queue, activity)
    features = build_features(raw["features"], unified, dropped_rows)
    output_sites = _storage_sites(outputs, storages, list(links.sites))
    of_queues = (codes_of(table.atlas_site, list(nucleus_index)), outputs, output_sites, features.shutdown_s)
    analysis = build_analysis(raw, unified, now_s, dropped_rows) if "user_jobs" in sources else AnalysisGrid()
    snapshot = Snapshot(
        id=identifier,
        taken_at=taken_at,
        **queues.tables_of_candidates(records, kinds, *of_queues),
        unified=table,
        slots=jobs.build_slots(raw["slots"], unified, now_s, dropped_rows),
        storages=storages,
        relations=relations,
        nuclei=nuclei,
        links=links,
        jobs=counts,
        shares_storage=storage_sharing(table, relations, outputs, nuclei),
        features=features,
        pools=build_pools(raw["pools"], unified, dropped_rows),
        states=tuple(_with_dropped_rows(state, dropped_rows) for state in states),
        dropped_rows=tuple(dropped_rows),
        analysis=analysis,
    )
    _freeze(snapshot)
    return with_outside_sources(snapshot, sources)


def _activity(
    raw: Mapping[str, RawSource],
    unified: dict[str, int],
    now_s: float,
    average_diskio: Floats,
    dropped_rows: list[DroppedRow],
) -> queues.QueueActivity:
    """What is measured and published of the unified queues outside CRIC's queue rows."""
    n_pilots, laststart = jobs.build_pilots(raw["pilots"], unified, dropped_rows)
    software, container_sources = build_software(raw["software"], unified, dropped_rows)
    return queues.QueueActivity(
        n_pilots=n_pilots,
        laststart_s=laststart,
        n_workers=jobs.build_workers(raw["workers"], unified, now_s, dropped_rows),
        average_diskio_kbps=average_diskio,
        software=software,
        container_sources=container_sources,
        cpu_levels=jobs.build_cpu_levels(raw["worker_nodes"], unified, dropped_rows),
        gpus=build_gpus(raw["gpus"], unified),
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
