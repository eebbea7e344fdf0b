"""Counts for a chunk at each unified queue: jobs by status, published slots, running cores, and details of the load.

Jobs are counted by the chunk's accounting key: its share, or its Resource work queue (:func:`accounting_keys_of`).
Shapes: (T, U) for chunk against unified queue, (status, T, Q) by candidate, (U,) for the queue alone.
:class:`LoadDetailFacts` gathers what only some options of cuts read, see
:class:`broker.rules.contract.LoadDetails`.

Source: PanDA production brokerage, initial weight, caps and ordering.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from broker.domain.arrays import AnyArray, Bools, Floats, Ints, RowsByKind, Texts, distinct, texts
from broker.domain.estimates import preferred_cpu_level
from broker.domain.facts import JobFacts
from broker.domain.grid import COUNTED_STATUSES, JobCounts
from broker.domain.queues import AUTO
from broker.domain.work import WorkTable
from broker.rules.contract import LoadDetails, Options, Step
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.sources.task_resource_types import TASK_RESOURCE_TYPES

#: Prefix of the number of a work queue in an accounting key; no share has such a name.
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

    An accounting key without any job counts 0.
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
    # most accounting keys and types use the rows for all of them
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

    Only queues that publish their software count; one that takes any software does not describe its nodes.
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


class JobCountReadingOptions(Options):
    """Which jobs are counted.

    Attributes:
        resource_queues: jobs of a Resource work queue with all labels, or with that of the task.
    """

    resource_queues: Literal["all_labels", "label_of_task"] = "all_labels"


class JobCountReading(Step):
    """The jobs that weights and caps of a chunk count."""

    name = "job_count_reading"
    title = "Which jobs of a share or Resource work queue are counted"
    options: JobCountReadingOptions = JobCountReadingOptions()

    def counts(self, snapshot: Snapshot, accounting_keys: Texts, labels: Texts) -> RowsByKind:
        """(status, T, Q): jobs of the chunks' accounting keys at the candidates, by COUNTED_STATUSES."""
        by_key = counts_by_status(snapshot, accounting_keys)
        if self.options.resource_queues == "all_labels":
            return by_key
        layers, kinds = [by_key.table], by_key.kinds.copy()
        own: dict[tuple[str, str | None], int] = {}
        for row, (key, label) in enumerate(zip(map(str, accounting_keys.tolist()), labels.tolist(), strict=True)):
            if not key.startswith(SPECIAL):
                continue
            if (key, label) not in own:
                own[key, label] = by_key.table.shape[1] + len(own)
                jobs = counted(snapshot.jobs, work_queue=int(key.removeprefix(SPECIAL)), label=label)
                layers.append(jobs.T[:, None])
            kinds[row] = own[key, label]
        return RowsByKind(np.concatenate(layers, axis=1), kinds, by_key.column)


def counted(jobs: JobCounts, *, work_queue: int, label: str | None) -> Floats:
    """(U, status): jobs of a work queue with a label."""
    table = np.zeros_like(jobs.total)
    statuses = {status: index for index, status in enumerate(COUNTED_STATUSES)}
    for row in jobs.rows:
        if row["workqueue_id"] == work_queue and row["prodsourcelabel"] == label and row["jobstatus"] in statuses:
            table[row["unified"], statuses[row["jobstatus"]]] += row["njobs"]
    return table


def typed_counts(snapshot: Snapshot, accounting_keys: Texts) -> dict[tuple[str, str | None], Floats]:
    """Jobs by accounting key and resource type, each (U, status).

    The jobs of a share exclude those of Resource work queues and those without a work queue. Source: PanDA production
    brokerage, caps by resource type.
    """
    jobs = snapshot.jobs
    statuses = {status: index for index, status in enumerate(COUNTED_STATUSES)}
    wanted = set(accounting_keys.tolist())
    tables: dict[tuple[str, str | None], Floats] = {}
    for row in jobs.rows:
        queue = row["workqueue_id"]
        if queue is None or row["jobstatus"] not in statuses:
            continue
        special = int(queue) in jobs.resource_work_queues
        accounting_key = f"{SPECIAL}{int(queue)}" if special else (row["gshare"] or "")
        if accounting_key in wanted:
            key = (accounting_key, row["resource_type"])
            table = tables.setdefault(key, np.zeros_like(jobs.total))
            table[row["unified"], statuses[row["jobstatus"]]] += row["njobs"]
    return tables


_QUEUED = tuple(COUNTED_STATUSES.index(status) for status in ("defined", "activated", "starting"))
_ASSIGNED, _RUNNING = COUNTED_STATUSES.index("assigned"), COUNTED_STATUSES.index("running")


class LoadDetailFacts:
    """The details of a cycle, chunk by chunk or for blocks of them."""

    def __init__(self, snapshot: Snapshot, accounting_keys: Texts, chunks: WorkTable) -> None:
        """Count once per cycle; ``accounting_keys`` (T,) are the names under which the chunks' jobs are counted."""
        self._snapshot, self._accounting_keys, self._chunks = snapshot, accounting_keys, chunks
        self._typed = typed_counts(snapshot, accounting_keys)
        self._kinds_of_task: Mapping[int, Mapping[str, frozenset[str]]] = snapshot.offered.get(TASK_RESOURCE_TYPES, {})
        self._cache: dict[tuple[object, ...], tuple[Floats, Bools]] = {}

    def of(self, rows: slice, facts: JobFacts) -> LoadDetails:
        """Details of the chunks ``rows`` at all candidates, (T, Q)."""
        typed = [self._typed_at(row) for row in range(rows.start, rows.stop)]
        queues = self._snapshot.queues
        table = np.array([pair[0] for pair in typed]).reshape(len(typed), len(queues), 3)
        known = np.array([pair[1] for pair in typed], dtype=np.bool_).reshape(len(typed), len(queues))
        return self._details(facts, table, known, self._one_queue(rows)[:, None])

    def at(self, row: int, inside: int, feasible: AnyArray, facts: JobFacts, placed: Floats | None) -> LoadDetails:
        """Details of one chunk at ``feasible``; ``placed``: jobs that the cycle placed there for its accounting key."""
        table, known = self._typed_at(row)
        table = table[feasible].copy()
        if placed is not None:
            table[:, 0] += placed
        seen = facts.block(np.array([inside]), np.asarray(feasible))
        details = self._details(seen, table[None], known[feasible][None], self._one_queue(slice(row, row + 1))[:, None])
        flat = {name: np.broadcast_to(value, (1, len(feasible)))[0] for name, value in vars(details).items()}
        return LoadDetails(**flat)

    def _one_queue(self, rows: slice) -> Bools:
        return np.asarray((self._chunks.t1weight[rows] < 0) & ~self._chunks.merging[rows])

    def _details(self, facts: JobFacts, table: Floats, known: Bools, one_queue: Bools) -> LoadDetails:
        return LoadDetails(
            real_running=facts.running,
            all_running=facts.all_running,
            is_ucore=facts.is_ucore,
            one_nucleus_queue=one_queue,
            typed_running=table[..., 2],
            typed_queued=table[..., 0],
            typed_assigned=table[..., 1],
            typed_known=known,
        )

    def _typed_at(self, row: int) -> tuple[Floats, Bools]:
        """(Q, 3) queued, assigned and running jobs of the types that count, and (Q,) whether any were counted."""
        kinds_at = self._kinds_of_task.get(int(self._chunks.jeditaskid[row]), {})
        own, accounting_key = self._chunks.resource_type[row], str(self._accounting_keys[row])
        key = (accounting_key, own, tuple(sorted((name, tuple(sorted(kinds))) for name, kinds in kinds_at.items())))
        if key not in self._cache:
            self._cache[key] = self._summed(accounting_key, own, kinds_at)
        return self._cache[key]

    def _summed(
        self, accounting_key: str, own: str | None, kinds_at: Mapping[str, frozenset[str]]
    ) -> tuple[Floats, Bools]:
        names = self._snapshot.unified.name.tolist()
        table, known = np.zeros((len(names), 3)), np.zeros(len(names), dtype=np.bool_)
        for (key, kind), counts in self._typed.items():
            if key != accounting_key:
                continue
            counted = counts.any(axis=1)
            selected = np.array([kind in kinds_at.get(name, (own,)) for name in names], dtype=np.bool_) & counted
            known |= selected
            table[selected, 0] += counts[selected][:, _QUEUED].sum(axis=1)
            table[selected, 1] += counts[selected, _ASSIGNED]
            table[selected, 2] += counts[selected, _RUNNING]
        unified = self._snapshot.queues.unified
        return table[unified], known[unified]
