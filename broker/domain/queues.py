"""Queues as the brokerages see them: pseudo-queues, unified queues, their software and hardware, and reports of pilots.

- :class:`QueueTable` (Q candidates) and :class:`UnifiedTable` (U unified queues) with the CRIC fields that rules read.
- :class:`SoftwareOffers`: tags, hardware and container sources that queues publish, reduced to what the checks read.
- :class:`FeatureTable` (U): figures that pilots report, and the queue columns that a report may tighten.
- :class:`SlotTable`: slots that resources published.

Memory and disk are in MB, times in s, power in HS06 per core; NULL is NaN or ``None``.

Source: ATLAS Production Job Brokerage, release/cache availability; PanDA software and hardware matching, queue data;
HSF-TN-2016-02, use of the keys by a broker.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

from broker.domain.arrays import AnyArray, Bools, Floats, Ints, Texts

#: ``releases`` of a queue that publishes its software, and of one that accepts any.
AUTO, ANY = ("AUTO",), ("ANY",)
#: Separator of the fields of a tag in :attr:`QueueSoftware.tags`; it occurs in no name.
TAG_SEPARATOR = "\n"
#: The word in a list of hardware attributes that excludes tasks which do not request the attribute.
EXCLUSIVE = "excl"


def tag_key(platform: str, project: str, release: str) -> str:
    """The key under which a tag is looked up."""
    return TAG_SEPARATOR.join((platform, project, release))


@dataclass(frozen=True)
class HardwareEntry:
    """The values of one kind of hardware; None for an attribute that the queue does not describe.

    ``exclusive``: some list contains the word ``excl``; the lists themselves are as published.
    """

    arch: tuple[str, ...] | None = None
    vendor: tuple[str, ...] | None = None
    instr: tuple[str, ...] | None = None
    exclusive: bool = False


@dataclass(frozen=True)
class Hardware:
    """The hardware description of a queue: CPUs and GPUs, None for no entry."""

    cpu: HardwareEntry | None = None
    gpu: HardwareEntry | None = None


@dataclass(frozen=True)
class QueueSoftware:
    """The software tags of a queue, compared by ``digest`` only.

    Attributes:
        digest: digest of the published text.
        readable: False if the document or its hardware description cannot be read.
        cmtconfigs: platforms, in the published order.
        containers: words ``any`` and ``/cvmfs``, and prefixes of container names, none of them empty.
        cvmfs: words ``any``, ``atlas``, ``nightlies``.
        tags: keys of its tags, see :func:`tag_key`.
        container_names: names of containers in its tags, and their sources.
        hardware: the described hardware.
    """

    digest: str
    readable: bool = field(default=True, compare=False)
    cmtconfigs: tuple[str, ...] = field(default=(), compare=False)
    containers: tuple[str, ...] = field(default=(), compare=False)
    cvmfs: frozenset[str] = field(default=frozenset(), compare=False)
    tags: frozenset[str] = field(default=frozenset(), compare=False)
    container_names: frozenset[str] = field(default=frozenset(), compare=False)
    hardware: Hardware = field(default_factory=Hardware, compare=False)


@dataclass(frozen=True)
class GpuSummary:
    """One combination of GPU hardware and software that pilots report at a queue; None for unknown fields.

    ``vram`` is text in MB, since it is compared like a version.
    """

    vendor: str | None = None
    model: str | None = None
    vram: str | None = None
    generation: str | None = None
    cuda: str | None = None
    driver: str | None = None


@dataclass(frozen=True)
class QueueOffer:
    """Everything that one unified queue publishes for the software check.

    Attributes:
        name: name of the unified queue.
        releases: as in CRIC: exactly ``AUTO``, exactly ``ANY``, or a value that no task matches.
        software: published tags; None without any.
        gpus: GPUs seen by pilots.
    """

    name: str
    releases: tuple[str, ...]
    software: QueueSoftware | None
    gpus: tuple[GpuSummary, ...] = ()


@dataclass(frozen=True)
class ContainerSources:
    """Container sources by name, for all queues; ``digest`` of the published document."""

    digest: str = ""
    by_name: Mapping[str, tuple[str, ...]] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class SoftwareOffers:
    """Offers of all unified queues (U); ``gpus_known`` is False when the GPU summary is unusable."""

    queues: tuple[QueueOffer, ...] = ()
    sources: ContainerSources = field(default_factory=ContainerSources)
    gpus_known: bool = True


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
    space_gb: Floats  # of the queue itself, which CRIC may give in addition to its endpoints; NaN: not given
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
    columns: dict[str, Any] = {column.name: kinds[str(column.type)] for column in dataclasses.fields(QueueTable)}
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
    cloudless_analysis: Bools  # has no cloud, and would run only analysis
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


CountT = TypeVar("CountT")
FigureT = TypeVar("FigureT")


@dataclass(frozen=True)
class PilotFigures(Generic[CountT, FigureT]):
    """The combined reports of pilots, for one queue or as columns of many.

    Attributes:
        pilots: number of pilots that reported.
        corepower: HS06 per core.
        maxtime_s: walltime that nearly all pilots allow.
        maxrss_per_core_mb: memory for one core.
        maxwdir_per_core_mb: disk for one core.
        shutdown_s: UNIX seconds at which nearly all pilots that announce a shutdown are still running; set only if
            most pilots announce one.
    """

    pilots: CountT
    corepower: FigureT
    maxtime_s: FigureT
    maxrss_per_core_mb: FigureT
    maxwdir_per_core_mb: FigureT
    shutdown_s: FigureT


@dataclass(frozen=True)
class FeatureTable(PilotFigures[Floats, Floats]):
    """Figures of unified queues (length U), NaN where too few pilots reported."""

    def __len__(self) -> int:
        return len(self.pilots)


TIGHTENING_KEYS: dict[str, str] = {
    "FEATURES_COREPOWER": "corepower",
    "FEATURES_MAXTIME": "maxtime_s",
    "FEATURES_MAXRSS": "maxrss_mb",
    "FEATURES_MAXWDIR": "maxwdir_mb",
}
"""Tuning key to the column of the queue table that reports may tighten while the key is on."""
