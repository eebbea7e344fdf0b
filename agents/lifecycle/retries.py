"""The agent that applies retry rules to each failed job, to its files and to its task."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from time import perf_counter

import sqlalchemy as sa
from pydantic import Field

from agents.brokerage.grid_reading import tuning_of
from agents.service import fault_points
from agents.service.base import Agent, AgentOptions, CycleContext, CycleReport
from broker.retries.model.retry_effects import Effect, effect_of
from broker.retries.model.retry_rules import SYSTEM, ErrorRule, RetryRule, by_error, classify, judge, rules_version
from broker.retries.statements import retry_rows, retry_writes
from broker.retries.statements.retry_rows import FailedRow
from broker.retries.statements.retry_writes import RetryRun
from broker.store.connection.tables import TableCatalogue
from broker.store.schema import migrate

ON, PASSIVE = "RETRY_RULES", "RETRY_RULES_PASSIVE"
ALWAYS_ALLOWED = 100
"""Files of a task that rules may end in one cycle, however few it has."""


class RetriesOptions(AgentOptions):
    """Options of the agent.

    Attributes:
        jobs_of_a_cycle: failed jobs considered in one cycle, oldest first; the others wait for the next one.
        jobs_of_a_batch: failed jobs considered in one transaction.
        lost_files_share: part of a task's files that rules may leave without an attempt in one cycle, but 100 always.
    """

    jobs_of_a_cycle: int = Field(default=10_000, ge=1)
    jobs_of_a_batch: int = Field(default=500, ge=1)
    lost_files_share: float = Field(default=0.2, gt=0, le=1)


@dataclass
class _Cycle:
    """The rules of a cycle, and its results so far.

    Attributes:
        lost: files that rules left without an attempt, by task.
        left: jobs that wait for the next cycle.
    """

    context: CycleContext
    catalogue: TableCatalogue
    rules: dict[tuple[str, int], list[RetryRule]]
    classes: list[ErrorRule]
    by: RetryRun
    passive: bool
    counts: Counter[str]
    lost: Counter[int] = field(default_factory=Counter)
    left: list[int] = field(default_factory=list)


class RetriesAgent(Agent[RetriesOptions]):
    """Checks each failed job once, where the broker makes the jobs itself; PanDA has its own retry module."""

    name = "retries"
    title = "retry rules: what the next attempt of a failed job gets, or that there is none"
    options_type = RetriesOptions

    def cycle(self, context: CycleContext) -> CycleReport:
        """Apply the rules to all jobs that failed since the last cycle."""
        installation = migrate.check(context.database)
        if installation != migrate.STANDALONE or not self.process.makes_jobs(installation):
            return CycleReport(notes=("PanDA's own retry module looks at failed jobs",))
        started = perf_counter()
        cycle, notes = self._begin(context)
        checked = 0
        while checked < self.options.jobs_of_a_cycle:
            most = min(self.options.jobs_of_a_batch, self.options.jobs_of_a_cycle - checked)
            batch_size = self._batch(cycle, most)
            checked += batch_size
            context.check()
            if batch_size < most or not context.writes:
                break
        cycle.counts["left"] = len(cycle.left)
        return CycleReport(dict(cycle.counts), {"rules_s": perf_counter() - started}, notes)

    def _begin(self, context: CycleContext) -> tuple[_Cycle, tuple[str, ...]]:
        tuning = tuning_of(context).tuning(None)
        with context.database.read_snapshot() as connection:
            catalogue = TableCatalogue.read(connection, context.database.names)
            known = retry_rows.read_rules(connection, catalogue)
            classes = retry_rows.read_error_rules(connection, catalogue)
        on = tuning.flag(ON)
        rules = [one.rule for one in known if on and one.counts(context.now) and one.rule is not None]
        faults = [f"rule {one.name}: {one.fault}" for one in rules if one.fault]
        faults += [
            f"rule {one.origin}:{one.rule_id}: no action is called {one.action}" for one in known if not one.rule
        ]
        run = RetryRun(context.run_id, context.now, rules_version(rules))
        counts: Counter[str] = Counter(
            rules=len(rules), looked_at=0, applied=0, acted=0, passive=0, files_lost=0, held_back=0, uncounted=0
        )
        cycle = _Cycle(context, catalogue, by_error(rules), classes if on else [], run, tuning.flag(PASSIVE), counts)
        return cycle, tuple(faults[:10])

    def _batch(self, cycle: _Cycle, most: int) -> int:
        """Check one batch in one transaction; returns the number of its jobs."""
        with cycle.context.transaction() as connection:
            numbers = retry_rows.failed_to_look_at(connection, most, cycle.left)
            jobs = retry_rows.read_failed(connection, cycle.catalogue, numbers)
            wanted = [
                row for row in jobs if judge(cycle.rules, row.errors, row.scope) or classify(cycle.classes, row.errors)
            ]
            names = cycle.catalogue.names
            tasks = [row.jeditaskid for row in wanted if row.jeditaskid]
            free = retry_writes.lock_tasks(connection, names, tasks) if cycle.context.writes else set(tasks)
            waiting = {row.pandaid for row in wanted if row.jeditaskid and not self._look(connection, cycle, row, free)}
            cycle.left += sorted(waiting)
            done = [number for number in numbers if number not in waiting]
            cycle.counts["looked_at"] += len(done)
            if cycle.context.writes:
                retry_rows.note_looked_at(connection, done)
                fault_points.reach("after_write_before_commit")
        return len(numbers)

    def _look(self, connection: sa.Connection, cycle: _Cycle, row: FailedRow, free: set[int]) -> bool:
        """Apply the rules to one job; False if it has to wait for the next cycle."""
        if row.jeditaskid not in free:
            return False
        task = retry_rows.read_task(connection, cycle.catalogue, row.jeditaskid)
        if task is None:
            return True
        allowed = max(ALWAYS_ALLOWED, self.options.lost_files_share * task.files)
        if cycle.lost[row.jeditaskid] >= allowed:
            cycle.counts["held_back"] += 1
            return False
        for judged in judge(cycle.rules, row.errors, row.scope):
            job = retry_rows.read_more(connection, cycle.catalogue, row, judged.rule)
            now = retry_rows.read_task(connection, cycle.catalogue, row.jeditaskid)
            effect = effect_of(judged.rule, job, now or task)
            acts = judged.rule.active and not cycle.passive
            rows, lost = 0, 0
            if cycle.context.writes:
                if acts:
                    rows, lost = retry_writes.carry_out(
                        connection, cycle.catalogue.names, row, effect, cycle.context.now
                    )
                retry_writes.record(connection, row, judged, effect, rows, cycle.by, acts)
            cycle.lost[row.jeditaskid] += lost
            cycle.counts.update({"applied": 1, "acted" if acts else "passive": 1, "files_lost": lost})
            _emit(cycle, row, judged.rule.name, judged.rule.action, effect, acts, rows)
        self._classify(connection, cycle, row)
        return True

    def _classify(self, connection: sa.Connection, cycle: _Cycle, row: FailedRow) -> None:
        """Make a failure that the system caused count for nothing."""
        error_rule = classify(cycle.classes, row.errors)
        if error_rule is None or error_rule.error_class != SYSTEM:
            return
        acts, rows = error_rule.active and not cycle.passive, 0
        if cycle.context.writes:
            if acts:
                rows = retry_writes.allow_failure(connection, cycle.catalogue.names, row)
            retry_writes.record_class(connection, row, error_rule, rows, cycle.by, acts)
        cycle.counts["uncounted"] += acts


def _emit(cycle: _Cycle, row: FailedRow, rule: str, action: str, effect: Effect, acts: bool, rows: int) -> None:
    if cycle.context.request.emit is not None:
        cycle.context.request.emit({
            "pandaid": row.pandaid, "jeditaskid": row.jeditaskid, "queue": row.queue, "rule": rule, "action": action,
            "active": acts, "target": effect.target, "after": dict(effect.after), "rows": rows, "reason": effect.reason,
        })  # fmt: skip
