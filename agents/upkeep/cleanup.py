"""The agent that removes what has been kept for long enough, and moves finished jobs to the archive.

Every batch is a short transaction of its own, so that no broker waits for it; a cycle that is ended at any point has
done what it counted, and the next one goes on from there.
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
"""Snapshots hold megabytes, and what is over the budget is not to be overshot by much."""
_USE_OF_BUDGET = 0.8
"""Part of the cycle's time after which no new batch is begun."""

Days = Annotated[float, Field(gt=0, le=_LONGEST_DAYS)] | None
Counts = Mapping[str, int]


class CleanupOptions(BrakedOptions):
    """How long things are kept, in days; null: for ever.

    Attributes:
        brake_share: part of the kept rows of each kind that one cycle may remove, but 100 always; 1: all of them.
        decisions_days: decisions with their reasons; a day that has a partition goes as a whole when all of it is due.
        snapshots_days: snapshots; one that a decision needs stays as long as that.
        snapshots_budget_mib: above this, snapshots that no decision needs go before their time; null: no limit.
        agent_runs_days: runs of agents; the last one of each agent stays.
        job_actions_days: what was done to jobs that waited or ran for too long.
        rebrokered_from_days: from which queues work was taken back; at least the longest REASSIGN_MEMORY.
        queue_record_days: how jobs ended at queues, the most cores that ran there, how many jobs started, by hour.
        forecasts_days: what was told of starts, and what came of it.
        retry_actions_days: what retry rules did, and would have done, and failed jobs that none looked at.
        request_changes_days: what tasks were found to need, and changes of what they ask for.
        notifications_days: incidents that are over with their messages, and ended subscriptions.
        decision_quality_days: what cycles cost beside the best placement of their jobs.
        job_status_reports_days: what jobs told about themselves.
        feed_runs_days: runs of feeds with what they changed; since when a queue is as it is goes back so far.
        sandboxes_days: archives of panda-client that nobody uploaded, submitted with or fetched for so long.
        submitted_pilots_days: pilots that the submitter sent and that have ended.
        leases_days: leases that ran out and that nobody took again.
        services_days: services that ended without saying so.
        archive_jobs: whether finished jobs are archived; alongside PanDA they never are.
        finished_jobs_days: after which finished jobs move to the archive.
        batch_rows: rows of one transaction.
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
    """One kind of things that are removed.

    Attributes:
        kind: how it is called; also the key of its count.
        days: how long it is kept.
        remove: removes a batch of at most so many rows; what it removed, by kind.
        count: what all batches would remove.
        kept: how many rows there are.
        waiting: how many are due now; as ``count`` where that is None.
        rows: of a batch.
    """

    kind: str
    days: float | None
    remove: Callable[[sa.Connection, int], Counts]
    count: Callable[[sa.Connection], Counts]
    kept: Callable[[sa.Connection], int]
    rows: int
    waiting: Callable[[sa.Connection], int] | None = None


class CleanupAgent(Agent[CleanupOptions]):
    """Removes old rows of the broker's own tables and unused snapshots, and archives finished jobs."""

    name = "cleanup"
    title = "clean-up: what is older than its retention is removed or archived"
    options_type = CleanupOptions
    removes = True

    def __init__(self, options: CleanupOptions, process: ProcessSettings) -> None:
        """No old decision was packed yet."""
        super().__init__(options, process)
        self._packer = DecisionPacker()

    def cycle(self, context: CycleContext) -> CycleReport:
        """Remove everything that is due, or as much as fits in the time of a cycle."""
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
            removed, finished, held_back = self._run(context, step)
            for kind, number in removed.items():
                counts[kind] = counts.get(kind, 0) + number
            if held_back is not None:
                notes.append(held_back)
            elif not finished:
                notes.append(f"there are more {step.kind} to remove; the next cycle goes on")
            if context.request.emit is not None:
                context.request.emit(self._message(context, step, removed, finished))
        notes += self._over_budget(context)
        return CycleReport(counts, {"clean_s": perf_counter() - started}, tuple(notes))

    def _steps(self, context: CycleContext, standalone: bool) -> list[_Step]:
        kept = self.options
        steps = [
            self._aged(context, kind, kept.decisions_days)
            for kind in (cleanup_rows.DECISIONS, cleanup_rows.OLD_DECISIONS, cleanup_rows.DECISION_REPEATS)
        ]
        steps += self._snapshots(context)
        steps += [
            self._aged(context, cleanup_rows.AGENT_RUNS, kept.agent_runs_days),
            self._aged(context, cleanup_rows.JOB_ACTIONS, kept.job_actions_days),
            self._aged(context, cleanup_rows.REBROKERED_FROM, kept.rebrokered_from_days),
            self._aged(context, cleanup_rows.QUEUE_RECORD, kept.queue_record_days),
            self._aged(context, cleanup_rows.QUEUE_FAILURES, kept.queue_record_days),
            self._aged(context, cleanup_rows.QUEUE_CORES, kept.queue_record_days),
            self._aged(context, cleanup_rows.JOB_STARTS, kept.queue_record_days),
            self._aged(context, cleanup_rows.FORECASTS, kept.forecasts_days),
            self._aged(context, cleanup_rows.RETRY_ACTIONS, kept.retry_actions_days),
            self._aged(context, cleanup_rows.FAILED_JOBS, kept.retry_actions_days),
            self._aged(context, cleanup_rows.REQUEST_CHANGES, kept.request_changes_days),
            self._aged(context, cleanup_rows.REQUEST_LEARNED, kept.request_changes_days),
            self._aged(context, cleanup_rows.INCIDENTS, kept.notifications_days),
            self._aged(context, cleanup_rows.TASK_SUBSCRIPTIONS, kept.notifications_days),
            self._aged(context, cleanup_rows.DECISION_QUALITY, kept.decision_quality_days),
            self._aged(context, cleanup_rows.JOB_STATUS_REPORTS, kept.job_status_reports_days),
            self._aged(context, cleanup_rows.FEED_RUNS, kept.feed_runs_days),
            self._aged(context, cleanup_rows.SANDBOXES, kept.sandboxes_days),
            self._aged(context, cleanup_rows.SUBMITTED_PILOTS, kept.submitted_pilots_days),
            self._aged(context, cleanup_rows.LEASES, kept.leases_days),
            self._aged(context, cleanup_rows.SERVICES, kept.services_days),
            self._aged(context, cleanup_rows.CHUNK_STATES, kept.decisions_days),
        ]
        if kept.decisions_days is not None:
            # a day more: a decision of the last hour of a legend may still refer to it
            steps.append(self._aged(context, cleanup_rows.DECISION_LEGENDS, kept.decisions_days + 1))
        if standalone and kept.archive_jobs:
            steps.append(self._jobs(context))
        return [step for step in steps if step.days is not None]

    def _aged(self, context: CycleContext, aged: AgedRows, days: float | None) -> _Step:
        before, rows = _before(context, days), self.options.batch_rows
        return _Step(
            aged.kind,
            days,
            lambda connection, most: {aged.kind: aged.remove(connection, before, most)},
            lambda connection: {aged.kind: aged.count(connection, before)},
            aged.kept,
            rows,
        )

    def _snapshots(self, context: CycleContext) -> list[_Step]:
        """By age, then by size, then parts that belong to no snapshot."""
        kept, rows = self.options, min(SNAPSHOTS_OF_A_BATCH, self.options.batch_rows)
        before = _before(context, kept.snapshots_days)
        decisions_before = None if kept.decisions_days is None else _before(context, kept.decisions_days)
        steps = [
            _Step(
                "snapshots",
                kept.snapshots_days,
                lambda connection, most: _named(cleanup_rows.remove(connection, before, most)),
                lambda connection: _named(cleanup_rows.count(connection, before, decisions_before)),
                cleanup_rows.kept,
                rows,
            ),
            _Step(
                "snapshot_blobs",
                0.0,
                lambda connection, most: _named(cleanup_rows.remove_unused_blobs(connection, most)),
                lambda connection: {"snapshot_blobs": 0},  # those without a snapshot are counted with the snapshots
                cleanup_rows.kept_blobs,
                rows,
                cleanup_rows.count_unused_blobs,
            ),
        ]
        if kept.snapshots_budget_mib is not None:
            steps.append(self._over_size(context, rows))
        return steps

    def _over_size(self, context: CycleContext, rows: int) -> _Step:
        budget_bytes = (self.options.snapshots_budget_mib or 0.0) * _MIB

        def waiting(connection: sa.Connection) -> int:
            fits = cleanup_rows.stored_bytes(connection) <= budget_bytes
            return 0 if fits else cleanup_rows.count_removable(connection, context.now)

        def remove(connection: sa.Connection, most: int) -> Counts:
            if cleanup_rows.stored_bytes(connection) <= budget_bytes:
                return _nothing(connection)
            removed = cleanup_rows.remove(connection, context.now, most)
            return {"snapshots_over_budget": removed.snapshots} | _parts(removed)

        kept = cleanup_rows.kept
        return _Step("snapshots_over_budget", 0.0, remove, _nothing, kept, rows, waiting)

    def _jobs(self, context: CycleContext) -> _Step:
        days, rows, names = self.options.finished_jobs_days, self.options.batch_rows, context.database.names
        before = _before(context, days)

        def remove(connection: sa.Connection, most: int) -> Counts:
            moved = cleanup_jobs.archive(connection, names, before, most)
            return {"finished_jobs": moved.jobs, "files": moved.files, "status_log": moved.log_rows}

        def count(connection: sa.Connection) -> Counts:
            return {"finished_jobs": cleanup_jobs.count(connection, names, before)}

        def kept(connection: sa.Connection) -> int:
            return cleanup_jobs.kept(connection, names)

        return _Step("finished_jobs", days, remove, count, kept, rows)

    def _run(self, context: CycleContext, step: _Step) -> tuple[Counts, bool, str | None]:
        """Remove what is due of one kind: what there was, whether that was all of it, and what the brake says."""
        brake = Brake.of(self.name, self.options, context)
        with context.database.read_snapshot() as connection:
            there_are = step.kept(connection)
            due = step.count(connection) if not context.writes else None
        if due is not None:
            return due, True, brake.report(step.kind, due[step.kind], there_are, writes=False)
        allowed = brake.allows(there_are)
        total: dict[str, int] = {step.kind: 0}
        for _ in range(self.options.batches_of_a_kind):
            context.check()
            if context.monotonic() - context.started > _USE_OF_BUDGET * context.budget_s:
                return total, False, None
            most = step.rows if allowed is None else min(step.rows, allowed - total[step.kind])
            if most == 0:
                return self._held_back(context, step, total, brake, there_are)
            removed = _one_batch(context, step, most)
            for kind, number in removed.items():
                total[kind] = total.get(kind, 0) + number
            if removed[step.kind] < most:
                return total, True, None
        return total, False, None

    def _held_back(
        self, context: CycleContext, step: _Step, total: dict[str, int], brake: Brake, there_are: int
    ) -> tuple[Counts, bool, str | None]:
        """As much has been removed as the brake allows: whether that was all, and else an alarm."""
        with context.database.read_snapshot() as connection:
            waiting = step.count(connection)[step.kind] if step.waiting is None else step.waiting(connection)
        note = brake.report(step.kind, total[step.kind] + waiting, there_are, writes=True)
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
        """What is not done here, and why."""
        if not (self.options.archive_jobs and self.options.finished_jobs_days):
            return []
        if not standalone:
            return ["finished jobs are archived by PanDA, to which these tables belong"]
        with context.database.read_snapshot() as connection:
            stay = cleanup_jobs.count_without_time(connection, context.database.names)
        return [f"{stay} finished jobs have no modificationtime and stay in jobsarchived4"] if stay else []

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
    """The instant before which things are due; that of the cycle for what is never due by age."""
    return context.now - timedelta(days=days or 0.0)


def _named(removed: RemovedSnapshots) -> Counts:
    return {"snapshots": removed.snapshots} | _parts(removed)


def _parts(removed: RemovedSnapshots) -> dict[str, int]:
    return {"snapshot_blobs": removed.blobs, "snapshot_bytes": removed.size_bytes}


def _nothing(connection: sa.Connection) -> Counts:
    return {"snapshots_over_budget": 0}


def _one_batch(context: CycleContext, step: _Step, most: int) -> Counts:
    fault_points.reach("before_write")
    with context.writing() as connection:
        removed = step.remove(connection, most)
        fault_points.reach("after_write_before_commit")
    fault_points.reach("after_commit")
    return removed
