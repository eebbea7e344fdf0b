"""Base class of the job brokerages: a cycle from chunks to jobs, stored chunks, and their replay."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from broker.brokerages.base import Brokerage, Cycle, ReplayedDecision, Rules, StageTimes
from broker.brokerages.job.alternatives import with_chosen_ways
from broker.brokerages.job.assign import assign_chunks, assign_together, with_plan
from broker.brokerages.job.assigned import CANDIDATES_FULL_REASON, AssignedChunk
from broker.brokerages.job.job_rows import job_rows
from broker.codec.cut_codec import CutEncoder, cycle_work
from broker.codec.work_codec import Body, StoredWork, WorkCorruptError, WorkEncoder, joined_work, missing_columns
from broker.domain.arrays import Bools, Ints, Texts
from broker.domain.decisions import FILES_CHANGED, TASK_CHANGED, Decision, DecisionRecord
from broker.domain.placements import Placement, WriteOutcome
from broker.domain.work import Work
from broker.engine.job.chunk_result import ChunkResult
from broker.engine.job.cycle import JobCycle
from broker.engine.job.decision import decision_of, every_rule
from broker.engine.job.input_faults import INPUT_REASONS
from broker.engine.job.why_not import why_not, why_not_each
from broker.engine.shared.answer import CandidateVerdict, RuleVerdict
from broker.engine.shared.chain import QueueChain
from broker.engine.shared.filter_cache import RuleFault
from broker.engine.shared.rank import REASONS as RANKING_REASONS
from broker.engine.shared.split_cycle import SplitCycle
from broker.gdpconfig import Tuning
from broker.snapshot.snapshot import Snapshot
from broker.work.assemble import CycleWork


@dataclass(frozen=True)
class StoredChunks:
    """Stored chunks of one VO, in the order in which a job brokerage decided them."""

    vo: str | None
    stored: StoredWork
    _completed: dict[str, Work] = field(default_factory=dict, compare=False, repr=False)

    @property
    def jeditaskid(self) -> Ints:
        """(T,) the task of each chunk."""
        return self.stored.work.chunks.jeditaskid

    @property
    def load_before(self) -> Sequence[Mapping[str, Any]]:
        """The load counted before each chunk, as stored."""
        return [load.stored() for load in self.stored.load]

    def check(self) -> None:
        """Read the cuts of the chunks and the load counted before them.

        Raises:
            WorkCorruptError: they are damaged.
        """
        _ = self.work, self.stored.load

    @cached_property
    def work(self) -> CycleWork | None:
        """The chunks with their cuts; None where a cut was not stored.

        Raises:
            WorkCorruptError: it is damaged.
        """
        return None if None in self.stored.cuts else cycle_work(self.stored)

    def completed(self, brokerage: str, complete: Callable[[CycleWork], Work]) -> Work:
        """The chunks with the brokerage's estimates, computed once."""
        if brokerage not in self._completed and self.work is not None:
            self._completed[brokerage] = complete(self.work)
        return self._completed[brokerage]


class JobsCycle(Cycle[AssignedChunk]):
    """A cycle of a job brokerage with everything needed to cut its chunks into jobs."""

    def __init__(self, cycle: JobCycle, work: CycleWork) -> None:
        """Broker ``work`` by ``cycle``, which is over the same chunks."""
        self.engine, self._work, self.snapshot = cycle, work, cycle.snapshot

    @property
    def faults(self) -> Sequence[RuleFault]:
        """The rules that could not be run."""
        return self.engine.faults

    @property
    def jeditaskid(self) -> Ints:
        """(T,) the task of each chunk."""
        return self._work.work.chunks.jeditaskid

    @property
    def counts(self) -> Mapping[str, int]:
        """Tasks and chunks of the work, for the report of the cycle."""
        return {"tasks": len(np.unique(self.jeditaskid)), "chunks": len(self.jeditaskid)}

    @property
    def work(self) -> CycleWork:
        """The chunks, each in the chosen way to run it."""
        return self._work

    def assign(self, seed: int, times: StageTimes | None = None) -> Iterator[AssignedChunk]:
        """Broker and cut the chunks in order; each meets the jobs of those before it."""
        assign = assign_together if self.engine.chain.steps.placement.together else assign_chunks
        return assign(self.engine, self._work, seed, times)

    def split(self, other: JobsCycle, rows: Bools) -> JobsCycle:
        """This cycle with the chunks ``rows``, shape (T,), decided by ``other``."""
        return JobsCycle(SplitCycle(self.engine, other.engine, rows), self._work)

    def encode(self, assigned: AssignedChunk) -> bytes:
        """The chunk, the load before it, and its cut, in their stored form."""
        row = assigned.row
        return self._work_encoder.encode(row, assigned.before, self._cut_encoder.encode(row))

    @cached_property
    def _work_encoder(self) -> WorkEncoder:
        return WorkEncoder(self._work.work)

    @cached_property
    def _cut_encoder(self) -> CutEncoder:
        return CutEncoder(self._work)

    def rows(self, assigned: Sequence[AssignedChunk]) -> Placement:
        """The jobs, their files, and the tasks that wait."""
        return job_rows(assigned, self._work, self.snapshot)

    def records(
        self, assigned: Sequence[AssignedChunk], written: WriteOutcome | None, now: datetime
    ) -> list[DecisionRecord]:
        """The decisions with the jobs that were written for them."""
        if written is None or written.kept is None or bool(written.kept.all()):
            every: list[Bools | None] = [None] * len(assigned)
        else:
            lengths = np.array([chunk.job_count for chunk in assigned], dtype=np.int64)
            every = list(np.split(written.kept, np.cumsum(lengths)[:-1]))
        skipped = frozenset[int]() if written is None else written.tasks_skipped
        return [
            self._record(chunk, mask, chunk.decision.jeditaskid in skipped)
            for chunk, mask in zip(assigned, every, strict=True)
        ]

    def _record(self, chunk: AssignedChunk, mask: Bools | None, task_skipped: bool) -> DecisionRecord:
        """The record of a chunk: with all its jobs, or only those in ``mask`` (J,)."""
        decision, names = chunk.decision, self.snapshot.queues.name
        assigned = chunk.assigned(names) if mask is None else chunk.assigned_of(mask, names)
        if task_skipped:
            decision = dataclasses.replace(decision, outcome="skipped", reason=TASK_CHANGED)
        elif decision.outcome == "brokered" and not assigned:
            decision = dataclasses.replace(decision, outcome="skipped", reason=FILES_CHANGED)
        elif mask is not None and not mask.all():
            lost = len(mask) - int(mask.sum())
            decision = dataclasses.replace(decision, notes=(*decision.notes, f"{FILES_CHANGED}:{lost}"))
        return DecisionRecord(decision, assigned)


class JobBrokerage(Brokerage[CycleWork, StoredChunks]):
    """A brokerage that chooses queues for the jobs of input chunks.

    Attributes:
        pending_minutes: how long a task waits if no queue is left for it.
    """

    pending_minutes: ClassVar[int]
    gives = (*Brokerage.gives, *RANKING_REASONS, *INPUT_REASONS, CANDIDATES_FULL_REASON)

    @abstractmethod
    def engine_cycle(
        self, snapshot: Snapshot, work: Work, tuning: Tuning, rules: Rules, *, independent: bool = False
    ) -> JobCycle:
        """The engine for chunks.

        Raises:
            WorkCorruptError: the chunks or the rules are not those of this brokerage.
        """

    def completes(self, tuning: Tuning, rules: Rules) -> bool:
        """Whether the brokerage estimates anything for all chunks beforehand, from the chunks alone."""
        return False

    def complete(self, work: CycleWork, tuning: Tuning, rules: Rules) -> CycleWork:
        """The work with the brokerage's estimates for all chunks; unchanged without estimates."""
        return work

    def candidates(self, snapshot: Snapshot) -> Texts:
        """(Q,) the names of the pseudo-queues."""
        return snapshot.queues.name

    def cycle(
        self, snapshot: Snapshot, work: CycleWork, tuning: Tuning, rules: Rules, *, independent: bool = False
    ) -> JobsCycle:
        """A cycle over chunks, each in the first of its ways that some queue satisfies."""

        def alone(chunks: Work) -> JobCycle:
            return self.engine_cycle(snapshot, chunks, tuning, rules, independent=True)

        chosen = self.complete(with_chosen_ways(work, alone), tuning, rules)
        return JobsCycle(self.engine_cycle(snapshot, chosen.work, tuning, rules, independent=independent), chosen)

    def decides_together(self, rules: Rules) -> bool:
        """Whether step ``placement`` assigns all chunks of a cycle by one program."""
        return isinstance(rules.chain, QueueChain) and rules.chain.steps.placement.together

    def retry_after(self, decision: Decision) -> timedelta | None:
        """How long a pending or throttled task waits."""
        return timedelta(minutes=self.pending_minutes) if decision.outcome in ("pending", "throttled") else None

    def decode(self, vo: str | None, bodies: list[Body], *, older: bool) -> StoredChunks:
        """Stored chunks of one VO."""
        if any("c" not in body for body in bodies):
            raise WorkCorruptError(f"the stored work is not that of chunks, which {self.name} decides about")
        return StoredChunks(vo, joined_work(bodies, fill=older))

    def columns_not_stored(self, body: Body) -> tuple[str, ...]:
        """The columns of this version that stored work does not have."""
        return missing_columns(body)

    def vo_of(self, body: Body) -> Any:
        """The VO in the unpacked work of a decision."""
        return body["c"]["vo"][0]

    def replayed_cycle(
        self,
        snapshot: Snapshot,
        tuning: Tuning,
        batch: StoredChunks,
        rules: Rules,
        beside: JobCycle | None = None,
    ) -> JobCycle | None:
        """A cycle over stored chunks of one VO; None where its chunks are decided together."""
        work = self._stored_work(tuning, batch, rules)
        reused = None if beside is None else self.cycle_beside(beside, snapshot, work, tuning, rules)
        if reused is not None:
            return reused
        cycle = self.engine_cycle(snapshot, work, tuning, rules)
        return None if cycle.chain.steps.placement.together else cycle

    def cycle_beside(
        self, beside: JobCycle, snapshot: Snapshot, work: Work, tuning: Tuning, rules: Rules
    ) -> JobCycle | None:
        """A cycle that reuses the data of another one; None where the data would differ."""
        return beside.beside(snapshot, work, tuning, rules.chain) if isinstance(rules.chain, QueueChain) else None

    def _stored_work(self, tuning: Tuning, batch: StoredChunks, rules: Rules) -> Work:
        if batch.work is None:
            return batch.stored.work
        if not self.completes(tuning, rules):
            return batch.work.work
        # the same object for all sides of a comparison, which tells them that they are over the same chunks
        return batch.completed(self.name, lambda work: self.complete(work, tuning, rules).work)

    def replay(
        self, snapshot: Snapshot, tuning: Tuning, batch: StoredChunks, seed: int, rules: Rules, *, as_stored: bool
    ) -> Iterator[ReplayedDecision]:
        """Decide stored chunks again. If one was stored without its cut, all count the stored load and give no jobs."""
        cycle = self.engine_cycle(snapshot, self._stored_work(tuning, batch, rules), tuning, rules)
        if batch.work is None:
            results = cycle.results()
            for row, before in enumerate(batch.stored.load):
                cycle.set_load(row, before)
                result = with_plan(cycle, next(results), before.plan)
                yield ReplayedDecision(decision_of(cycle, result), None, before.stored())
            return
        names = cycle.snapshot.queues.name
        loads = batch.stored.load if as_stored else None
        if cycle.chain.steps.placement.together:
            fell_back = next((one.plan.fallback for one in batch.stored.load if one.plan is not None), None)
            chunks = assign_together(cycle, batch.work, seed, before=loads, fallback=fell_back)
        else:
            chunks = assign_chunks(cycle, batch.work, seed, before=loads)
        for chunk in chunks:
            yield ReplayedDecision(chunk.decision, chunk.assigned(names), chunk.before.stored())

    def why_not(
        self, snapshot: Snapshot, tuning: Tuning, batch: StoredChunks, rules: Rules, decision: Decision, name: str
    ) -> list[CandidateVerdict]:
        """Why a stored decision did not choose a queue: one answer for each of its pseudo-queues."""
        return why_not(*self._one_chunk(snapshot, tuning, batch, rules), name)

    def why_not_each(
        self,
        snapshot: Snapshot,
        tuning: Tuning,
        batch: StoredChunks,
        rules: Rules,
        decision: Decision,
        names: Collection[str] | None = None,
    ) -> list[CandidateVerdict]:
        """The verdict on each pseudo-queue of a stored decision, or on those named."""
        return why_not_each(*self._one_chunk(snapshot, tuning, batch, rules), names)

    def every_rule(
        self, snapshot: Snapshot, tuning: Tuning, batch: StoredChunks, rules: Rules, name: str
    ) -> list[RuleVerdict]:
        """Verdicts of every filter on a pseudo-queue for a stored chunk, in order."""
        return every_rule(*self._one_chunk(snapshot, tuning, batch, rules), name)

    def decide_again(self, snapshot: Snapshot, tuning: Tuning, batch: StoredChunks, rules: Rules) -> Decision:
        """The decision about a stored chunk, which is not cut into jobs."""
        return decision_of(*self._one_chunk(snapshot, tuning, batch, rules))

    def _one_chunk(
        self, snapshot: Snapshot, tuning: Tuning, batch: StoredChunks, rules: Rules
    ) -> tuple[JobCycle, ChunkResult]:
        """A stored chunk by itself, with the load before it or its part of the plan."""
        cycle = self.engine_cycle(snapshot, batch.stored.work, tuning, rules)
        cycle.set_load(0, batch.stored.load[0])
        result = next(cycle.results())
        if not cycle.chain.steps.placement.together:
            return cycle, result
        return cycle, with_plan(cycle, result, batch.stored.load[0].plan)
