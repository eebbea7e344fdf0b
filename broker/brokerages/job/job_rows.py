"""The jobs of a cycle as columns ready to be written: requested resources, and input files.

Source: PanDA production brokerage, job attributes; PanDA data model, jobs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from broker.brokerages.job.assigned import AssignedChunk, jobs_of
from broker.domain.arrays import Bools, Floats, Ints, distinct, taken, texts
from broker.domain.placements import JobFileTable, JobTable, Placement, TaskSeen
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.engine.job.facts import software_offers
from broker.rules.shared.software_need import chunk_needs, platform_of_jobs
from broker.snapshot.snapshot import Snapshot
from broker.work import cut_jobs as attributes
from broker.work.assemble import CycleWork
from broker.work.chunks import InputFiles
from broker.work.cut_jobs import CutJobs

#: Part of the reason of a throttle by quota. PanDA freezes such a task like one that no queue takes; it freezes no
#: other throttled task.
QUOTA = "quota"


def job_rows(placed: Sequence[AssignedChunk], work: CycleWork, snapshot: Snapshot) -> Placement:
    """Everything to be written for the chunks in ``placed``.

    Args:
        placed: the chunks, in the order in which they were brokered.
        work: the cycle's work, which the rows of ``placed`` index.
        snapshot: the grid by which they were brokered.
    """
    chunks, queues = work.work.chunks, snapshot.queues
    candidate, jobs = jobs_of(placed)
    owner = np.repeat([chunk.row for chunk in placed], [chunk.job_count for chunk in placed]).astype(np.int64)
    queue_names, queue = _numbered([str(name) for name in queues.unified_name], candidate)
    pairs, pair = np.unique(np.stack([owner, candidate]), axis=1, return_inverse=True)
    per_pair = np.array([_of_pair(work, queues, int(row), int(at)) for row, at in pairs.T], dtype=np.int64)
    of_pairs = per_pair.reshape(-1, 4).T
    kinds, resource_type = _resource_types(work, snapshot, pairs, of_pairs[:2])
    cores, ram_mb, priority, maxtime_s = of_pairs[:, pair.ravel()]
    platforms, platform = platforms_of(chunks, snapshot, pairs)
    merging = chunks.merging[owner]
    walltime_s = _walltime_s(jobs.walltime_s, maxtime_s, merging)
    table = JobTable(
        chunk=owner,
        jeditaskid=chunks.jeditaskid[owner],
        queue=queue,
        resource_type=resource_type[pair.ravel()],
        platform=platform[pair.ravel()],
        corecount=cores,
        minramcount_mb=ram_mb,
        maxdiskcount_mb=jobs.disk_mb,
        maxwalltime_s=walltime_s,
        maxcpucount_s=walltime_s * cores,
        nevents=jobs.events,
        inputfilebytes=jobs.input_bytes,
        ninputdatafiles=jobs.input_files,
        priority=priority,
        merging=merging,
    )
    files = _files(jobs, owner, work)
    return Placement(queue_names, kinds, platforms, table, files, _tasks(placed, work), *_waiting(placed, work))


def _numbered(names: list[str], positions: Ints) -> tuple[tuple[str, ...], Ints]:
    """The distinct names at the positions, sorted, and for each position the index of its name."""
    used, place = np.unique(positions, return_inverse=True)
    distinct = sorted({names[position] for position in used})
    rank = {name: index for index, name in enumerate(distinct)}
    return tuple(distinct), np.array([rank[names[position]] for position in used], dtype=np.int64)[place]


def _resource_types(work: CycleWork, snapshot: Snapshot, pairs: Ints, resources: Ints) -> tuple[tuple[str, ...], Ints]:
    """The distinct resource types, and (P,) the type of the jobs of each chunk and candidate (2, P).

    It follows from the cores and memory of the jobs, ``resources`` (2, P). Where no type fits, it is that of the
    pseudo-queue, else that of the task; -1 where there is neither.
    """
    of_task, of_queue = work.work.chunks.resource_type, snapshot.queues.resource_type
    own = [attributes.resource_type(snapshot.resource_types, cores, ram_mb) for cores, ram_mb in resources.T.tolist()]
    types = [
        kind or of_queue[candidate] or of_task[row]
        for kind, (row, candidate) in zip(own, pairs.T.tolist(), strict=True)
    ]
    known = sorted({str(kind) for kind in types if kind is not None})
    rank = {name: index for index, name in enumerate(known)}
    return tuple(known), np.array([rank.get(kind, -1) for kind in types], dtype=np.int64)


def platforms_of(work: WorkTable, snapshot: Snapshot, pairs: Ints) -> tuple[tuple[str, ...], Ints]:
    """The distinct platforms for the jobs of each chunk and candidate (2, P), and which of them each pair takes."""
    offers = software_offers(snapshot).queues
    rows, which = np.unique(pairs[0], return_inverse=True)
    needs = chunk_needs(taken(work, rows))
    unified = snapshot.queues.unified[pairs[1]]
    written = [platform_of_jobs(needs[row], offers[queue]) for row, queue in zip(which, unified, strict=True)]
    known, place = distinct(texts(written))
    return tuple(str(platform) for platform in known), place


def _of_pair(work: CycleWork, queues: QueueTable, row: int, at: int) -> tuple[int, int, int, int]:
    """Cores, memory, priority and maximum walltime of the jobs of a chunk at a candidate."""
    chunks = work.work.chunks
    merging = bool(chunks.merging[row])
    cores = attributes.core_count(
        merging,
        queues.resource_type[at] is not None,
        float(chunks.corecount[row]),
        float(chunks.mergecorecount[row]),
        float(queues.cores[at]),
    )
    ram_mb = attributes.chunk_ram_mb(
        merging, float(chunks.ramcount[row]), float(chunks.task_ramcount[row]), float(chunks.mergeramcount[row])
    )
    minimum_mb = attributes.minimum_ram_mb(
        merging, ram_mb, chunks.ramunit[row], float(chunks.baseramcount[row]), float(queues.cores[at])
    )
    priority = attributes.job_priority(
        merging, bool(chunks.scout[row]), float(chunks.currentpriority[row]), float(chunks.taskpriority[row])
    )
    maxtime = queues.maxtime_s[at]
    return cores, minimum_mb, priority, int(maxtime) if maxtime > 0 else 0


def _walltime_s(estimate_s: Floats, maxtime_s: Ints, merging: Bools) -> Ints:
    """The announced walltime: the estimate rounded up, or without one the queue's ``maxtime``; 0 is no limit."""
    known = (estimate_s > 0) & ~merging
    return np.where(known, np.ceil(np.nan_to_num(estimate_s)), maxtime_s).astype(np.int64)


def _files(jobs: CutJobs, owner: Ints, work: CycleWork) -> JobFileTable:
    """Each job's files: the run of master files, and those of the secondaries."""
    number = np.arange(len(jobs), dtype=np.int64)
    master, extra = jobs.stop - jobs.first, np.diff(jobs.extra_offsets)
    offset = np.arange(int(master.sum())) - np.repeat(np.cumsum(master) - master, master)
    position = np.concatenate([np.repeat(jobs.first, master) + offset, jobs.extra]).astype(np.int64)
    job = np.concatenate([np.repeat(number, master), np.repeat(number, extra)])
    inputs = work.inputs
    source = np.searchsorted(inputs.offsets, position, side="right") - 1
    order = np.lexsort((position, job))
    return JobFileTable(
        job=job[order],
        jeditaskid=work.work.chunks.jeditaskid[owner[job[order]]],
        datasetid=work.work.inputs.datasetid[source[order]],
        fileid=inputs.files.fileid[position[order]],
        attemptnr=inputs.files.attemptnr[position[order]],
        claimed=_claimed(inputs)[source[order]],
    )


def _claimed(inputs: InputFiles) -> Bools:
    """(I,) whether a file of the input belongs to a single job: false if every job reads it or it is reused."""
    return np.array([not (use.nosplit or use.repeat or use.reusable) for use in inputs.uses], dtype=np.bool_) | (
        inputs.is_master
    )


def _tasks(placed: Sequence[AssignedChunk], work: CycleWork) -> tuple[TaskSeen, ...]:
    chunks = work.work.chunks
    seen: dict[int, TaskSeen] = {}
    for chunk in placed:
        row = chunk.row
        task = int(chunks.jeditaskid[row])
        scout = bool(chunks.scout[row]) or (task in seen and seen[task].scout)
        seen[task] = TaskSeen(task, str(chunks.status[row]), chunks.nucleus[row], scout)
    return tuple(seen.values())


def _waiting(placed: Sequence[AssignedChunk], work: CycleWork) -> tuple[dict[int, str], frozenset[int]]:
    """Tasks without a job from any chunk, with the reason of the first, and those held only by a throttle."""
    chunks = work.work.chunks
    waiting: dict[int, str] = {}
    working: set[int] = set()
    throttled: set[int] = set()
    for chunk in placed:
        task = int(chunks.jeditaskid[chunk.row])
        if chunk.job_count:
            working.add(task)
        else:
            if task not in waiting and chunk.decision.outcome == "throttled" and QUOTA not in chunk.decision.reason:
                throttled.add(task)
            waiting.setdefault(task, chunk.decision.reason)
    held = {task: reason for task, reason in waiting.items() if task not in working}
    return held, frozenset(throttled & held.keys())
