"""Which jobs are counted for a chunk: those of its share, or of its Resource work queue.

Source: PanDA production brokerage, initial weight and caps.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from broker.domain.arrays import Floats, Texts
from broker.domain.grid import COUNTED_STATUSES, JobCounts
from broker.domain.rows_by_kind import RowsByKind
from broker.engine.job.count_facts import SPECIAL, counts_by_status
from broker.rules.contract import Options, Step
from broker.snapshot.snapshot import Snapshot


class JobCountReadingOptions(Options):
    """Which jobs are counted.

    Attributes:
        resource_queues: jobs of a Resource work queue with all labels, or with that of the task.
    """

    resource_queues: Literal["all_labels", "label_of_task"] = "all_labels"


class JobCountReading(Step):
    """The jobs that weights and caps of a chunk look at."""

    name = "job_count_reading"
    title = "Which jobs of a share or Resource work queue are counted"
    options: JobCountReadingOptions = JobCountReadingOptions()

    def counts(self, snapshot: Snapshot, accounting_keys: Texts, labels: Texts) -> RowsByKind:
        """(status, T, Q): jobs of the chunks' accounting keys at the candidates, by COUNTED_STATUSES."""
        found = counts_by_status(snapshot, accounting_keys)
        if self.options.resource_queues == "all_labels":
            return found
        layers, kinds = [found.table], found.kinds.copy()
        own: dict[tuple[str, str | None], int] = {}
        for row, (key, label) in enumerate(zip(map(str, accounting_keys.tolist()), labels.tolist(), strict=True)):
            if not key.startswith(SPECIAL):
                continue
            if (key, label) not in own:
                own[key, label] = found.table.shape[1] + len(own)
                jobs = counted(snapshot.jobs, work_queue=int(key.removeprefix(SPECIAL)), label=label)
                layers.append(jobs.T[:, None])
            kinds[row] = own[key, label]
        return RowsByKind(np.concatenate(layers, axis=1), kinds, found.column)


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

    A share has its jobs without those of Resource work queues and without those of no work queue. Source: PanDA
    production brokerage, caps by resource type.
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
