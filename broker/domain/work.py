"""The work of the job brokerages as columns: chunks of input files, their datasets, replicas and requirements.

A chunk is the set of ready files of one master dataset that need the same memory (``ramcount``).

- :class:`WorkTable` (T chunks, with the columns of their tasks), :class:`InputTable` (I datasets of the chunks),
  :class:`ReplicaTable` (R places of these datasets); :class:`Work` joins the three with the :class:`DroppedRow` list.
- Objects in cells of these tables: :class:`PlacementConstraints` (SubmitPool, sites, banned sites),
  :class:`WayToRun` and :class:`AcceptedCores` (alternative ways to run a task), :class:`RebrokeredFrom` (queues from
  which jobs of the dataset were taken, and when), :class:`HeldParts` (files that a partial replica holds).
- :func:`is_selective`, :func:`is_boosted` (T, 1): chunks that should not wait.

Names follow ``jedi_tasks`` where the value is the column's. Sizes are in the units of their names; NULL is NaN.

Source: ATLAS Production Job Brokerage; PanDA data model, tasks and datasets; DIRAC RFC 7, Job Requirements; Scalable
Systems Software Job Object Specification 3.0.3, preferences and fuzzy requirements.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from broker.domain.analysis import AnalysisWork
from broker.domain.arrays import CLASS, LATER, Bools, Floats, Ints, Objects, Texts
from broker.domain.estimates import MEMORY_COMPENSATION


@dataclass(frozen=True)
class AcceptedCores:
    """The numbers of cores of a slot that a job accepts; the bounds are included.

    Attributes:
        low: the fewest.
        high: the most; None without a bound.
        without: numbers in between that are not accepted.
    """

    low: float
    high: float | None = None
    without: tuple[float, ...] = ()

    def accepts(self, cores: float) -> bool:
        """Whether a number of cores is accepted; 0 and NaN are one core."""
        count = cores if cores > 0 else 1.0
        return self.low <= count and (self.high is None or count <= self.high) and count not in self.without

    def __str__(self) -> str:
        """The range as text, such as ``8``, ``8-16``, ``8-`` or ``8-!12``."""
        high = "" if self.high is None else f"{self.high:g}"
        span = high if self.high == self.low else f"{self.low:g}-{high}"
        return span + "".join(f"!{one:g}" for one in self.without)

    def stored(self) -> str:
        """The alternative as JSON, as stored with a decision."""
        return str(self)

    @classmethod
    def of_stored(cls, value: Any) -> AcceptedCores:
        """Read the JSON of :meth:`stored`.

        Raises:
            ValueError: the value is of another form.
            AttributeError: the value is of another form.
        """
        span, *without = value.split("!")
        low, dash, high = span.partition("-")
        top = float(low) if not dash else float(high) if high else None
        return cls(float(low), top, tuple(float(one) for one in without))


@dataclass(frozen=True)
class WayToRun:
    """One alternative; ``None`` where the task requires nothing. Bounds are inclusive."""

    min_cores: int | None = None
    max_cores: int | None = None
    without_cores: tuple[float, ...] = ()
    memory_mb: int | None = None
    disk_mb: int | None = None
    wall_s: int | None = None

    @property
    def ramcount_mb(self) -> int | None:
        """The memory in MB that a task must request, since its jobs get slightly less."""
        return None if self.memory_mb is None else math.ceil(self.memory_mb / MEMORY_COMPENSATION)

    @property
    def accepted_cores(self) -> AcceptedCores | None:
        """The numbers of cores of a slot that are accepted; None for any."""
        if self.min_cores is None:
            return None
        return AcceptedCores(self.min_cores, self.max_cores, self.without_cores)


@dataclass(frozen=True)
class RebrokeredFrom:
    """Queues with the time (s since 1970) of the last rebrokerage from them, by name."""

    at_s: tuple[tuple[str, float], ...]

    @classmethod
    def of(cls, queues: Mapping[str, float]) -> RebrokeredFrom | None:
        """The queues of a mapping to times; None for none."""
        return cls(tuple(sorted(queues.items()))) if queues else None

    def since(self, instant_s: float) -> list[str]:
        """The queues from which jobs were taken after an instant."""
        return [queue for queue, at_s in self.at_s if at_s > instant_s]

    def last_s(self, queue: str) -> float | None:
        """When jobs were last taken from a queue; None if never."""
        return dict(self.at_s).get(queue)

    def stored(self) -> dict[str, float]:
        """The queues as JSON, as stored with a decision."""
        return dict(self.at_s)

    @classmethod
    def of_stored(cls, value: Any) -> RebrokeredFrom | None:
        """Read the JSON of :meth:`stored`, or lines of time and name in work of older engines.

        Raises:
            ValueError: the value is of another form.
        """
        if not isinstance(value, str):
            return cls.of({str(queue): float(at_s) for queue, at_s in value.items()})
        lines = (line.split(" ", 1) for line in value.split("\n") if line)
        return cls.of({queue: float(at_s) for at_s, queue in lines})


@dataclass(frozen=True)
class HeldParts:
    """The parts that a replica holds; a part is the set of files held by the same replicas of the input.

    The parts of an input are therefore disjoint, and several replicas together hold the sum of the parts that any of
    them holds.

    Attributes:
        parts: number in the input, files and bytes of each part.
    """

    parts: tuple[tuple[int, float, float], ...]

    def stored(self) -> list[list[float]]:
        """The parts as JSON, as stored with a decision."""
        return [list(part) for part in self.parts]

    @classmethod
    def of_stored(cls, value: Any) -> HeldParts:
        """Read the JSON of :meth:`stored`.

        Raises:
            ValueError: the value is of another form.
        """
        return cls(tuple((int(part), float(files), float(size)) for part, files, size in value))


@dataclass(frozen=True)
class PlacementConstraints:
    """Where jobs may run.

    Attributes:
        pool: identifier of the SubmitPool; None without one.
        sites: sites of which one is required; empty for any.
        banned: sites at which they must not run.
    """

    pool: str | None = None
    sites: tuple[str, ...] = ()
    banned: tuple[str, ...] = ()

    def admits(self, site: str | None) -> bool:
        """Whether jobs may run at this site."""
        return (not self.sites or site in self.sites) and site not in self.banned

    def stored(self) -> list[Any]:
        """The constraints as JSON, as stored with a decision."""
        return [self.pool, list(self.sites), list(self.banned)]

    @classmethod
    def of_stored(cls, value: Any) -> PlacementConstraints:
        """Read the JSON of :meth:`stored`, or its text in work of older engines.

        Raises:
            ValueError: the value is of another form.
            TypeError: the value is of another form.
        """
        pool, sites, banned = json.loads(value) if isinstance(value, str) else value
        return cls(pool, tuple(sites), tuple(banned))


UNCONSTRAINED = PlacementConstraints()


@dataclass(frozen=True)
class WorkTable:
    """Chunks as columns of length T, in the order in which they are brokered (priority, then task id).

    Times are seconds since 1970 UTC. ``ramcount`` is the chunk's own memory in MB (NaN when all its files have none),
    ``task_ramcount`` the task's. Split-rule values are 0 when absent. Sizes of an atomic job are the largest over the
    chunk.
    """

    jeditaskid: Ints
    datasetid: Ints
    ramcount: Floats
    # -- the task
    vo: Texts
    status: Texts
    username: Texts
    prodsourcelabel: Texts
    processingtype: Texts
    workinggroup: Texts
    gshare: Texts
    resource_type: Texts
    workqueue_id: Floats
    cloud: Texts
    nucleus: Texts
    site: Texts
    currentpriority: Floats
    taskpriority: Floats
    corecount: Floats
    mergecorecount: Floats
    task_ramcount: Floats
    ramunit: Texts
    baseramcount: Floats
    mergeramcount: Floats
    walltime: Floats
    walltimeunit: Texts
    cputime: Floats
    cputimeunit: Texts
    cpuefficiency: Floats
    basewalltime: Floats
    outdiskcount: Floats
    outdiskunit: Texts
    workdiskcount: Floats
    workdiskunit: Texts
    iointensity: Floats
    diskio: Floats
    transhome: Texts
    architecture: Texts
    container_name: Texts
    eventservice: Floats
    usejumbo: Texts
    frozentime_s: Floats
    splitrule: Texts
    # -- split-rule values (0 = absent)
    t1weight: Floats  # TW
    input_prestaging: Bools  # IS
    full_chain: Ints  # FU: 1 only, 2 require, 3 capable
    ip_connectivity: Ints  # IP: 1 full, 2 http
    ip_stack: Ints  # IK: 4 or 6
    allow_input_lan: Ints  # IL: 1 use, 2 only
    allow_input_wan: Bools  # IW
    use_local_io: Bools  # LI
    max_core_count: Floats  # CC
    dynamic_num_events: Floats  # DY: granularity in events
    max_events_per_job: Floats  # MX
    es_consumers: Floats  # EC
    es_attempts: Floats  # XJ, else XA
    job_cloning: Bools  # UC
    only_tags_for_fc: Bools  # OT
    merge_output: Bools  # MO
    # -- the chunk
    merging: Bools
    scout: Bools
    jumbo: Bools
    master_site: Texts
    master_creationtime_s: Floats
    master_modificationtime_s: Floats
    master_nfiles: Floats
    master_nfilestobeused: Floats
    # -- sizes (see broker.work.atoms)
    n_files: Ints  # master files of the chunk
    total_files: Floats  # unique LFNs of all datasets of the chunk
    total_bytes: Floats
    atom_events: Floats
    atom_mb: Floats
    atom_bytes: Floats
    longest_run_events: Floats  # largest run of consecutive events, for dynamic numbers of events
    ready_events: Floats
    # -- what was requested in addition to the columns of the task
    accepted_cores: Objects = field(metadata={CLASS: AcceptedCores})  # of a slot; None: any
    # -- what became of earlier jobs
    rebrokered_from: Objects = field(metadata={CLASS: RebrokeredFrom})  # queues, and when; None without
    # -- what the jobs require of resources: their SubmitPool, sites and banned sites; None without
    placement_constraints: Objects = field(metadata={LATER: None, CLASS: PlacementConstraints})
    # the site named in the task parameters (PandaSite), where a brokerage needs it; None without
    panda_site: Texts = field(metadata={LATER: None})

    def __len__(self) -> int:
        return len(self.jeditaskid)


@dataclass(frozen=True)
class InputTable:
    """The datasets of the chunks (length I): master first, then the secondaries, grouped by chunk."""

    chunk: Ints  # index into WorkTable
    datasetid: Ints
    scope: Texts
    name: Texts  # dataset name without scope
    is_master: Bools
    is_pseudo: Bools
    distributed: Bools  # by the replica catalogue; an unknown DID counts as distributed
    files: Floats  # files of this dataset in the chunk
    bytes: Floats
    dataset_files: Floats  # files of the whole dataset, NaN when unknown
    catalogued: Bools  # the replica catalogue knows the dataset
    asked: Bools = field(metadata={LATER: True})  # where Rucio feeds the catalogue: it has answered for the dataset
    is_container: Bools = field(metadata={LATER: False})  # the catalogue knows constituents of it

    def __len__(self) -> int:
        return len(self.chunk)


@dataclass(frozen=True)
class ReplicaTable:
    """Where the input is (length R): one row for each dataset of a chunk and storage endpoint.

    ``found`` and ``total`` are the catalogue's file counts for the replica (summed over the constituents of a
    container). ``chunk_files`` and ``chunk_bytes`` say how much of the *chunk's* files of that dataset the endpoint
    holds.
    """

    input: Ints  # index into InputTable
    rse: Texts
    is_tape: Bools
    is_vp: Bools
    found: Floats
    total: Floats
    complete: Bools  # found == total for every constituent, or virtual placement
    holds_all: (
        Bools  # every file of the dataset is there: complete and not shorter than the dataset, or a merge's replica
    )
    chunk_files: Floats
    chunk_bytes: Floats
    # of a partial replica, where no replica holds everything that two of them hold together; None elsewhere
    held_parts: Objects = field(metadata={LATER: None, CLASS: HeldParts})

    def __len__(self) -> int:
        return len(self.input)


@dataclass(frozen=True)
class Work:
    """All chunks of a cycle with their inputs and replicas, and the dropped rows with reasons."""

    chunks: WorkTable
    inputs: InputTable
    replicas: ReplicaTable
    dropped_rows: tuple[DroppedRow, ...] = field(default=())
    analysis_request: AnalysisWork | None = None  # of chunks of analysis


@dataclass(frozen=True)
class DroppedRow:
    """A dropped row or task: its source and identifier, the code of the reason, and the value seen."""

    source: str
    identifier: str
    code: str
    detail: str


SELECTIVE_PRIORITY = 800
BOOSTED_PRIORITY = 900


def is_selective(tasks: WorkTable) -> Bools:
    """(T, 1): priority of 800 or more, or scouts, which avoid queues where jobs may get stuck or evicted."""
    return np.asarray(tasks.scout | (tasks.currentpriority >= SELECTIVE_PRIORITY))


def is_boosted(tasks: WorkTable) -> Bools:
    """(T, 1): priority of 900 or more, or scouts."""
    return np.asarray(tasks.scout | (tasks.currentpriority >= BOOSTED_PRIORITY))
