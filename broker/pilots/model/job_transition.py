"""The effect of a report on a job: which columns change, what its pilot is answered, and why.

Source: PanDA server, dispatcher (updateJob) and change of a job's status (updateJobStatus).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from broker.pilots.model.codes import ALREADY_DONE, BATCH_ID_CHANGED, DEBUG, FINAL, TO_BE_KILLED
from broker.pilots.model.job_report import JobReport

GIVEN_OUT = ("sent", "starting", "running", "stagein", "stageout", "holding", "transferring", "merging")
"""Statuses of jobs that a pilot has."""
_LATE_FOR = ("holding", "transferring", "merging")
_DEBUG_MODE = "debug"


@dataclass(frozen=True)
class JobState:
    """The current state of a job.

    Attributes:
        jobstatus: its status; its last one for an archived job.
        queue: its computingsite.
        attemptnr: attempt of the job.
        batchid: batch id that its pilot reported before.
        starttime: None before it ran.
        endtime: None before it ended.
        commandtopilot: command with which its pilot is to be answered.
        specialhandling: words between commas.
        is_reported: whether there was a final report of this attempt.
    """

    jobstatus: str
    queue: str | None = None
    attemptnr: int = 0
    batchid: str | None = None
    starttime: datetime | None = None
    endtime: datetime | None = None
    commandtopilot: str | None = None
    specialhandling: str | None = None
    is_reported: bool = False


@dataclass(frozen=True)
class Transition:
    """The effect of a report on a job.

    Attributes:
        reason: why; ``reported`` where the report was applied.
        command: command for the pilot; None: none.
        columns: new values by column.
        is_applied: whether the report counts as heard from the job.
        status: the new status, where it changes.
        starts: the job runs for the first time.
        is_final: whether the report is to be taken to its end.
    """

    reason: str
    command: str | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)
    is_applied: bool = False
    status: str | None = None
    starts: bool = False
    is_final: bool = False


def transition(job: JobState | None, report: JobReport, now: datetime) -> Transition:
    """Decide the effect of a report with a known state on a job at ``now`` (naive UTC); None: there is no such job."""
    refused = _refused(job, report)
    if refused is not None or job is None:
        return refused or Transition("unknown_job", TO_BE_KILLED)
    command = _command(job)
    if report.state == "transferring" and job.jobstatus == "holding":
        return Transition("not_from_holding", command)
    if report.state in ("starting", "running") and job.jobstatus in _LATE_FOR:
        return Transition("late", command)
    is_final = report.state in FINAL
    status = "holding" if is_final else report.state
    if status == "starting" and job.jobstatus in ("running", "stagein", "stageout"):
        status = job.jobstatus
    columns: dict[str, Any] = {**report.columns, "jobstatus": status, "modificationtime": now}
    if is_final:
        columns |= {"endtime": job.endtime or now, "jobdispatchererrordiag": None}
    elif status in ("holding", "transferring"):
        columns["jobdispatchererrordiag"] = f"set to {status} by the pilot at {now:%Y-%m-%d %H:%M:%S}"
    if status != job.jobstatus or is_final:
        columns["statechangetime"] = now
    starts = status == "running" and job.jobstatus in ("sent", "starting")
    if starts:
        columns["starttime"] = now
    changed = status if status != job.jobstatus else None
    return Transition("reported", command, columns, True, changed, starts, is_final)


def _refused(job: JobState | None, report: JobReport) -> Transition | None:
    """Why a report does not count; None when it does."""
    if job is None:
        return Transition("unknown_job", TO_BE_KILLED)
    if report.attemptnr is not None and report.attemptnr != job.attemptnr:
        return Transition("wrong_attempt", TO_BE_KILLED)
    if job.jobstatus in FINAL or job.is_reported:
        return Transition("already_done", ALREADY_DONE)
    if job.jobstatus not in GIVEN_OUT:
        return Transition("not_given_out", TO_BE_KILLED)
    batch = report.columns.get("batchid")
    if job.batchid and batch and batch != job.batchid and not (_is_number(batch) or _is_number(job.batchid)):
        diag = f"the batch id was {job.batchid} and is {batch}"[:250]
        columns = {"superrorcode": BATCH_ID_CHANGED, "superrordiag": diag}
        return Transition("other_batch_id", TO_BE_KILLED, columns)
    return None


def _is_number(batch: str) -> bool:
    return batch.isascii() and batch.isdigit()


def _command(job: JobState) -> str | None:
    is_debugged = _DEBUG_MODE in (job.specialhandling or "").split(",")
    words = [DEBUG] if is_debugged else []
    return ",".join([*words, *([job.commandtopilot] if job.commandtopilot else [])]) or None
