"""One cycle of a task brokerage: tasks in order against one snapshot, with the work that the cycle places counted.

Pure: snapshot, work, tuning and rules come in; candidates with their weights come out. All filters and fixed weights
are computed for all tasks at once; only the remaining work is followed task by task. Source: ATLAS Production Task
Brokerage.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from broker.domain.arrays import Bools, Floats, Ints, RowsByKind, as_column, as_row, distinct, taken
from broker.domain.chosen_candidates import Legend
from broker.domain.grid import OutputEndpoints
from broker.domain.task_work import TaskFacts, TaskWork
from broker.engine.job.steps import JobSteps
from broker.engine.shared.chain import NucleusChain, same_rules, same_steps
from broker.engine.shared.evaluate import UNDECLARED, AnyFilter, evaluate, prepare, reason_codes
from broker.engine.shared.filter_cache import Evaluation, RuleFault
from broker.engine.shared.pair_state import NOT_A_CANDIDATE
from broker.engine.task.data_facts import TaskData, all_work, gather_task_data, share_work, task_tags
from broker.engine.task.facts import TaskGrounds, dry_run_facts, initial_nuclei, preset_nuclei, task_facts
from broker.engine.task.nucleus_feasibility import SHIPPED_STEPS, STEP_KEYS, ask_jobs
from broker.engine.task.placing import TaskBlock, answer
from broker.gdpconfig import Tuning
from broker.rules.contract import Reason, Rule, TaskPairs, Weight
from broker.snapshot.snapshot import Snapshot

NO_CANDIDATES, JOB_CHECK_FAILED = "no_candidates", "job_check_failed"
PRESET = "preset_nucleus"
TASK_REASONS = (
    Reason(
        code=JOB_CHECK_FAILED,
        title="the check of the jobs failed, so that nothing is known of any nucleus",
        violation="nobody knows whether a nucleus has queues for the jobs: the check of the jobs failed",
        who="ask",
        cure="The notes of the decision say what stopped the check (`broker explain TASK`); operators look at it. The "
        "task is tried again by itself.",
    ),
    Reason(
        code=PRESET,
        title="the task has its nucleus already",
        who="wait",
        cure="Nothing is wrong: its jobs are brokered for that nucleus.",
    ),
)
WEIGHT_UNKNOWN = "weight_unknown"


@dataclass(frozen=True)
class TaskResult:
    """The outcome for one task.

    Attributes:
        row: position of the task in the work.
        reason: why it has no candidates; ``preset_nucleus`` if it had a nucleus already; else empty.
        feasible: positions of the candidates in the snapshot's table of nuclei, by name.
        weight: of each candidate, the product of its factors.
        factors: of each candidate, one row per weight in the order of the rules.
        not_finite: positions that no filter rejected but whose weight is not a finite number.
    """

    row: int
    reason: str
    feasible: Ints
    weight: Floats
    factors: Floats
    not_finite: Ints
    blocked: bool = False  # the task cannot be brokered, whatever the nuclei are


class TaskCycle:
    """A task brokerage over one snapshot.

    Args:
        snapshot: the grid.
        work: the tasks, in the order in which they are brokered.
        tuning: one version of the gdpconfig values, for the VO of the tasks.
        chain: the rules.
        endpoints: where the output of the tasks would go.
        job_filters: filters of the job brokerage that decide whether a nucleus could run the jobs.
        job_steps: its steps.
        independent: every task meets the work as it was read, whatever was placed before.
        with_codes: count for every nucleus what rejected its queues, to explain it; slow for many tasks.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        work: TaskWork,
        tuning: Tuning,
        chain: NucleusChain,
        endpoints: OutputEndpoints,
        job_filters: Sequence[AnyFilter],
        job_steps: JobSteps = SHIPPED_STEPS,
        *,
        independent: bool = False,
        with_codes: bool = False,
    ) -> None:
        steps, given_snapshot = chain.steps, snapshot
        self._before_reading, self._job_rules = snapshot, (tuple(job_filters), job_steps)
        snapshot = steps.snapshot_reading.read(snapshot)
        self.snapshot, self.work, self.tuning, self.chain, self.endpoints = snapshot, work, tuning, chain, endpoints
        self._independent = independent
        tasks = work.tasks
        self.initial = initial = initial_nuclei(tasks, snapshot, steps.full_chains)
        # most sites are satellites, which only full chains may get: rules see only the nuclei that some task may get
        self.columns: Ints = np.flatnonzero(initial.any(axis=0))
        data = gather_task_data(work, snapshot, steps.input_reading, self.columns)
        self.preset = preset_nuclei(tasks, snapshot)
        self.dry_run = ask_jobs(
            given_snapshot, work.hint, tasks.jeditaskid, initial, job_filters, tuning, job_steps, with_codes=with_codes
        )
        self.share_work_hs06s = share_work(tasks, work.remaining, snapshot, steps.remaining_work_reading)
        self.facts = self._facts(data)
        known, self._tag = distinct(task_tags(tasks, snapshot))
        self._tags = max(1, len(known))
        self._begin()
        vetoed = steps.veto.reasons(
            tasks, work.outputs, endpoints, self.facts.initial, self.facts.has_storages, snapshot.nuclei.name
        )
        fault = np.where(tasks.fault != "", tasks.fault, data.fault)
        self.blocked = np.where(fault != "", fault, vetoed)

    def _begin(self) -> None:
        """Reset the cycle to no placed work, by its current values and rules."""
        self._views, faults = prepare(self.chain, self.snapshot, self.work, self.chain.tunings(self.tuning))
        self.faults: list[RuleFault] = [*self.dry_run.rule_faults, *faults]
        self.evaluation: Evaluation = self._judge()
        self._fixed = self._weigh()
        self._placed = np.zeros((self._tags, len(self.snapshot.nuclei)))

    def beside(
        self,
        snapshot: Snapshot,
        work: TaskWork,
        tuning: Tuning,
        chain: NucleusChain,
        job_filters: Sequence[AnyFilter],
        job_steps: JobSteps,
    ) -> TaskCycle | None:
        """A cycle with other values or rules that reuses gathered facts; None where they would differ.

        The dry run of the job brokerage is repeated where its result might differ. Where nothing that decides differs,
        this cycle itself is returned.
        """
        same = self._before_reading is snapshot and self.work is work and same_steps(self.chain.steps, chain.steps)
        if type(self) is not TaskCycle or not same:
            return None
        differing = self.tuning.differing_keys(tuning)
        other = copy.copy(self)
        other.tuning, other.chain, other._job_rules = tuning, chain, (tuple(job_filters), job_steps)
        # the facts used for judging, whatever was counted since
        other.facts = self._pairs.facts
        if self._same_job_check(other, differing):
            if same_rules(self.chain, chain, differing):
                return self
        else:
            arguments = work.hint, work.tasks.jeditaskid, self.initial, job_filters, tuning, job_steps
            other.dry_run = ask_jobs(snapshot, *arguments)
            other.facts = dataclasses.replace(other.facts, **dry_run_facts(other.dry_run, self.columns))
        for name in ("_pairs", "legend"):
            other.__dict__.pop(name, None)
        other._begin()
        return other

    def _same_job_check(self, other: TaskCycle, differing: frozenset[str]) -> bool:
        (mine, my_steps), (theirs, their_steps) = self._job_rules, other._job_rules
        unread = differing.isdisjoint(STEP_KEYS)
        return unread and same_steps(my_steps, their_steps) and same_rules(mine, theirs, differing)

    def _facts(self, data: TaskData) -> TaskFacts:
        grounds = TaskGrounds(self.columns, data, self.initial, self.dry_run, self.share_work_hs06s)
        return task_facts(self.work, self.snapshot, self.endpoints, grounds, self.chain.steps)

    @cached_property
    def _pairs(self) -> TaskPairs:
        tasks, nuclei = as_column(self.work.tasks), as_row(taken(self.snapshot.nuclei, self.columns))
        return TaskPairs(tasks, nuclei, self.facts, UNDECLARED, np.arange(len(self.work.tasks)), self.columns)

    def pairs_at(self, result: TaskResult, rule: Rule, nucleus: int) -> TaskPairs:
        """A task and a nucleus that some task may get, as a rule sees them."""
        row: Ints = np.array([result.row])
        position: Ints = np.array([nucleus])
        facts = self.facts.block(row, np.searchsorted(self.columns, position))
        tasks, nuclei = as_column(taken(self.work.tasks, row)), as_row(taken(self.snapshot.nuclei, position))
        return self._views.of(rule, TaskPairs(tasks, nuclei, facts, UNDECLARED, row, position))

    def _judge(self) -> Evaluation:
        unusable = frozenset(state.name for state in self.snapshot.states if not state.usable)
        judged = evaluate(self.chain.filters, self._pairs, self._views, unusable)
        self.faults.extend(judged.faults)
        feasible = np.zeros(self.initial.shape, dtype=np.bool_)
        reason = np.full(self.initial.shape, NOT_A_CANDIDATE, dtype=np.int16)
        feasible[:, self.columns], reason[:, self.columns] = judged.feasible, judged.reason
        return Evaluation(feasible, reason, judged.faults)

    def _weigh(self) -> list[Floats]:
        """(T, C) for each fixed weight, its factor at the nuclei of ``columns``."""
        unusable = {state.name for state in self.snapshot.states if not state.usable}
        shape = self.facts.initial.shape
        factors = []
        for rule in self.chain.weights:
            factor = np.ones((1, 1))
            if rule.name not in self._views.broken and unusable.isdisjoint(rule.sources):
                factor = answer(rule, partial(_factor, rule, self._views.of(rule, self._pairs)), shape, self.faults)
            factors.append(np.broadcast_to(factor, shape))
        return factors

    def result(self, row: int) -> TaskResult:
        """The outcome for one task, counting work placed before it."""
        none = np.empty(0, dtype=np.int64)
        if self.preset[row] >= 0:
            only = self.preset[row : row + 1]
            return TaskResult(row, PRESET, only, np.ones(1), np.empty((0, 1)), none)
        feasible = np.flatnonzero(self.evaluation.feasible[row])
        blocked = str(self.blocked[row])
        if blocked or not len(feasible):
            reason = blocked or (JOB_CHECK_FAILED if self.dry_run.failed[row] else NO_CANDIDATES)
            return TaskResult(row, reason, none, np.empty(0), np.empty((0, 0)), none, blocked=bool(blocked))
        work = self.remaining_work(row)[feasible]
        rules = self.chain.load_weights
        moving = [answer(rule, partial(rule.factor, work), work.shape, self.faults) for rule in rules]
        column = np.searchsorted(self.columns, feasible)
        factors = np.stack([*moving, *(table[row, column] for table in self._fixed), np.ones(len(feasible))])[:-1]
        weight = factors.prod(axis=0)
        finite = np.isfinite(weight) & (weight >= 0)
        reason = "" if finite.any() else NO_CANDIDATES
        return TaskResult(row, reason, feasible[finite], weight[finite], factors[:, finite], feasible[~finite])

    def block(self, rows: slice, fraction: Floats) -> TaskBlock:
        """The tasks of consecutive rows with their remaining pairs.

        Args:
            rows: of the work.
            fraction: (B,) the number that each task draws.
        """
        preset, tasks = self.preset[rows], self.work.tasks
        left = self.evaluation.feasible[rows] & ((preset < 0) & (self.blocked[rows] == ""))[:, None]
        task, nucleus = (np.ascontiguousarray(index) for index in np.nonzero(left))
        column = np.searchsorted(self.columns, nucleus)
        fixed = [table[rows][task, column] for table in self._fixed]
        return TaskBlock(
            first=rows.start,
            preset=preset,
            offset=np.append(0, np.cumsum(left.sum(axis=1))),
            nucleus=nucleus,
            share_work=self.share_work_hs06s[rows][task, nucleus],
            fixed=np.array(fixed).reshape(len(fixed), len(task)),
            tag=self._tag[rows],
            adds=np.nan_to_num(tasks.remaining_hs06s[rows]),
            fraction=fraction,
            placed=self._placed,
            independent=self._independent,
        )

    def remaining_work(self, row: int) -> Floats:
        """(N,): the work of the task's share at its priority and above, including work placed by this cycle."""
        placed = 0.0 if self._independent else self._placed[self._tag[row]]
        return np.asarray(self.share_work_hs06s[row] + placed)

    def placed_before(self, row: int) -> Floats:
        """(N,): the work that the cycle has placed so far for the share of a task."""
        return np.array(self._placed[self._tag[row]])

    def restore(self, row: int, placed: Floats) -> None:
        """Set the work (N,) placed for the share of a task to exactly this, whatever the cycle has placed itself."""
        self._placed[self._tag[row]] = placed

    def take_rows_of(self, other: TaskCycle, rows: Bools) -> None:
        """Decide the tasks ``rows`` (T,) as another cycle over the same tasks with other tuning would."""
        mine, theirs, pairs = self.evaluation, other.evaluation, rows[:, None]
        self.evaluation = Evaluation(
            np.where(pairs, theirs.feasible, mine.feasible),
            np.where(pairs, theirs.reason, mine.reason),
            (*mine.faults, *theirs.faults),
        )
        self._fixed = [np.where(pairs, two, one) for one, two in zip(self._fixed, other._fixed, strict=True)]
        self.dry_run = dataclasses.replace(
            self.dry_run,
            able_queues=np.where(pairs, other.dry_run.able_queues, self.dry_run.able_queues),
            failed=np.where(rows, other.dry_run.failed, self.dry_run.failed),
            fault=np.where(rows, other.dry_run.fault, self.dry_run.fault),
        )
        self.faults.extend(other.faults)

    def count_from(self, share_work: Floats) -> None:
        """Take (T, N) HS06 s as the work of each task's share that remained at the start, instead of the stored one."""
        self.share_work_hs06s = share_work
        self.facts = dataclasses.replace(self.facts, share_work_hs06s=share_work[:, self.columns])

    def place(self, row: int, nucleus: int) -> None:
        """Count the work of a task at its nucleus, for later tasks of the share.

        Later tasks have an equal or lower priority, so the work counts for each of them.
        """
        self._placed[self._tag[row], nucleus] += np.nan_to_num(self.work.tasks.remaining_hs06s[row])

    @cached_property
    def all_work_hs06s(self) -> RowsByKind:
        """(T, N): all work of each task's label that remained at the nuclei when it was read."""
        steps = self.chain.steps
        return all_work(self.work.tasks, self.work.remaining, self.snapshot, steps.remaining_work_reading)

    @cached_property
    def legend(self) -> Legend:
        """The legend of the cycle's packed decisions: nuclei, and codes of rules and of their failure."""
        count = len(self.chain.filters)
        return Legend(
            names=tuple(map(str, self.snapshot.nuclei.name.tolist())),
            codes=(*reason_codes(self.chain.filters), WEIGHT_UNKNOWN),
            order=(*(step for index in range(count) for step in (index, index + count)), 2 * count),
            departure=tuple(range(2 * count + 1)),
            factors=tuple(self.factor_codes),
        )

    @cached_property
    def source_notes(self) -> tuple[str, ...]:
        """The unusable sources, as codes."""
        return tuple(f"source_{state.state}:{state.name}" for state in self.snapshot.states if not state.usable)

    @property
    def factor_codes(self) -> list[str]:
        """The codes for the rows of :attr:`TaskResult.factors`."""
        return [rule.code for rule in (*self.chain.load_weights, *self.chain.weights)]


def _factor(rule: Weight[TaskPairs], pairs: TaskPairs) -> Floats:
    factor = rule.factor(pairs)
    return factor.every if isinstance(factor, RowsByKind) else factor
