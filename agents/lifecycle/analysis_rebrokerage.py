"""The agent that takes users' jobs back from queues where their submission makes no progress."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from agents.lifecycle import ending_options as job_moving
from agents.lifecycle.ending_options import EndingOptions, Moved
from agents.lifecycle.rebrokerage import Findings, RebrokerageAgent
from agents.service.base import CycleContext
from broker.domain.instants import HOUR_S
from broker.gdpconfig.publish import Published
from broker.lifecycle.model.analysis_rebrokerage import RULE, JobSet, SetVerdict, check_job_set
from broker.lifecycle.model.jobs import REASSIGNED, WaitingJob
from broker.lifecycle.model.limits import ACTIVITY, LEAST_WAIT, analysis_limits
from broker.lifecycle.statements import rebrokerage_reads
from broker.lifecycle.statements.actions import JobAction
from broker.store.connection.tables import TableCatalogue

Place = tuple[int, int, str]
"""Task, submission and queue: what is taken back together."""


@dataclass(frozen=True)
class _Found(Findings):
    """A verdict for each set, and the jobs of each place in the order of going."""

    verdicts: list[SetVerdict]
    jobs: dict[Place, tuple[WaitingJob, ...]]

    def moves(self) -> list[JobAction]:
        """Every job once; the first set that made its place wait gives the value and the limit."""
        moves: dict[int, JobAction] = {}
        for one in self.verdicts:
            if one.outcome != "rebrokered":
                continue
            for job in self.jobs[_place(one.jobs)]:
                move = JobAction(
                    job.pandaid, job.table, job.jobstatus, job.modificationtime, job.queue, job.jeditaskid, RULE,
                    "reassigned", REASSIGNED, one.value_s, one.limit_s,
                )  # fmt: skip
                moves.setdefault(job.pandaid, move)
        return list(moves.values())

    def output(self, moved: Moved, *, writes: bool) -> Iterator[dict[str, Any]]:
        """One object a set."""
        return (_message(one, self, moved, dry_run=not writes) for one in self.verdicts)

    def counts(self, moves: Sequence[JobAction], moved: Moved) -> Mapping[str, int]:
        """Sets in all and by outcome, and jobs."""
        counts = {"sets": len(self.verdicts), **Counter[str](one.outcome for one in self.verdicts)}
        return counts | {"picked": len(moves), "moved": len(moved.acted), "skipped": len(moved.skipped)}


class AnalysisRebrokerageAgent(RebrokerageAgent[EndingOptions]):
    """Closes the waiting jobs of a submission that makes no progress at a queue, so that it is brokered again."""

    name = "analysis_rebrokerage"
    title = "analysis rebrokerage: users' jobs are taken back from queues where their submission makes no progress"
    options_type = EndingOptions

    def look(self, connection: sa.Connection, context: CycleContext, published: Published) -> _Found:
        """Judge every submission that waits, once."""
        tuning = published.tuning(None)
        catalogue, inputs = self.inputs_of(connection, context, tuning)
        queues = inputs.timeout_context.queues
        least_wait_s, activity_s = tuning.number(LEAST_WAIT) * HOUR_S, tuning.number(ACTIVITY) * HOUR_S
        sets = rebrokerage_reads.read_sets(connection, catalogue, context.now, least_wait_s, activity_s)
        if context.request.task_ids is not None:
            sets = [one for one in sets if one.jeditaskid in context.request.task_ids]
        context.check()
        limits = analysis_limits(tuning, {one.workinggroup for one in sets if one.workinggroup})
        verdicts = [check_job_set(one, queues.get(one.queue), limits, inputs.timeout_context.now) for one in sets]
        places = sorted({_place(one.jobs) for one in verdicts if one.outcome == "rebrokered"})
        jobs = self._jobs(connection, catalogue, context, places)
        return _Found(inputs.notes_on(("queues",)), catalogue, verdicts, jobs)

    def _jobs(
        self, connection: sa.Connection, catalogue: TableCatalogue, context: CycleContext, places: Sequence[Place]
    ) -> dict[Place, tuple[WaitingJob, ...]]:
        """All waiting jobs of each place, whatever made it wait, those that lose least first."""
        at: dict[Place, list[WaitingJob]] = {place: [] for place in places}
        for job in rebrokerage_reads.read_waiting_of_submissions(connection, catalogue, places) if places else []:
            if job.jeditaskid is not None and job.jobdefinitionid is not None:
                at[job.jeditaskid, job.jobdefinitionid, job.queue].append(job)
        found = {}
        for place, jobs in at.items():
            by_id = {job.pandaid: job for job in jobs}
            order = job_moving.least_loss_first(connection, jobs, context.now)
            found[place] = tuple(by_id[pandaid] for pandaid in order)
        return found


def _place(jobs: JobSet) -> Place:
    return jobs.jeditaskid, jobs.jobdefinitionid, jobs.queue


def _message(one: SetVerdict, found: _Found, moved: Moved, *, dry_run: bool) -> dict[str, object]:
    jobs = one.jobs
    going = found.jobs[_place(jobs)] if one.outcome == "rebrokered" else ()
    picked = [job.pandaid for job in going]
    acted, skipped = moved.counts_of(picked)
    return {
        "jeditaskid": jobs.jeditaskid,
        "jobdefinitionid": jobs.jobdefinitionid,
        "queue": jobs.queue,
        "produsername": jobs.produsername,
        "workinggroup": jobs.workinggroup,
        "table": jobs.table,
        "waits_since": None if jobs.waits_since is None else jobs.waits_since.isoformat(),
        "value_s": one.value_s,
        "limit_s": one.limit_s,
        "outcome": one.outcome,
        "exempt": one.exceptions[0] if one.exceptions else None,
        "picked": picked,
        "dry_run": dry_run,
        "moved": acted,
        "skipped": skipped,
    }
