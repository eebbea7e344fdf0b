"""The work that remains at nuclei: all of it, and that of each task's share at its priority and above."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Floats, Texts, codes_of, distinct, texts
from broker.domain.task_work import AssigningTable, RemainingTable
from broker.engine.job.count_facts import share_tags
from broker.engine.task.steps import RemainingWorkReading
from broker.snapshot.snapshot import Snapshot


def all_work(remaining: RemainingTable, snapshot: Snapshot, reading: RemainingWorkReading) -> Floats:
    """(N,): HS06 s that remain at each nucleus."""
    nucleus, hs06s = codes_of(remaining.nucleus, list(snapshot.nuclei.name)), _as_read(remaining, reading)
    known = nucleus >= 0
    sums = np.bincount(nucleus[known], weights=hs06s[known], minlength=len(snapshot.nuclei))
    return sums.astype(np.float64)


def _as_read(remaining: RemainingTable, reading: RemainingWorkReading) -> Floats:
    """(R,): HS06 s of each row as the brokerage reads them, 0 where they are not known."""
    as_stored = reading.options.milli_units != "scaled" and len(remaining.hs06s_as_stored)
    return np.nan_to_num(remaining.hs06s_as_stored if as_stored else remaining.hs06s)


def task_tags(tasks: AssigningTable, snapshot: Snapshot) -> Texts:
    """(T,): the name under which a task's work is counted, with its VO in front."""
    return _accounting_keys(tasks.vo, tasks.gshare, tasks.workqueue_id, snapshot.jobs.resource_work_queues)


def _accounting_keys(vos: Texts, shares: Texts, work_queues: Floats, special: frozenset[int]) -> Texts:
    accounting_keys = share_tags(shares, work_queues, special)
    pairs = zip(vos.tolist(), accounting_keys.tolist(), strict=True)
    return texts(f"{vo or ''}\0{accounting_key}" for vo, accounting_key in pairs)


def share_work(
    tasks: AssigningTable, remaining: RemainingTable, snapshot: Snapshot, reading: RemainingWorkReading
) -> Floats:
    """(T, N): the work of the task's share at its priority and above; a task without priority is below all."""
    known, code = distinct(task_tags(tasks, snapshot))
    special = snapshot.jobs.resource_work_queues
    accounting_key = codes_of(_accounting_keys(remaining.vo, remaining.gshare, remaining.workqueue_id, special), known)
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
