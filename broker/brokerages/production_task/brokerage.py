"""The production task brokerage: its rules, in order, with the reason for each position.

Source: ATLAS Production Task Brokerage; Special Brokerage for ATLAS Full-chain. The order is PanDA's. A nucleus that a
rule rejects is gone, so the order decides which code is shown, and which nuclei remain when the check of data locality
tests whether any has enough.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np

from broker.brokerages.base import Brokerage, Cycle, ReplayedDecision, Rules, StageTimes
from broker.brokerages.production_job.brokerage import NAME as JOB_BROKERAGE
from broker.brokerages.production_task.assign import (
    AssignedTask,
    assign_tasks,
    columns_of,
    decided_blocks,
    nucleus_rows,
    output_endpoints,
)
from broker.brokerages.replayed_columns import ReplayedColumns
from broker.codec.task_work_codec import StoredTasks, TaskWorkEncoder, joined_tasks, missing_task_columns
from broker.codec.work_codec import Body, WorkCorruptError
from broker.domain.arrays import Bools, Floats, Ints, Texts
from broker.domain.decisions import RETRY_AFTER, TASK_CHANGED, Decision, DecisionRecord
from broker.domain.placements import TaskPlacement, WriteOutcome
from broker.domain.task_work import TaskWork
from broker.engine.job.input_faults import INPUT_REASONS
from broker.engine.shared.answer import CandidateVerdict
from broker.engine.shared.chain import NucleusChain, QueueChain
from broker.engine.shared.evaluate import AnyFilter
from broker.engine.shared.filter_cache import RuleFault
from broker.engine.shared.rank import WEIGHT_UNKNOWN_REASON
from broker.engine.task.cycle import TASK_REASONS, TaskCycle
from broker.engine.task.decision import REASONS as NUCLEUS_REASONS, why_not_nucleus
from broker.gdpconfig import Tuning
from broker.rules.contract import Filter, GroupFilter, NucleusLoadWeight, TaskPairs, Weight
from broker.rules.production_task.filters.destination_blacklist import DestinationBlacklist
from broker.rules.production_task.filters.full_chain import FullChain
from broker.rules.production_task.filters.innum import Innum
from broker.rules.production_task.filters.insize import Insize
from broker.rules.production_task.filters.job import Job
from broker.rules.production_task.filters.match import Match
from broker.rules.production_task.filters.source_blacklist import SourceBlacklist
from broker.rules.production_task.filters.space import Space
from broker.rules.production_task.filters.status import Status
from broker.rules.production_task.filters.transfer_backlog import TransferBacklog
from broker.rules.production_task.weights.free_fraction import FreeFraction
from broker.rules.production_task.weights.free_space import FreeSpace
from broker.rules.production_task.weights.locality import Locality
from broker.rules.production_task.weights.remaining_work import RemainingWork
from broker.rules.production_task.weights.tape import Tape
from broker.snapshot.snapshot import Snapshot

NAME = "production_task"

FILTERS: tuple[Filter[TaskPairs] | GroupFilter[TaskPairs], ...] = (
    # what closes a nucleus to everybody
    Status(),
    TransferBacklog(),
    # its storages: one must exist before it can be checked; space comes last, as it changes most often
    Match(),
    SourceBlacklist(),
    DestinationBlacklist(),
    Space(),
    # what its queues can run
    Job(),
    # input: these compare the remaining nuclei
    Insize(),
    Innum(),
    # the chain of the task comes last, so that it never makes up for missing data
    FullChain(),
)

WEIGHTS: tuple[Weight[TaskPairs], ...] = (Locality(), Tape(), FreeFraction(), FreeSpace())
LOAD_WEIGHTS: tuple[NucleusLoadWeight, ...] = (RemainingWork(),)

#: Rules of the job brokerage that do not judge whether a nucleus could run the jobs: they depend on the nucleus of the
#: task, on single files, or on the links to the nucleus, or apply when queues are weighed. Source: PanDA production
#: brokerage, job check.
NOT_IN_DRY_RUN = ("full_chain", "not_full_chain", "io", "non_local", "low_network_weight", "resource_type_known")


def chain() -> NucleusChain:
    """The rules of the production task brokerage as shipped."""
    return NucleusChain(NAME, FILTERS, WEIGHTS, LOAD_WEIGHTS)


def dry_run_filters(jobs: QueueChain) -> tuple[AnyFilter, ...]:
    """The filters of the job brokerage by which the queues of a nucleus are judged."""
    return tuple(rule for rule in jobs.filters if rule.name not in NOT_IN_DRY_RUN)


@dataclass(frozen=True)
class StoredTaskBatch:
    """Stored tasks of one VO, in the order in which the task brokerage decided them."""

    vo: str | None
    stored: StoredTasks

    @property
    def jeditaskid(self) -> Ints:
        """(T,) identifier of the task in each row of the work."""
        return self.stored.work.tasks.jeditaskid

    @property
    def load_before(self) -> Sequence[Mapping[str, float]]:
        """For each task, the work in HS06 s that was placed before it, by nucleus."""
        return self.stored.placed

    def check(self) -> None:
        """Do nothing: the stored work is already read."""


class TasksCycle(Cycle[AssignedTask]):
    """A cycle of the task brokerage."""

    def __init__(self, cycle: TaskCycle) -> None:
        """Broker the tasks of ``cycle``."""
        self.engine, self.snapshot = cycle, cycle.snapshot

    @property
    def faults(self) -> Sequence[RuleFault]:
        """The rules that could not be run."""
        return self.engine.faults

    @property
    def jeditaskid(self) -> Ints:
        """(T,) identifier of the task in each row of the work."""
        return self.engine.work.tasks.jeditaskid

    @property
    def counts(self) -> Mapping[str, int]:
        """Number of tasks, for the report of the cycle."""
        return {"tasks": len(self.jeditaskid)}

    @property
    def work(self) -> TaskWork:
        """The tasks with everything that the cycle decides by."""
        return self.engine.work

    def assign(self, seed: int, times: StageTimes | None = None) -> Iterator[AssignedTask]:
        """Broker the tasks in order; each meets the work of those before it at their nuclei."""
        spent = times if times is not None else StageTimes()
        assigned = assign_tasks(self.engine, seed)
        while True:
            started = perf_counter()
            task = next(assigned, None)
            spent.decide_s += perf_counter() - started
            if task is None:
                return
            yield task

    def split(self, other: TasksCycle, rows: Bools) -> TasksCycle:
        """This cycle with the tasks ``rows``, shape (T,), decided by ``other``."""
        self.engine.take_rows_of(other.engine, rows)
        return self

    def encode(self, assigned: AssignedTask) -> bytes:
        """The task and the work at the nuclei before it, in their stored form."""
        return self._work_encoder.encode(assigned.row, assigned.share_work_hs06s, assigned.placed_hs06s)

    @cached_property
    def _work_encoder(self) -> TaskWorkEncoder:
        return TaskWorkEncoder(self.engine.work, self.snapshot.nuclei.name, self.engine.all_work_hs06s)

    def rows(self, assigned: Sequence[AssignedTask]) -> TaskPlacement:
        """The nuclei, the endpoints of the output, and the tasks that wait."""
        return nucleus_rows(assigned, self.engine)

    def records(
        self, assigned: Sequence[AssignedTask], written: WriteOutcome | None, now: datetime
    ) -> list[DecisionRecord]:
        """The decisions; ``assigned`` of each maps the nucleus to the one task that it got."""
        records = []
        for task in assigned:
            decision = task.decision
            if written is not None and decision.jeditaskid in written.tasks_skipped:
                decision = dataclasses.replace(decision, outcome="skipped", reason=TASK_CHANGED)
            records.append(DecisionRecord(decision, _nucleus_of(decision)))
        return records


class ProductionTask(Brokerage[TaskWork, StoredTaskBatch]):
    """Chooses the nucleus of production tasks. Source: ATLAS Production Task Brokerage."""

    name = NAME
    title = "production task brokerage"
    candidate, assigned = "nucleus", "tasks"
    needs = (JOB_BROKERAGE,)
    gives = (*Brokerage.gives, WEIGHT_UNKNOWN_REASON, *INPUT_REASONS, *TASK_REASONS, *NUCLEUS_REASONS)
    tables = "agents.brokerage.production_task:ProductionTaskTables"

    def chain(self) -> NucleusChain:
        """The ordered rules as shipped."""
        return chain()

    def candidates(self, snapshot: Snapshot) -> Texts:
        """(N,) the names of the nuclei."""
        return snapshot.nuclei.name

    def cycle(
        self, snapshot: Snapshot, work: TaskWork, tuning: Tuning, rules: Rules, *, independent: bool = False
    ) -> TasksCycle:
        """A cycle over tasks that wait for a nucleus."""
        return TasksCycle(engine_cycle(snapshot, work, tuning, rules, independent=independent))

    def retry_after(self, decision: Decision) -> timedelta | None:
        """How long a task without a nucleus waits."""
        return RETRY_AFTER if decision.outcome == "pending" else None

    def decode(self, vo: str | None, bodies: list[Body], *, older: bool) -> StoredTaskBatch:
        """Stored tasks of one VO."""
        if any("tasks" not in body for body in bodies):
            raise WorkCorruptError(f"the stored work is not that of tasks, which {self.name} decides about")
        return StoredTaskBatch(vo, joined_tasks(bodies, fill=older))

    def columns_not_stored(self, body: Body) -> tuple[str, ...]:
        """The columns of this version that stored work does not have."""
        return missing_task_columns(body)

    def vo_of(self, body: Body) -> Any:
        """The VO in the unpacked work of a decision."""
        return body["tasks"]["vo"][0]

    def replay(
        self, snapshot: Snapshot, tuning: Tuning, batch: StoredTaskBatch, seed: int, rules: Rules, *, as_stored: bool
    ) -> Iterator[ReplayedDecision]:
        """Decide stored tasks again."""
        stored = batch.stored
        cycle = engine_cycle(snapshot, stored.work, tuning, rules)
        names = [str(name) for name in snapshot.nuclei.name]
        cycle.count_from(_by_nucleus(stored.share_work, names))
        before = _by_nucleus(stored.placed, names) if as_stored else None
        for task in assign_tasks(cycle, seed, before):
            placed = {names[at]: float(task.placed_hs06s[at]) for at in np.flatnonzero(task.placed_hs06s).tolist()}
            yield ReplayedDecision(task.decision, _nucleus_of(task.decision), placed)

    def replayed_columns(
        self,
        snapshot: Snapshot,
        tuning: Tuning,
        batch: StoredTaskBatch,
        seed: int,
        rules: Rules,
        beside: ReplayedColumns | None = None,
    ) -> ReplayedColumns:
        """Like :meth:`replay`, as columns; facts that cannot differ are shared with the other side."""
        stored, jobs, first = batch.stored, rules.needed.get(JOB_BROKERAGE), None if beside is None else beside.cycle
        cycle: TaskCycle | None = None
        if isinstance(first, TaskCycle) and isinstance(rules.chain, NucleusChain) and isinstance(jobs, QueueChain):
            cycle = first.beside(snapshot, stored.work, tuning, rules.chain, dry_run_filters(jobs), jobs.steps)
        if beside is not None and cycle is first:
            return beside
        if cycle is None or first is None:
            cycle = engine_cycle(snapshot, stored.work, tuning, rules)
            cycle.count_from(_by_nucleus(stored.share_work, [str(name) for name in snapshot.nuclei.name]))
        else:
            cycle.count_from(first.share_work_hs06s)
        return columns_of(cycle, list(decided_blocks(cycle, seed)))

    def why_not(
        self, snapshot: Snapshot, tuning: Tuning, batch: StoredTaskBatch, rules: Rules, decision: Decision, name: str
    ) -> list[CandidateVerdict]:
        """Why a stored decision did not choose a nucleus, or the answer that it did."""
        cycle = engine_cycle(snapshot, batch.stored.work, tuning, rules, with_codes=True)
        chosen = decision.candidates[0].name if decision.outcome == "brokered" else None
        return [why_not_nucleus(cycle, cycle.result(0), name, chosen)]

    def why_not_each(
        self,
        snapshot: Snapshot,
        tuning: Tuning,
        batch: StoredTaskBatch,
        rules: Rules,
        decision: Decision,
        names: Collection[str] | None = None,
    ) -> list[CandidateVerdict]:
        """The verdict on each nucleus of a stored decision, or on those named."""
        cycle = engine_cycle(snapshot, batch.stored.work, tuning, rules, with_codes=True)
        chosen = decision.candidates[0].name if decision.outcome == "brokered" else None
        result = cycle.result(0)
        wanted = [str(name) for name in snapshot.nuclei.name if names is None or name in names]
        return [why_not_nucleus(cycle, result, name, chosen) for name in wanted]


def engine_cycle(
    snapshot: Snapshot,
    work: TaskWork,
    tuning: Tuning,
    rules: Rules,
    *,
    independent: bool = False,
    with_codes: bool = False,
) -> TaskCycle:
    """The engine for the tasks of one VO.

    Args:
        snapshot: the grid.
        work: the tasks.
        tuning: for their VO.
        rules: of this brokerage and of the job brokerage.
        independent: every task meets the same grid.
        with_codes: count the codes that rejected the queues of each nucleus, for an explanation.

    Raises:
        WorkCorruptError: the rules are not those of this brokerage.
    """
    jobs = rules.needed.get(JOB_BROKERAGE)
    if not isinstance(rules.chain, NucleusChain) or not isinstance(jobs, QueueChain):
        raise WorkCorruptError(f"the work is that of tasks, and {rules.chain.brokerage} is no brokerage of tasks")
    return TaskCycle(
        snapshot,
        work,
        tuning,
        rules.chain,
        output_endpoints(work.outputs, snapshot),
        dry_run_filters(jobs),
        jobs.steps,
        independent=independent,
        with_codes=with_codes,
    )


def _nucleus_of(decision: Decision) -> dict[str, int]:
    return {decision.candidates[0].name: 1} if decision.outcome == "brokered" else {}


def _by_nucleus(stored: Sequence[Mapping[str, float]], names: list[str]) -> Floats:
    """(T, N) figures by nucleus."""
    return np.array([[one.get(name, 0.0) for name in names] for one in stored]).reshape(len(stored), len(names))
