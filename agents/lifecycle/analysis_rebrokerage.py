"""The agent that takes users' jobs back from queues where their submission makes no progress."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from agents.lifecycle import ending_options as job_moving
from agents.lifecycle.ending_options import EndingOptions, MoveOutcome
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
class _AnalysisFindings(Findings):
    """The verdict on each set, and the jobs of each place in the order in which they are taken back."""

    verdicts: list[SetVerdict]
    jobs: dict[Place, tuple[WaitingJob, ...]]

    def moves(self) -> list[JobAction]:
        """Each job once; its value and limit come from the first rebrokered set of its place."""
        moves: dict[int, JobAction] = {}
        for verdict in self.verdicts:
            if verdict.outcome != "rebrokered":
                continue
            for job in self.jobs[_place(verdict.jobs)]:
                move = JobAction(
                    job.pandaid, job.table, job.jobstatus, job.modificationtime, job.queue, job.jeditaskid, RULE,
                    "reassigned", REASSIGNED, verdict.value_s, verdict.limit_s,
                )  # fmt: skip
                moves.setdefault(job.pandaid, move)
        return list(moves.values())

    def output(self, moved: MoveOutcome, *, writes: bool) -> Iterator[dict[str, Any]]:
        """One object for each set."""
        return (_message(verdict, self, moved, dry_run=not writes) for verdict in self.verdicts)

    def counts(self, moves: Sequence[JobAction], moved: MoveOutcome) -> Mapping[str, int]:
        """The numbers of sets, in total and by outcome, and of jobs."""
        counts = {"sets": len(self.verdicts), **Counter[str](verdict.outcome for verdict in self.verdicts)}
        return counts | {"picked": len(moves), "moved": len(moved.acted), "skipped": len(moved.skipped)}


class AnalysisRebrokerageAgent(RebrokerageAgent[EndingOptions]):
    """Closes the waiting jobs of a submission that makes no progress at a queue, so that it is brokered again."""

    name = "analysis_rebrokerage"
    title = "analysis rebrokerage: users' jobs are taken back from queues where their submission makes no progress"
    options_type = EndingOptions

    def look(self, connection: sa.Connection, context: CycleContext, published: Published) -> _AnalysisFindings:
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
        return _AnalysisFindings(inputs.notes_on(("queues",)), catalogue, verdicts, jobs)

    def _jobs(
        self, connection: sa.Connection, catalogue: TableCatalogue, context: CycleContext, places: Sequence[Place]
    ) -> dict[Place, tuple[WaitingJob, ...]]:
        """All waiting jobs of each place, not only those of its set, those that lose least first."""
        jobs_by_place: dict[Place, list[WaitingJob]] = {place: [] for place in places}
        for job in rebrokerage_reads.read_waiting_of_submissions(connection, catalogue, places) if places else []:
            if job.jeditaskid is not None and job.jobdefinitionid is not None:
                jobs_by_place[job.jeditaskid, job.jobdefinitionid, job.queue].append(job)
        ordered = {}
        for place, jobs in jobs_by_place.items():
            by_id = {job.pandaid: job for job in jobs}
            order = job_moving.least_loss_first(connection, jobs, context.now)
            ordered[place] = tuple(by_id[pandaid] for pandaid in order)
        return ordered


def _place(jobs: JobSet) -> Place:
    return jobs.jeditaskid, jobs.jobdefinitionid, jobs.queue


def _message(
    verdict: SetVerdict, findings: _AnalysisFindings, moved: MoveOutcome, *, dry_run: bool
) -> dict[str, object]:
    job_set = verdict.jobs
    jobs = findings.jobs[_place(job_set)] if verdict.outcome == "rebrokered" else ()
    picked = [job.pandaid for job in jobs]
    acted, skipped = moved.counts_of(picked)
    return {
        "jeditaskid": job_set.jeditaskid,
        "jobdefinitionid": job_set.jobdefinitionid,
        "queue": job_set.queue,
        "produsername": job_set.produsername,
        "workinggroup": job_set.workinggroup,
        "table": job_set.table,
        "waits_since": None if job_set.waits_since is None else job_set.waits_since.isoformat(),
        "value_s": verdict.value_s,
        "limit_s": verdict.limit_s,
        "outcome": verdict.outcome,
        "exempt": verdict.exceptions[0] if verdict.exceptions else None,
        "picked": picked,
        "dry_run": dry_run,
        "moved": acted,
        "skipped": skipped,
    }
