"""Facts about tasks at nuclei: how much of the input each nucleus has, and how much work remains there.

Shapes: (T, N) for task against nucleus, (N, E) for nucleus against endpoint; remaining work is in HS06 s.

- :func:`gather_task_data`: bytes and files of the input, whether it can be read from elsewhere, and its faults.
- :func:`all_work`, :func:`share_work`: remaining work of a task's label, and of its share at its priority and above.

Source: ATLAS Production Task Brokerage, data locality; PanDA production brokerage, data look-up and remaining work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from broker.domain.arrays import Bools, Floats, Ints, RowsByKind, Texts, codes_of, distinct, texts
from broker.domain.task_work import AssigningTable, PartReplicaTable, RemainingTable, TaskWork
from broker.engine.job.count_facts import share_tags
from broker.engine.job.input_faults import INPUT_FAULTS
from broker.engine.task.steps import InputReading, RemainingWorkReading
from broker.snapshot.snapshot import Snapshot

SHIPPED_READING = InputReading()


@dataclass(frozen=True)
class TaskData:
    """Input of T tasks at N nuclei, summed over their datasets; and the fault of each task, see INPUT_FAULTS."""

    examined: Bools  # (T,)
    total_bytes: Floats  # (T,)
    total_files: Floats
    disk_bytes: Floats  # (T, N)
    disk_files: Floats
    any_bytes: Floats
    any_files: Floats
    fault: Texts  # (T,)


def gather_task_data(
    work: TaskWork, snapshot: Snapshot, reading: InputReading = SHIPPED_READING, columns: Ints | None = None
) -> TaskData:
    """Facts about input replicas for the tasks and the nuclei ``columns``, by default all."""
    parts, tasks, reads = work.parts, len(work.tasks), reading_nuclei(snapshot)
    reads = reads if columns is None else reads[columns]
    nuclei, storage = len(reads), codes_of(work.replicas.rse, list(snapshot.storages.name))
    row, nucleus = np.nonzero(reads[:, np.maximum(storage, 0)].T & (storage >= 0)[:, None])
    on_disk = ~work.replicas.is_tape[row]
    stats = {}
    for name, chosen in (("disk", on_disk), ("any", np.ones(len(row), dtype=np.bool_))):
        best, at = _best(work.replicas, row[chosen], nucleus[chosen], nuclei)
        task = parts.task[work.replicas.part[best]]
        for unit, values in (("bytes", work.replicas.bytes), ("files", work.replicas.files)):
            weights = np.nan_to_num(values[best])
            sums = np.bincount(task * nuclei + at, weights, minlength=tasks * nuclei)
            stats[f"{name}_{unit}"] = sums.astype(np.float64).reshape(tasks, nuclei)
    return TaskData(
        examined=np.bincount(parts.task, minlength=tasks) > 0,
        total_bytes=_sums(parts.task, _totals(work, parts.bytes, reading), tasks),
        total_files=_sums(parts.task, _totals(work, parts.files, reading), tasks),
        fault=_faults(work, snapshot, storage, reading),
        **stats,
    )


def _totals(work: TaskWork, values: Floats, reading: InputReading) -> Floats:
    """(P,): the size that each part adds to the input."""
    if reading.options.container_totals == "sum":
        return values
    parts = work.parts
    last = np.ones(len(parts), dtype=np.bool_)
    last[:-1] = (parts.task[1:] != parts.task[:-1]) | (parts.datasetid[1:] != parts.datasetid[:-1])
    has_replica = np.zeros(len(parts), dtype=np.bool_)
    has_replica[work.replicas.part] = True
    return np.where(last & has_replica, values, 0.0)


def _sums(task: Ints, values: Floats, tasks: int) -> Floats:
    return np.bincount(task, np.nan_to_num(values), minlength=tasks).astype(np.float64)


def reading_nuclei(snapshot: Snapshot) -> Bools:
    """(N, E): some queue of the nucleus reads the endpoint over LAN, in any scope. At least one column."""
    relations, unified = snapshot.relations, snapshot.unified
    reads = np.zeros((len(snapshot.nuclei), max(1, len(snapshot.storages))), dtype=np.bool_)
    nucleus = codes_of(unified.atlas_site, list(snapshot.nuclei.name))[relations.unified]
    used = relations.is_input & unified.runs_production[relations.unified] & (nucleus >= 0)
    reads[nucleus[used], relations.storage[used]] = True
    return reads


def _best(replicas: PartReplicaTable, row: Ints, nucleus: Ints, nuclei: int) -> tuple[Ints, Ints]:
    """The best replica of each part at each nucleus, among ``row`` at ``nucleus``: its rows, and their nuclei.

    A complete replica on disk comes first, then the one with most files.
    """
    place = replicas.part[row] * max(1, nuclei) + nucleus
    whole_on_disk = replicas.complete[row] & ~replicas.is_tape[row]
    files, size = np.nan_to_num(replicas.files[row]), np.nan_to_num(replicas.bytes[row])
    order = np.lexsort((-size, -files, ~whole_on_disk, place))
    first = order[np.unique(place[order], return_index=True)[1]] if len(order) else order
    return row[first], nucleus[first]


def _of_datasets(work: TaskWork, flags: Bools) -> Bools:
    """(P,): some part of the same dataset has the flag."""
    _, dataset = np.unique(np.stack([work.parts.task, work.parts.datasetid]), axis=1, return_inverse=True)
    some = np.zeros(len(flags), dtype=np.bool_)
    some[dataset.ravel()[flags]] = True
    return np.asarray(some[dataset.ravel()])


def _faults(work: TaskWork, snapshot: Snapshot, storage: Ints, reading: InputReading) -> Texts:
    """(T,): the code of the fault of each task's input, empty without a fault.

    Every part needs a complete replica that can be read over WAN somewhere, except for tasks whose input is staged. An
    endpoint that is not on record is not known to be closed.
    """
    parts, replicas = work.parts, work.replicas
    sends = np.append(snapshot.storages.read_wan, True)[storage]  # -1 is the last one
    has_complete, has_remote = (np.zeros(len(parts), dtype=np.bool_) for _ in range(2))
    has_complete[replicas.part[replicas.complete]] = True
    has_remote[replicas.part[replicas.complete & sends]] = True
    if reading.options.container_source == "one_dataset" and len(parts):
        has_complete, has_remote = _of_datasets(work, has_complete), _of_datasets(work, has_remote)
    needed = ~work.tasks.input_prestaging[parts.task] | reading.options.staged_need_source
    fault = np.zeros(len(work.tasks), dtype=np.int64)
    for code, bad in (
        (3, needed & ~has_remote),
        (2, needed & ~has_complete),
        (1, ~parts.catalogued),
        (4, ~parts.asked),
    ):
        fault[parts.task[bad]] = code
    return np.array(INPUT_FAULTS, dtype=np.object_)[fault]


#: Separates the parts of a name under which work is counted, and occurs in none of them.
SEPARATOR = "\0"


def all_work(
    tasks: AssigningTable, remaining: RemainingTable, snapshot: Snapshot, reading: RemainingWorkReading
) -> RowsByKind:
    """(T, N): HS06 s that remain at each nucleus, of all work of the task's VO and label."""
    known, kind = distinct(_joined(tasks.vo, tasks.prodsourcelabel))
    owner = codes_of(_owners(remaining, known), known)
    nucleus, hs06s = codes_of(remaining.nucleus, list(snapshot.nuclei.name)), _as_read(remaining, reading)
    counted = (nucleus >= 0) & (owner >= 0)
    sums = np.zeros((max(1, len(known)), len(snapshot.nuclei)))
    np.add.at(sums, (owner[counted], nucleus[counted]), hs06s[counted])
    return RowsByKind(sums, kind)


def _owners(remaining: RemainingTable, known: Sequence[str]) -> Texts:
    """(R,): VO and label of the work; without a known label, the first brokered one of the VO."""
    if len(remaining.prodsourcelabel):
        return _joined(remaining.vo, remaining.prodsourcelabel)
    first = {str(owner).split(SEPARATOR)[0]: owner for owner in reversed(known)}
    return texts(first.get(vo or "") for vo in remaining.vo.tolist())


def _joined(*columns: Texts) -> Texts:
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return texts(SEPARATOR.join(value or "" for value in row) for row in rows)


def _as_read(remaining: RemainingTable, reading: RemainingWorkReading) -> Floats:
    """(R,): HS06 s of each row as the brokerage reads them, 0 where unknown."""
    as_stored = reading.options.milli_units != "scaled" and len(remaining.hs06s_as_stored)
    return np.nan_to_num(remaining.hs06s_as_stored if as_stored else remaining.hs06s)


def task_tags(tasks: AssigningTable, snapshot: Snapshot) -> Texts:
    """(T,): the name under which a task's work is counted, with its VO and label in front."""
    special = snapshot.jobs.resource_work_queues
    return _joined(tasks.vo, tasks.prodsourcelabel, share_tags(tasks.gshare, tasks.workqueue_id, special))


def share_work(
    tasks: AssigningTable, remaining: RemainingTable, snapshot: Snapshot, reading: RemainingWorkReading
) -> Floats:
    """(T, N): the work of the task's share and label at its priority and above; no priority is below all."""
    known, code = distinct(task_tags(tasks, snapshot))
    special = snapshot.jobs.resource_work_queues
    owners = distinct(_joined(tasks.vo, tasks.prodsourcelabel))[0]
    shares = share_tags(remaining.gshare, remaining.workqueue_id, special)
    accounting_key = codes_of(_joined(_owners(remaining, owners), shares), known)
    priority = np.nan_to_num(tasks.currentpriority, nan=-np.inf)
    theirs = np.nan_to_num(remaining.currentpriority, nan=-np.inf)
    if special and reading.options.without_work_queue == "not_beside_resource_queues":
        accounting_key = np.where(np.isnan(remaining.workqueue_id), -1, accounting_key)
    nucleus, hs06s = codes_of(remaining.nucleus, list(snapshot.nuclei.name)), _as_read(remaining, reading)
    accounting_key[nucleus < 0] = -1
    of_share = [np.flatnonzero(accounting_key == kind) for kind in range(len(known))]
    pairs = list(zip(code.tolist(), priority.tolist(), strict=True))
    place = {pair: index for index, pair in enumerate(dict.fromkeys(pairs))}
    table = np.zeros((len(place), len(snapshot.nuclei)))
    for (kind, least), index in place.items():
        rows = of_share[kind][theirs[of_share[kind]] >= least]
        table[index] = np.bincount(nucleus[rows], weights=hs06s[rows], minlength=table.shape[1])
    return table[[place[pair] for pair in pairs]]
