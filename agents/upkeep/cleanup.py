"""The agent that removes expired rows and moves finished jobs to the archive.

Every batch is its own short transaction, so that no broker waits for it. A cycle that is interrupted at any point has
done what it counted; the next cycle continues from there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import perf_counter
from typing import Annotated

import sqlalchemy as sa
from pydantic import Field

from agents.service import fault_points
from agents.service.base import Agent, CycleContext, CycleReport
from agents.service.brake import Brake, BrakedOptions
from agents.service.configuration import ProcessSettings
from agents.upkeep.decision_upkeep import DecisionUpkeep
from broker.store.decisions.decision_packing import DecisionPacker
from broker.store.schema import migrate
from broker.store.upkeep import cleanup_jobs, cleanup_rows
from broker.store.upkeep.cleanup_rows import AgedRows, RemovedSnapshots

_LONGEST_DAYS = 36_500.0
_MIB = 2**20
SNAPSHOTS_OF_A_BATCH = 20
"""Snapshots take megabytes each: a small batch removes little more than the budget requires."""
_USE_OF_BUDGET = 0.8
"""Fraction of the cycle's time after which no new batch starts."""

Days = Annotated[float, Field(gt=0, le=_LONGEST_DAYS)] | None
Counts = Mapping[str, int]


class CleanupOptions(BrakedOptions):
    """How long things are kept, in days; null: for ever.

    Attributes:
        brake_share: part of the kept rows of each kind that one cycle may remove, but 100 always; 1: all of them.
        decisions_days: decisions with their reasons; a day that has a partition is removed as a whole once all of it is
            due.
        snapshots_days: snapshots; one that a decision needs stays as long as the decision.
        snapshots_budget_mib: above this, snapshots that no decision needs are removed early; null: no limit.
        agent_runs_days: runs of agents; the last one of each agent stays.
        job_actions_days: what was done to jobs that waited or ran for too long.
        rebrokered_from_days: from which queues work was taken back; at least the longest REASSIGN_MEMORY.
        queue_record_days: how jobs ended at queues, the most cores that ran there, how many jobs started, by hour.
        forecasts_days: forecasts of starts, and their outcomes.
        retry_actions_days: what retry rules did, and would have done, and failed jobs that no rule considered.
        request_changes_days: needs found for tasks, and changes of their requests.
        notifications_days: ended incidents with their messages, and ended subscriptions.
        decision_quality_days: cost of cycles compared with the best placement of their jobs.
        job_status_reports_days: reports of jobs about themselves.
        feed_runs_days: runs of feeds with their changes; the age of a queue's state is known only this far back.
        sandboxes_days: archives of panda-client not uploaded, submitted with or fetched for this long.
        submitted_pilots_days: pilots that the submitter sent and that have ended.
        leases_days: leases that expired and were not taken again.
        services_days: services that ended without saying so.
        archive_jobs: whether finished jobs are archived; alongside PanDA they never are.
        finished_jobs_days: age at which finished jobs move to the archive.
        batch_rows: rows in one transaction.
        batches_of_a_kind: batches of each kind in one cycle.
    """

    decisions_days: Days = 14.0
    snapshots_days: Days = 14.0
    snapshots_budget_mib: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = 51_200.0
    agent_runs_days: Days = 30.0
    job_actions_days: Annotated[float, Field(ge=2, le=_LONGEST_DAYS)] | None = 90.0
    rebrokered_from_days: Annotated[float, Field(ge=7, le=_LONGEST_DAYS)] | None = 8.0
    queue_record_days: Days = 35.0
    forecasts_days: Days = 30.0
    retry_actions_days: Days = 90.0
    request_changes_days: Days = 90.0
    notifications_days: Days = 90.0
    decision_quality_days: Days = 35.0
    job_status_reports_days: Days = 3.0
    feed_runs_days: Days = 365.0
    sandboxes_days: Annotated[float, Field(ge=4, le=_LONGEST_DAYS)] | None = 30.0
    submitted_pilots_days: Annotated[float, Field(ge=8, le=_LONGEST_DAYS)] | None = 30.0
    leases_days: Days = 1.0
    services_days: Days = 1.0
    archive_jobs: bool = True
    finished_jobs_days: Annotated[float, Field(ge=2, le=_LONGEST_DAYS)] | None = 7.0
    batch_rows: int = Field(default=1000, ge=1, le=50_000)
    batches_of_a_kind: int = Field(default=500, ge=1)


@dataclass(frozen=True)
class _Step:
    """The removal of one kind of rows.

    Attributes:
        kind: name of the kind, and the key of its count.
        days: how long its rows are kept.
        remove: removes a batch of at most the given number of rows; returns the removed rows by kind.
        count: rows that all batches would remove, by kind.
        count_all: number of all rows in store.
        waiting: number of rows that are due now; None: as ``count`` says.
        rows: rows of a batch.
    """

    kind: str
    days: float | None
    remove: Callable[[sa.Connection, int], Counts]
    count: Callable[[sa.Connection], Counts]
    count_all: Callable[[sa.Connection], int]
    rows: int
    waiting: Callable[[sa.Connection], int] | None = None


class CleanupAgent(Agent[CleanupOptions]):
    """Removes old rows of the broker's own tables and unused snapshots, and archives finished jobs."""

    name = "cleanup"
    title = "clean-up: what is older than its retention is removed or archived"
    options_type = CleanupOptions
    removes = True

    def __init__(self, options: CleanupOptions, process: ProcessSettings) -> None:
        """Create the agent with a packer of old decisions, which is kept from cycle to cycle."""
        super().__init__(options, process)
        self._packer = DecisionPacker()

    def cycle(self, context: CycleContext) -> CycleReport:
        """Remove all due rows, or as many as fit in the time of a cycle."""
        standalone = migrate.check(context.database) == migrate.STANDALONE
        started = perf_counter()
        counts: dict[str, int] = {}
        notes = self._remarks(context, standalone)
        if context.writes:
            upkeep = DecisionUpkeep(context, self._packer, self.options.batch_rows)
            days = self.options.decisions_days
            every_day = context.request.force or self.options.brake_share >= 1
            upkeep.run(None if days is None else _before(context, days), every_day=every_day)
            counts |= upkeep.counts
            notes += upkeep.notes
        for step in self._steps(context, standalone):
            removed, finished, alarm = self._run(context, step)
            for kind, number in removed.items():
                counts[kind] = counts.get(kind, 0) + number
            if alarm is not None:
                notes.append(alarm)
            elif not finished:
                notes.append(f"there are more {step.kind} to remove; the next cycle goes on")
            if context.request.emit is not None:
                context.request.emit(self._message(context, step, removed, finished))
        notes += self._over_budget(context)
        return CycleReport(counts, {"clean_s": perf_counter() - started}, tuple(notes))

    def _steps(self, context: CycleContext, standalone: bool) -> list[_Step]:
        options = self.options
        steps = [
            self._aged(context, kind, options.decisions_days)
            for kind in (cleanup_rows.DECISIONS, cleanup_rows.OLD_DECISIONS, cleanup_rows.DECISION_REPEATS)
        ]
        steps += self._snapshots(context)
        steps += [
            self._aged(context, cleanup_rows.AGENT_RUNS, options.agent_runs_days),
            self._aged(context, cleanup_rows.JOB_ACTIONS, options.job_actions_days),
            self._aged(context, cleanup_rows.REBROKERED_FROM, options.rebrokered_from_days),
            self._aged(context, cleanup_rows.QUEUE_RECORD, options.queue_record_days),
            self._aged(context, cleanup_rows.QUEUE_FAILURES, options.queue_record_days),
            self._aged(context, cleanup_rows.QUEUE_CORES, options.queue_record_days),
            self._aged(context, cleanup_rows.JOB_STARTS, options.queue_record_days),
            self._aged(context, cleanup_rows.FORECASTS, options.forecasts_days),
            self._aged(context, cleanup_rows.RETRY_ACTIONS, options.retry_actions_days),
            self._aged(context, cleanup_rows.FAILED_JOBS, options.retry_actions_days),
            self._aged(context, cleanup_rows.REQUEST_CHANGES, options.request_changes_days),
            self._aged(context, cleanup_rows.REQUEST_LEARNED, options.request_changes_days),
            self._aged(context, cleanup_rows.INCIDENTS, options.notifications_days),
            self._aged(context, cleanup_rows.TASK_SUBSCRIPTIONS, options.notifications_days),
            self._aged(context, cleanup_rows.DECISION_QUALITY, options.decision_quality_days),
            self._aged(context, cleanup_rows.JOB_STATUS_REPORTS, options.job_status_reports_days),
            self._aged(context, cleanup_rows.FEED_RUNS, options.feed_runs_days),
            self._aged(context, cleanup_rows.SANDBOXES, options.sandboxes_days),
            self._aged(context, cleanup_rows.SUBMITTED_PILOTS, options.submitted_pilots_days),
            self._aged(context, cleanup_rows.LEASES, options.leases_days),
            self._aged(context, cleanup_rows.SERVICES, options.services_days),
            self._aged(context, cleanup_rows.CHUNK_STATES, options.decisions_days),
        ]
        if options.decisions_days is not None:
            # a day more: a decision of the last hour of a legend may still refer to it
            steps.append(self._aged(context, cleanup_rows.DECISION_LEGENDS, options.decisions_days + 1))
        if standalone and options.archive_jobs:
            steps.append(self._jobs(context))
        return [step for step in steps if step.days is not None]

    def _aged(self, context: CycleContext, aged: AgedRows, days: float | None) -> _Step:
        before, rows = _before(context, days), self.options.batch_rows
        return _Step(
            aged.kind,
            days,
            lambda connection, most: {aged.kind: aged.remove(connection, before, most)},
            lambda connection: {aged.kind: aged.count(connection, before)},
            aged.count_all,
            rows,
        )

    def _snapshots(self, context: CycleContext) -> list[_Step]:
        """Steps that remove snapshots by age, parts that belong to no snapshot, and snapshots over the budget."""
        options, rows = self.options, min(SNAPSHOTS_OF_A_BATCH, self.options.batch_rows)
        before = _before(context, options.snapshots_days)
        decisions_before = None if options.decisions_days is None else _before(context, options.decisions_days)
        steps = [
            _Step(
                "snapshots",
                options.snapshots_days,
                lambda connection, most: _snapshot_counts(cleanup_rows.remove(connection, before, most)),
                lambda connection: _snapshot_counts(cleanup_rows.count(connection, before, decisions_before)),
                cleanup_rows.count_snapshots,
                rows,
            ),
            _Step(
                "snapshot_blobs",
                0.0,
                lambda connection, most: _snapshot_counts(cleanup_rows.remove_unused_blobs(connection, most)),
                lambda connection: {"snapshot_blobs": 0},  # those without a snapshot are counted with the snapshots
                cleanup_rows.count_blobs,
                rows,
                cleanup_rows.count_unused_blobs,
            ),
        ]
        if options.snapshots_budget_mib is not None:
            steps.append(self._over_size(context, rows))
        return steps

    def _over_size(self, context: CycleContext, rows: int) -> _Step:
        budget_bytes = (self.options.snapshots_budget_mib or 0.0) * _MIB

        def waiting(connection: sa.Connection) -> int:
            fits = cleanup_rows.stored_bytes(connection) <= budget_bytes
            return 0 if fits else cleanup_rows.count_removable(connection, context.now)

        def remove(connection: sa.Connection, most: int) -> Counts:
            if cleanup_rows.stored_bytes(connection) <= budget_bytes:
                return _no_snapshots(connection)
            removed = cleanup_rows.remove(connection, context.now, most)
            return {"snapshots_over_budget": removed.snapshots} | _part_counts(removed)

        count_all = cleanup_rows.count_snapshots
        return _Step("snapshots_over_budget", 0.0, remove, _no_snapshots, count_all, rows, waiting)

    def _jobs(self, context: CycleContext) -> _Step:
        days, rows, names = self.options.finished_jobs_days, self.options.batch_rows, context.database.names
        before = _before(context, days)

        def remove(connection: sa.Connection, most: int) -> Counts:
            moved = cleanup_jobs.archive(connection, names, before, most)
            return {"finished_jobs": moved.jobs, "files": moved.files, "status_log": moved.log_rows}

        def count(connection: sa.Connection) -> Counts:
            return {"finished_jobs": cleanup_jobs.count(connection, names, before)}

        def count_all(connection: sa.Connection) -> int:
            return cleanup_jobs.count_ended(connection, names)

        return _Step("finished_jobs", days, remove, count, count_all, rows)

    def _run(self, context: CycleContext, step: _Step) -> tuple[Counts, bool, str | None]:
        """Remove the due rows of one kind; return their counts, whether none is left, and the alarm of the brake."""
        brake = Brake.of(self.name, self.options, context)
        with context.database.read_snapshot() as connection:
            row_count = step.count_all(connection)
            due_counts = step.count(connection) if not context.writes else None
        if due_counts is not None:
            return due_counts, True, brake.report(step.kind, due_counts[step.kind], row_count, writes=False)
        allowed = brake.allows(row_count)
        total: dict[str, int] = {step.kind: 0}
        for _ in range(self.options.batches_of_a_kind):
            context.check()
            if context.monotonic() - context.started > _USE_OF_BUDGET * context.budget_s:
                return total, False, None
            most = step.rows if allowed is None else min(step.rows, allowed - total[step.kind])
            if most == 0:
                return self._braked_result(context, step, total, brake, row_count)
            removed = _remove_batch(context, step, most)
            for kind, number in removed.items():
                total[kind] = total.get(kind, 0) + number
            if removed[step.kind] < most:
                return total, True, None
        return total, False, None

    def _braked_result(
        self, context: CycleContext, step: _Step, total: dict[str, int], brake: Brake, row_count: int
    ) -> tuple[Counts, bool, str | None]:
        """The result of a step that removed as many rows as the brake allows, with an alarm if more are due."""
        with context.database.read_snapshot() as connection:
            waiting = step.count(connection)[step.kind] if step.waiting is None else step.waiting(connection)
        note = brake.report(step.kind, total[step.kind] + waiting, row_count, writes=True)
        return total, waiting == 0, note

    def _message(self, context: CycleContext, step: _Step, removed: Counts, finished: bool) -> dict[str, object]:
        before = _before(context, step.days)
        return {
            "kind": step.kind,
            "removed": removed[step.kind],
            "kept_days": step.days or None,
            "before": before.isoformat() if step.days else None,
            "with_it": {kind: number for kind, number in removed.items() if kind != step.kind},
            "finished": finished,
            "dry_run": not context.request.writes,
        }

    def _remarks(self, context: CycleContext, standalone: bool) -> list[str]:
        """Remarks on jobs that are not archived, and why."""
        if not (self.options.archive_jobs and self.options.finished_jobs_days):
            return []
        if not standalone:
            return ["finished jobs are archived by PanDA, to which these tables belong"]
        with context.database.read_snapshot() as connection:
            timeless = cleanup_jobs.count_without_time(connection, context.database.names)
        return [f"{timeless} finished jobs have no modificationtime and stay in jobsarchived4"] if timeless else []

    def _over_budget(self, context: CycleContext) -> list[str]:
        budget_mib = self.options.snapshots_budget_mib
        if budget_mib is None:
            return []
        with context.database.read_snapshot() as connection:
            stored_mib = cleanup_rows.stored_bytes(connection) / _MIB
        if stored_mib <= budget_mib:
            return []
        return [
            f"snapshots take {stored_mib:.1f} MiB of {budget_mib:g} MiB (snapshots_budget_mib); those that decisions "
            "need stay: keep decisions for fewer days (decisions_days) or allow more"
        ]


def _before(context: CycleContext, days: float | None) -> datetime:
    """The instant before which rows are due; the cycle's own instant for rows that are never due by age."""
    return context.now - timedelta(days=days or 0.0)


def _snapshot_counts(removed: RemovedSnapshots) -> Counts:
    return {"snapshots": removed.snapshots} | _part_counts(removed)


def _part_counts(removed: RemovedSnapshots) -> dict[str, int]:
    return {"snapshot_blobs": removed.blobs, "snapshot_bytes": removed.size_bytes}


def _no_snapshots(connection: sa.Connection) -> Counts:
    return {"snapshots_over_budget": 0}


def _remove_batch(context: CycleContext, step: _Step, most: int) -> Counts:
    fault_points.reach("before_write")
    with context.writing() as connection:
        removed = step.remove(connection, most)
        fault_points.reach("after_write_before_commit")
    fault_points.reach("after_commit")
    return removed
