"""The agent that works out what tasks need from their scouts and finished jobs, and adjusts their requests."""

from __future__ import annotations

import math
from collections import Counter
from datetime import timedelta
from time import perf_counter

import sqlalchemy as sa
from pydantic import Field

from agents.brokerage.grid_reading import tuning_of
from agents.service import fault_points
from agents.service.base import Agent, AgentOptions, CycleContext, CycleReport
from broker.domain.memory_prior import memory_prior, used_memory
from broker.domain.quantiles import enough_of_kind, learned_quantile
from broker.domain.sizing_values import SizingValues, sizing_values
from broker.gdpconfig.tuning import Tuning
from broker.sizing.model.requests import (
    Change,
    is_due,
    kind_change,
    learned_change,
    prior_change,
    scouts_change,
)
from broker.sizing.model.scout_values import ScoutSettings, job_memory_kb, scout_values
from broker.sizing.statements import request_rows
from broker.sizing.statements.request_rows import SizedTask
from broker.store.schema import migrate

BY_SCOUTS, LEARNED, PRIOR = "SCOUT_REQUESTS", "LEARNED_REQUESTS", "LEARNED_REQUESTS_PRIOR"


class TaskSizingOptions(AgentOptions):
    """Options of the agent.

    Attributes:
        tasks_of_a_cycle: tasks checked in one cycle, those never or least recently checked first.
        new_hours: age up to which tasks are sized by their kind.
        kind_days: what tasks of a kind needed counts for this long.
    """

    tasks_of_a_cycle: int = Field(default=500, ge=1)
    new_hours: float = Field(default=24.0, gt=0, le=24 * 30)
    kind_days: float = Field(default=30.0, gt=0, le=365)


class TaskSizingAgent(Agent[TaskSizingOptions]):
    """Checks tasks with 5, 10, 20 .. finished jobs; records what they need, and changes requests where keys say so."""

    name = "task_sizing"
    title = "requests of tasks, by their scouts and finished jobs"
    options_type = TaskSizingOptions

    def cycle(self, context: CycleContext) -> CycleReport:
        """Check the tasks that are due, each in a transaction of its own."""
        installation = migrate.check(context.database)
        if installation != migrate.STANDALONE or not self.process.makes_jobs(installation):
            return CycleReport(notes=("PanDA's own watchdog sets what tasks ask for",))
        started = perf_counter()
        tuning, names = tuning_of(context).tuning(None), context.database.names
        counts: Counter[str] = Counter(looked_at=0, changed=0, passive=0, of_kind=0, busy=0)
        most, tasks = self.options.tasks_of_a_cycle, context.request.task_ids
        since = context.now - timedelta(hours=self.options.new_hours)
        with context.database.read_snapshot() as connection:
            due = request_rows.due_tasks(connection, names, most, tasks)
            new = request_rows.new_tasks(connection, names, most, tasks, since) if _of_others(tuning) else []
        for number in due:
            context.check()
            with context.transaction() as connection:
                self._look(connection, context, number, tuning, counts)
                fault_points.reach("after_write_before_commit")
        for number in [one for one in new if one not in set(due)]:
            context.check()
            with context.transaction() as connection:
                self._of_kind(connection, context, number, tuning, counts)
        return CycleReport(dict(counts), {"tasks_s": perf_counter() - started})

    def _look(
        self, connection: sa.Connection, context: CycleContext, number: int, tuning: Tuning, counts: Counter[str]
    ) -> None:
        """Work out what one task needs."""
        names = context.database.names
        task = (
            request_rows.lock_task(connection, names, number)
            if context.writes
            else self._read(connection, context, number)
        )
        if task is None:
            counts["busy"] += 1
            return
        finished, jobs = request_rows.read_ended(connection, names, number)
        before = request_rows.read_learned(connection, number)
        if not is_due(
            finished, None if before is None else before["finished"], is_requested=task.row["walltimeunit"] is None
        ):
            return
        values = scout_values(jobs, task.request, scout_settings(tuning))
        memory = job_memory_kb(jobs, task.request)
        killed = request_rows.read_killed(connection, names, task)
        used_mb, by = memory[memory > 0] / 1024.0, sizing_values(tuning.number)
        learned = learned_quantile(used_mb, killed / 1024.0, by.rank, by.least_jobs)
        counts["looked_at"] += 1
        changes = [(scouts_change(task.row, values, finished), tuning.flag(BY_SCOUTS))]
        if tuning.flag(LEARNED):
            row = {**task.row, **(values if tuning.flag(BY_SCOUTS) else {})}
            changes.append((learned_change(row, learned, by.rank, by.margin_percent), True))
        if context.writes:
            used = used_memory(used_mb, killed[killed > 0] / 1024.0)
            request_rows.keep(connection, task, finished, values, learned, used, context.now)
        self._make(connection, context, task, changes, counts)

    def _of_kind(
        self, connection: sa.Connection, context: CycleContext, number: int, tuning: Tuning, counts: Counter[str]
    ) -> None:
        """Set the requests of an unmeasured task to what tasks of its kind need, or by the prior of its kind."""
        task = request_rows.lock_task(connection, context.database.names, number) if context.writes else None
        task = task or self._read(connection, context, number)
        if task is None:
            counts["busy"] += 1
            return
        requests, by = [], sizing_values(tuning.number)
        if tuning.flag(LEARNED):
            requests = request_rows.asks_of_kind(connection, task, context.now, self.options.kind_days)
        change = kind_change(task.row, requests, by.margin_percent)
        if math.isnan(enough_of_kind(requests)) and tuning.flag(PRIOR):
            change = self._prior(connection, context, task, by)
        counts["of_kind"] += change is not None
        self._make(connection, context, task, [(change, True)], counts)

    def _prior(
        self, connection: sa.Connection, context: CycleContext, task: SizedTask, by: SizingValues
    ) -> Change | None:
        """The change of the memory request to its prior."""
        kind, wider = request_rows.used_of_kind(connection, task, context.now, self.options.kind_days)
        requested = float(task.row["ramcount"] or 0)
        prior = memory_prior(kind, wider, requested, by.prior.rank, by.prior_tasks)
        return prior_change(task.row, prior, task.kind, by.prior)

    def _read(self, connection: sa.Connection, context: CycleContext, number: int) -> SizedTask | None:
        """Read a task without locking it, where nothing is written."""
        return None if context.writes else request_rows.read_task(connection, context.database.names, number)

    def _make(
        self,
        connection: sa.Connection,
        context: CycleContext,
        task: SizedTask,
        changes: list[tuple[Change | None, bool]],
        counts: Counter[str],
    ) -> None:
        for change, active in changes:
            if change is None:
                continue
            counts["changed" if active else "passive"] += 1
            if context.writes:
                request_rows.change_task(
                    connection, context.database.names, task, change, context.run_id, context.now, active
                )
            if context.request.emit is not None:
                context.request.emit({
                    "jeditaskid": task.jeditaskid, "source": change.source, "active": active,
                    "before": dict(change.before), "after": dict(change.after), "reason": change.reason,
                })  # fmt: skip


def _of_others(tuning: Tuning) -> bool:
    """Whether new tasks request what other tasks needed."""
    return tuning.flag(LEARNED) or tuning.flag(PRIOR)


def scout_settings(tuning: Tuning) -> ScoutSettings:
    """PanDA's keys for the values of scouts; 0 sets no limit."""
    least, cap = tuning.number("SCOUT_RAMCOUNT_MIN"), tuning.number("SCOUT_DISK_IO_CAP")
    return ScoutSettings(
        tuning.number("SCOUT_RAMCOUNT_RANK"),
        int(tuning.number("SCOUT_RAMCOUNT_MARGIN")),
        int(least) or None,
        tuning.number("SCOUT_CPUTIME_RANK"),
        cap or None,
    )
