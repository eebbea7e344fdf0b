"""The work that remains at nuclei: all of a task's label, and that of its share at its priority and above.

Source: PanDA production brokerage, remaining work.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from broker.domain.arrays import Floats, Texts, codes_of, distinct, texts
from broker.domain.rows_by_kind import RowsByKind
from broker.domain.task_work import AssigningTable, RemainingTable
from broker.engine.job.count_facts import share_tags
from broker.engine.task.steps import RemainingWorkReading
from broker.snapshot.snapshot import Snapshot

#: Between the parts of a name under which work is counted; it is in none of them.
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
    """(R,): VO and label of the work, where the label is not known the first of the VO that is brokered."""
    if len(remaining.prodsourcelabel):
        return _joined(remaining.vo, remaining.prodsourcelabel)
    first = {str(one).split(SEPARATOR)[0]: one for one in reversed(known)}
    return texts(first.get(vo or "") for vo in remaining.vo.tolist())


def _joined(*columns: Texts) -> Texts:
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return texts(SEPARATOR.join(value or "" for value in row) for row in rows)


def _as_read(remaining: RemainingTable, reading: RemainingWorkReading) -> Floats:
    """(R,): HS06 s of each row as the brokerage reads them, 0 where they are not known."""
    as_stored = reading.options.milli_units != "scaled" and len(remaining.hs06s_as_stored)
    return np.nan_to_num(remaining.hs06s_as_stored if as_stored else remaining.hs06s)


def task_tags(tasks: AssigningTable, snapshot: Snapshot) -> Texts:
    """(T,): the name under which a task's work is counted, with its VO and label in front."""
    special = snapshot.jobs.resource_work_queues
    return _joined(tasks.vo, tasks.prodsourcelabel, share_tags(tasks.gshare, tasks.workqueue_id, special))


def share_work(
    tasks: AssigningTable, remaining: RemainingTable, snapshot: Snapshot, reading: RemainingWorkReading
) -> Floats:
    """(T, N): the work of the task's share and label at its priority and above; one without priority is below all."""
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
