"""Counts for a chunk at each unified queue: jobs, slots, cores, and the readings of "running"."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools, Floats, Ints, Texts, distinct, texts
from broker.domain.cpu_preference import preferred_cpu_level
from broker.domain.grid import COUNTED_STATUSES
from broker.domain.rows_by_kind import RowsByKind
from broker.domain.software import AUTO
from broker.domain.work import WorkTable
from broker.snapshot.snapshot import Snapshot

#: Before the number of a work queue in a accounting key: no share is called like that.
SPECIAL = "#"


def accounting_keys_of(work: WorkTable, special: frozenset[int]) -> Texts:
    """(T,): the name under which a chunk's jobs are counted, see :func:`share_tags`."""
    return share_tags(work.gshare, work.workqueue_id, special)


def share_tags(shares: Texts, work_queues: Floats, special: frozenset[int]) -> Texts:
    """The name under which work is counted: its share, or ``#id`` where its work queue is of function Resource."""
    rows = zip(work_queues.tolist(), shares.tolist(), strict=True)
    return texts(f"{SPECIAL}{int(queue)}" if queue in special else (share or "") for queue, share in rows)


def counts_by_status(snapshot: Snapshot, accounting_keys: Texts) -> RowsByKind:
    """(status, T, Q): jobs of the chunk's accounting key at the candidate's unified queue, by COUNTED_STATUSES.

    A accounting key without any job counts 0.
    """
    position = {accounting_key: index for index, accounting_key in enumerate(snapshot.jobs.accounting_keys)}
    known, codes = distinct(accounting_keys)
    table = np.zeros((len(COUNTED_STATUSES), max(1, len(known)), len(snapshot.unified)))
    for index, accounting_key in enumerate(known):
        if accounting_key in position:
            table[:, index] = snapshot.jobs.by_accounting_key[:, position[accounting_key]].T
    return RowsByKind(table, codes, snapshot.queues.unified)


def slots_of(snapshot: Snapshot, accounting_keys: Texts, resource_types: Texts) -> RowsByKind:
    """(T, U): published slots for the accounting key and resource type, NaN without any.

    The share's own row wins over the row for all shares; then the resource type's own over the row for all types, and a
    task without a resource type takes the sum. Source: PanDA data model, Harvester slots.
    """
    if not len(snapshot.slots):
        return RowsByKind(np.full((1, len(snapshot.unified)), np.nan), np.zeros(len(accounting_keys), dtype=np.int64))
    pairs, codes = distinct(
        texts(
            f"{accounting_key}\0{'' if kind is None else kind}"
            for accounting_key, kind in zip(accounting_keys, resource_types, strict=True)
        )
    )
    table = np.full((max(1, len(pairs)), len(snapshot.unified)), np.nan)
    by_queue = _rows_by_queue(snapshot)
    for index, pair in enumerate(pairs):
        accounting_key, kind = str(pair).split("\0")
        accounting_key = accounting_key.removeprefix(SPECIAL)  # rows name a work queue by its number alone
        for queue, rows in by_queue.items():
            table[index, queue] = _slots(rows, accounting_key, kind or None)
    # most accounting keys and types find the rows for all of them
    first: dict[bytes, int] = {}
    alike = np.array([first.setdefault(row.tobytes(), len(first)) for row in table], dtype=np.int64)
    _, rows_of_kinds = np.unique(alike, return_index=True)
    return RowsByKind(table[rows_of_kinds], alike[codes])


def _rows_by_queue(snapshot: Snapshot) -> dict[int, list[tuple[str | None, str | None, float]]]:
    slots = snapshot.slots
    rows: dict[int, list[tuple[str | None, str | None, float]]] = {}
    for queue, share, kind, number in zip(
        slots.unified, slots.gshare, slots.resource_type, slots.numslots, strict=True
    ):
        rows.setdefault(int(queue), []).append((share, kind, float(number)))
    return rows


def _slots(rows: list[tuple[str | None, str | None, float]], accounting_key: str, kind: str | None) -> float:
    own = [row for row in rows if row[0] == accounting_key] or [row for row in rows if row[0] is None]
    if not own:
        return np.nan
    if kind is None:
        return sum(row[2] for row in own)
    exact = [row[2] for row in own if row[1] == kind] or [row[2] for row in own if row[1] is None]
    return exact[0] if exact else np.nan


def running_cores(snapshot: Snapshot, vos: Texts, labels: Texts, *, starting: bool = False) -> RowsByKind:
    """(T, U): cores of running (or starting) jobs of the chunk's VO and label."""
    position = {key: index for index, key in enumerate(snapshot.jobs.core_keys)}
    pairs = zip(vos, labels, strict=True)
    codes: Ints = np.array([position.get(pair, len(position)) for pair in pairs], dtype=np.int64)
    cores = snapshot.jobs.starting_cores if starting else snapshot.jobs.running_cores
    padded = np.concatenate([cores, np.zeros((len(snapshot.unified), 1))], axis=1)
    return RowsByKind(padded.T, codes)


def transferring(snapshot: Snapshot) -> Floats:
    """(U,): transferring jobs, without those for a nucleus whose default output endpoint cannot be written over WAN."""
    nuclei, storages = snapshot.nuclei, snapshot.storages
    closed: Bools = np.zeros(len(nuclei), dtype=np.bool_)
    known = nuclei.output_storage >= 0
    closed[known] = ~storages.write_wan[nuclei.output_storage[known]]
    closed &= nuclei.is_nucleus
    lost = snapshot.jobs.transferring_to[:, closed].sum(axis=1)
    return np.asarray(snapshot.jobs.total[:, COUNTED_STATUSES.index("transferring")] - lost)


def preferred_cpus(snapshot: Snapshot, architectures: Texts) -> RowsByKind:
    """(T, U): percentage of the queue's logical CPUs that are of the level which the task prefers; 0 without any.

    It counts at queues that publish what they have; one that takes any software says nothing of its nodes.
    Source: PanDA production brokerage, CPU level preference.
    """
    known, codes = distinct(architectures)
    levels, level_of = distinct(texts(preferred_cpu_level(architecture) for architecture in known))
    table = np.zeros((max(1, len(levels)), len(snapshot.unified)))
    offers = list(zip(snapshot.unified.releases, snapshot.unified.cpu_levels, strict=True))
    for index, level in enumerate(levels):
        if level is not None:
            table[index] = [published.get(level, 0.0) if releases == AUTO else 0.0 for releases, published in offers]
    return RowsByKind(table, level_of[codes])
