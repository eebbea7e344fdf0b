"""The jobs that count for a chunk: those of its VO in all shares, at the very queue.

Source: PanDA JEDI, GenJobBroker.
"""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Floats, Texts, distinct
from broker.domain.grid import COUNTED_STATUSES, JobCounts
from broker.domain.identity_cache import Kept
from broker.domain.rows_by_kind import RowsByKind
from broker.engine.job.job_count_reading import JobCountReading
from broker.snapshot.snapshot import Snapshot

_counted = Kept[dict[str | None, Floats]]()


class JobsOfVo(JobCountReading):
    """Jobs of the VO in all shares; a pseudo-queue has none, as jobs are counted at its unified queue."""

    title = "Which jobs are counted: those of the VO in all shares"

    def counts(self, snapshot: Snapshot, accounting_keys: Texts, labels: Texts) -> RowsByKind:
        """(status, T, Q): jobs of the VOs ``accounting_keys`` (T,) at the candidates, by COUNTED_STATUSES."""
        by_vo = _counted.of((snapshot.jobs,), lambda: _by_vo(snapshot.jobs))
        known, kind = distinct(accounting_keys)
        # one column more, without jobs, for pseudo-queues
        table = np.zeros((len(COUNTED_STATUSES), max(1, len(known)), len(snapshot.unified) + 1))
        for at, vo in enumerate(known):
            if vo in by_vo:
                table[:, at, :-1] = by_vo[vo].T
        queues = snapshot.queues
        column = np.where(queues.name == queues.unified_name, queues.unified, len(snapshot.unified))
        return RowsByKind(table, kind, column)


def _by_vo(jobs: JobCounts) -> dict[str | None, Floats]:
    """(U, status) by VO."""
    statuses = {status: index for index, status in enumerate(COUNTED_STATUSES)}
    tables: dict[str | None, Floats] = {}
    for row in jobs.rows:
        if row["jobstatus"] in statuses:
            table = tables.setdefault(row["vo"], np.zeros_like(jobs.total))
            table[row["unified"], statuses[row["jobstatus"]]] += row["njobs"]
    return tables
