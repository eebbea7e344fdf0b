"""Figures of the load that only some options of cuts read: see :class:`broker.rules.contract.LoadDetails`.

Source: PanDA production brokerage, caps and ordering.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from broker.domain.arrays import AnyArray, Bools, Floats, Texts
from broker.domain.facts import JobFacts
from broker.domain.grid import COUNTED_STATUSES
from broker.domain.work import WorkTable
from broker.engine.job.job_count_reading import typed_counts
from broker.rules.contract import LoadDetails
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.sources.task_resource_types import TASK_RESOURCE_TYPES

_QUEUED = tuple(COUNTED_STATUSES.index(status) for status in ("defined", "activated", "starting"))
_ASSIGNED, _RUNNING = COUNTED_STATUSES.index("assigned"), COUNTED_STATUSES.index("running")


class LoadDetailFacts:
    """The details of a cycle, chunk by chunk or for blocks of them."""

    def __init__(self, snapshot: Snapshot, accounting_keys: Texts, chunks: WorkTable) -> None:
        """Count once a cycle; ``accounting_keys`` (T,) are the names under which the chunks' jobs are counted."""
        self._snapshot, self._accounting_keys, self._chunks = snapshot, accounting_keys, chunks
        self._typed = typed_counts(snapshot, accounting_keys)
        self._kinds_of_task: Mapping[int, Mapping[str, frozenset[str]]] = snapshot.offered.get(TASK_RESOURCE_TYPES, {})
        self._cache: dict[tuple[object, ...], tuple[Floats, Bools]] = {}

    def of(self, rows: slice, facts: JobFacts) -> LoadDetails:
        """Details of the chunks ``rows`` at all candidates, (T, Q)."""
        found = [self._typed_at(row) for row in range(rows.start, rows.stop)]
        queues = self._snapshot.queues
        table = np.array([one[0] for one in found]).reshape(len(found), len(queues), 3)
        known = np.array([one[1] for one in found], dtype=np.bool_).reshape(len(found), len(queues))
        return self._details(facts, table, known, self._one_queue(rows)[:, None])

    def at(self, row: int, inside: int, feasible: AnyArray, facts: JobFacts, placed: Floats | None) -> LoadDetails:
        """Details of one chunk at ``feasible``; ``placed``: jobs the cycle placed there for its accounting key."""
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
        for (of, kind), counts in self._typed.items():
            if of != accounting_key:
                continue
            counted = counts.any(axis=1)
            asked = np.array([kind in kinds_at.get(name, (own,)) for name in names], dtype=np.bool_) & counted
            known |= asked
            table[asked, 0] += counts[asked][:, _QUEUED].sum(axis=1)
            table[asked, 1] += counts[asked, _ASSIGNED]
            table[asked, 2] += counts[asked, _RUNNING]
        unified = self._snapshot.queues.unified
        return table[unified], known[unified]
