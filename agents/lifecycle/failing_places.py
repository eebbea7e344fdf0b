"""The part of the fast rebrokerage that takes jobs back from where jobs fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from agents.lifecycle import ending_options as job_moving
from agents.lifecycle.ending_options import Moved
from agents.service.base import CycleContext
from broker.gdpconfig.publish import Published
from broker.lifecycle.model.failing_places import RULE, TAKE_BACK, FailingPlaces, Why, failing_places
from broker.lifecycle.model.jobs import FAST_REBROKERAGE, Queue, WaitingJob
from broker.lifecycle.statements import failing_reads, rebrokerage_reads
from broker.lifecycle.statements.actions import JobAction
from broker.store.connection.tables import TableCatalogue

MAX_MOVES = "FAST_REBRO_MAX_MOVES"


@dataclass(frozen=True)
class FailingPicks:
    """The jobs that are taken back, in order, each with the rule that keeps new ones away.

    Attributes:
        jobs: that go.
        places: where jobs fail.
        moved_often: jobs left alone since their input was moved too often.
        note: a remark for operators, empty for none.
    """

    jobs: tuple[tuple[WaitingJob, Why], ...] = ()
    places: FailingPlaces = field(default_factory=lambda: FailingPlaces({}, {}))
    moved_often: int = 0
    note: str = ""

    def moves(self) -> list[JobAction]:
        """The jobs, with what was found where they wait."""
        return [
            JobAction(
                job.pandaid, job.table, job.jobstatus, job.modificationtime, job.queue, job.jeditaskid, RULE,
                "reassigned", FAST_REBROKERAGE, detail={"reason": why, **self._figures(job, why)},
            )
            for job, why in self.jobs
        ]  # fmt: skip

    def _figures(self, job: WaitingJob, why: Why) -> Mapping[str, Any]:
        if why == "task_fails_here":
            of_task = self.places.tasks[job.jeditaskid or 0][job.queue]
            return {"failed_jobs": of_task.failed, "ended_jobs": of_task.ended}
        found = [one for (queue, _), one in self.places.closed.items() if queue == job.queue]
        one = max(found, key=lambda health: health.statistic)
        return {"failed_jobs": one.failed_jobs, "ended_jobs": one.ended_jobs, "failed_tasks": one.failed_tasks}

    def messages(self, moved: Moved, *, dry_run: bool) -> list[dict[str, Any]]:
        """One object for each queue and rule."""
        at = Counter((job.queue, why) for job, why in self.jobs)
        picked = {key: [job.pandaid for job, why in self.jobs if (job.queue, why) == key] for key in at}
        return [
            {
                "queue": queue, "reason": why, "picked": picked[queue, why], "dry_run": dry_run,
                "moved": moved.counts_of(picked[queue, why])[0], "skipped": moved.counts_of(picked[queue, why])[1],
            }
            for queue, why in sorted(at)
        ]  # fmt: skip


def look_at_failing(
    connection: sa.Connection,
    catalogue: TableCatalogue,
    context: CycleContext,
    published: Published,
    queues: Mapping[str, Queue],
    exempt: Collection[str],
) -> FailingPicks:
    """The jobs that wait where jobs fail; none unless LEARNED_TAKE_BACK is on.

    Args:
        connection: a read-only transaction.
        catalogue: the tables of the database.
        context: of the cycle.
        published: the values in force; those of the own VO count.
        queues: those on record.
        exempt: queues that are left alone.
    """
    tuning = published.tuning(published.catalogue.vo)
    if not tuning.flag(TAKE_BACK):
        return FailingPicks()
    if not failing_reads.is_known(connection, context.now):
        return FailingPicks(note="how jobs end is not known: agent outcomes has not run lately")
    online = sorted(name for name, queue in queues.items() if queue.status == "online")
    places = failing_places(
        failing_reads.read_closed(connection),
        failing_reads.read_failing_tasks(connection),
        online,
        context.now.timestamp(),
        tuning,
    )
    at = [queue for queue in places.queues if queue in queues and queue not in exempt]
    waiting = failing_reads.read_waiting(connection, catalogue, at) if at else []
    found = {
        one.job.pandaid: (one.job, why)
        for one in waiting
        if (why := places.why(one.job.queue, one.prodsourcelabel, one.job.jeditaskid)) is not None
        and (context.request.task_ids is None or one.job.jeditaskid in context.request.task_ids)
    }
    most = int(tuning.number(MAX_MOVES))
    often = rebrokerage_reads.moved_often(connection, catalogue, list(found), most, context.now, RULE)
    free = [job for job, _ in found.values() if job.pandaid not in often]
    order = job_moving.least_loss_first(connection, free, context.now) if free else []
    return FailingPicks(tuple(found[pandaid] for pandaid in order), places, len(often))
