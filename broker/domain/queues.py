"""Queues as the brokerages see them: pseudo-queues over unified queues, with the CRIC fields that a rule reads."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from broker.domain.arrays import AnyArray, Bools, Floats, Ints, Texts
from broker.domain.software import ContainerSources, GpuSummary, QueueSoftware

BARE_NONE, BARE_ONLY, BARE_ALLOW = 0, 1, 2


@dataclass(frozen=True)
class QueueTable:
    """Candidates (length Q): the pseudo-queues of every unified queue, and every queue that is not unified, by name.

    A queue that is not unified is its own unified queue. ``unified`` points into :class:`UnifiedTable`. NULL is NaN or
    ``None``. ``maxrss_mb`` and ``minrss_mb`` are totals for a job slot of the pseudo-queue, ``maxwdir_mb`` is that of
    the unified queue. Source: ATLAS Production Job Brokerage; PanDA data model, schedconfig and pseudo-queues.
    """

    name: Texts
    unified_name: Texts
    unified: Ints
    resource_type: Texts  # of a pseudo-queue; None otherwise
    nucleus: Ints  # index into NucleusTable of the queue's ATLAS site, -1 if none
    storage_site: Ints  # index into LinkMatrix.sites of the default output endpoint's site, -1 unknown
    output_storage: Ints  # default output endpoint (index into StorageTable), -1 if none
    status: Texts
    type: Texts
    capability: Texts
    workflow: Texts
    cores: Floats  # corecount of the candidate
    unified_cores: Floats
    corepower: Floats  # HS06 per core, 0 = unset
    maxrss_mb: Floats
    minrss_mb: Floats
    maxtime_s: Floats
    mintime_s: Floats
    maxwdir_mb: Floats
    maxinputsize_mb: Floats
    pledgedcpu: Floats
    transferringlimit: Floats
    maxdiskio_kbps: Floats
    fairsharepolicy: Texts
    connectivity: Texts  # wnconnectivity before '#'
    ip_stack: Texts  # wnconnectivity after '#'
    direct_access_lan: Bools
    direct_access_wan: Bools
    is_cvmfs: Bools
    jobseed: Texts
    bare_nucleus: Ints
    use_jumbo: Bools
    min_events_for_jumbo: Floats
    use_only_local_data: Bools
    max_io_intensity: Floats
    job_chunk_size: Floats
    shutdown_s: Floats  # announced to most pilots of the queue, UNIX s; NaN: none
    atlas_site: Texts
    space_gb: Floats  # of the queue itself, which CRIC may give beside its endpoints; NaN: not given
    allow_no_pilot: Bools
    allowed_processing: Texts  # processing types with bars between them; None: all
    excluded_processing: Texts  # likewise; None: none

    def __len__(self) -> int:
        return len(self.name)


def no_queues() -> QueueTable:
    """A table without a row."""
    kinds: dict[str, AnyArray] = {
        "Texts": np.empty(0, dtype=np.object_),
        "Ints": np.empty(0, dtype=np.int64),
        "Floats": np.empty(0, dtype=np.float64),
        "Bools": np.empty(0, dtype=np.bool_),
    }
    columns: dict[str, Any] = {one.name: kinds[str(one.type)] for one in dataclasses.fields(QueueTable)}
    return QueueTable(**columns)


@dataclass(frozen=True)
class UnifiedTable:
    """Unified queues (length U): values counted, measured or published once for all their pseudo-queues."""

    name: Texts
    atlas_site: Texts
    status: Texts
    type: Texts
    cloud: Texts
    runs_production: Bools
    runs_analysis: Bools
    is_unified: Bools  # has pseudo-queues
    is_test: Bools  # "test" in the name, any case
    cloudless_analysis: Bools  # has no cloud, and would run analysis alone
    n_pilots: Floats  # pilots seen in the last 3 h (sitedata getjob + updatejob); 0 without a row
    laststart_s: Floats  # last start of a job, NaN if never seen
    n_workers: Floats  # running + submitted batch workers of the last hour
    average_diskio_kbps: Floats  # per core of running jobs; 0 without any
    releases: tuple[tuple[str, ...], ...]
    software: tuple[QueueSoftware | None, ...]  # software tags of the queue, None without
    cpu_levels: tuple[dict[str, float], ...]  # percentage of the queue's logical CPUs by architecture level
    gpus: tuple[tuple[GpuSummary, ...], ...]  # what pilots have seen at the queue
    container_sources: ContainerSources  # published for all queues together

    def __len__(self) -> int:
        return len(self.name)


@dataclass(frozen=True)
class SlotTable:
    """Numbers of slots that resources published for proactive assignment; -1 in ``share`` or type: any.

    Source: PanDA data model, Harvester slots.
    """

    unified: Ints
    gshare: Texts
    resource_type: Texts
    numslots: Floats

    def __len__(self) -> int:
        return len(self.unified)
