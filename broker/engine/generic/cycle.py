"""One cycle of the generic brokerage: jobs count by VO, queues that a task has used go first, and none bootstraps.

Pure, as the cycle that it extends. Source: PanDA JEDI, GenJobBroker.
"""

from __future__ import annotations

import dataclasses
from functools import cached_property

import numpy as np

from broker.domain.arrays import AnyArray, Bools, Floats, Ints
from broker.domain.facts import JobFacts
from broker.domain.grid import COUNTED_STATUSES
from broker.domain.work import WorkTable
from broker.engine.job.chunk_result import Block
from broker.engine.job.cycle import JobCycle
from broker.engine.job.facts import CycleFacts
from broker.engine.job.input_faults import INPUT_FAULTS
from broker.rules.contract import Load
from broker.snapshot.sources.task_queues import TASK_QUEUES

_RUNNING = COUNTED_STATUSES.index("running")
#: Of what may be wrong with the input, that for which files are looked up in vain.
_STOPPED_BY = ("unknown_dataset", "dataset_not_asked")


class GenericCycle(JobCycle):
    """The generic brokerage over one snapshot; arguments are those of :class:`JobCycle`."""

    def _cycle_facts(self, chunks: WorkTable) -> CycleFacts:
        first = self.chain.steps.initial_list.candidates(chunks, self.snapshot)
        return CycleFacts(
            initial=first.initial,
            one_preassigned=first.one_preassigned,
            listed=first.listed,
            refused_names=first.refused,
            accounting_key=chunks.vo,
            nucleus=np.full(len(chunks), -1, dtype=np.int64),
        )

    def _limits_of(self, chunks: WorkTable) -> tuple[Floats, Floats, Bools]:
        queue_limit, min_weight, may_bootstrap = super()._limits_of(chunks)
        # a queue takes jobs however many wait there
        return np.full_like(queue_limit, np.inf), min_weight, np.zeros_like(may_bootstrap)

    @cached_property
    def _blocked(self) -> list[str]:
        faults = [INPUT_FAULTS[at] for at in self._data.fault.tolist()]
        return [
            veto or (fault if fault in _STOPPED_BY else "") for veto, fault in zip(self._vetoes, faults, strict=True)
        ]

    @cached_property
    def _used(self) -> Bools:
        """(T, Q): the task has output at the queue."""
        queues, used = self.snapshot.queues, self.snapshot.offered.get(TASK_QUEUES, {})
        own = queues.name == queues.unified_name
        tasks, kind = np.unique(self.work.chunks.jeditaskid, return_inverse=True)
        rows = [own & np.isin(queues.name.astype(np.str_), sorted(used.get(int(task), ()))) for task in tasks]
        return np.array(rows, dtype=np.bool_).reshape(len(tasks), len(queues))[kind.ravel()]

    @cached_property
    def _is_own(self) -> Bools:
        """(Q,): the candidate is the queue itself, and no pseudo-queue of it."""
        return np.asarray(self.snapshot.queues.name == self.snapshot.queues.unified_name, dtype=np.bool_)

    def best_of(self, rows: slice) -> Ints:
        """All that the cuts leave."""
        return np.full(rows.stop - rows.start, max(1, len(self.snapshot.queues)), dtype=np.int64)

    def _loads(self, facts: JobFacts, rows: slice) -> Load:
        """As in production, with running jobs alone; queues that the task has used go first."""
        no_input = self.work.chunks.total_files[rows, None] == 0
        here = (facts.all_local & self._is_own[None, :]) | no_input
        return dataclasses.replace(
            super()._loads(facts, rows), running=facts.running, all_local=here, preferred=self._used[rows]
        )

    def load(self, block: Block, row: int, feasible: AnyArray) -> Load:
        """As in production, with running jobs alone; queues that the task has used go first."""
        found = super().load(block, row, feasible)
        running = block.counts.at(row - block.rows.start, feasible)[_RUNNING]
        here = (found.all_local & self._is_own[feasible]) | (self.work.chunks.total_files[row] == 0)
        return dataclasses.replace(found, running=running, all_local=here, preferred=self._used[row, feasible])
