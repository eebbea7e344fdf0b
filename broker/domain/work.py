"""The work of the job brokerages: input chunks of tasks, with all that a rule may ask about them.

A chunk is the set of ready files of one master dataset that need the same memory (``ramcount``). One row of
:class:`WorkTable` is one chunk with the columns of its task. Names follow ``jedi_tasks`` where the value is the
column's. Source: ATLAS Production Job Brokerage; PanDA data model, tasks and datasets.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from broker.domain.alternatives import AcceptedCores
from broker.domain.analysis import AnalysisWork
from broker.domain.arrays import CLASS, LATER, Bools, Floats, Ints, Objects, Texts
from broker.domain.held_parts import HeldParts
from broker.domain.placement_constraints import PlacementConstraints
from broker.domain.rebrokered_from import RebrokeredFrom


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
    # -- what was asked for beside the columns of the task
    accepted_cores: Objects = field(metadata={CLASS: AcceptedCores})  # of a slot; None: any
    # -- what became of earlier jobs
    rebrokered_from: Objects = field(metadata={CLASS: RebrokeredFrom})  # queues, and when; None without
    # -- what the jobs require of resources: their SubmitPool, sites and banned sites; None without
    placement_constraints: Objects = field(metadata={LATER: None, CLASS: PlacementConstraints})
    # the site that the parameters of the task name (PandaSite), where a brokerage asks for it; None without
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
    asked: Bools = field(metadata={LATER: True})  # where Rucio feeds the catalogue, it has answered for the dataset
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
    # of a partial replica beside others of which none holds all that both hold; None elsewhere
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
