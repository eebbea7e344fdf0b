"""Jobs as every interface returns them: the row of the list, and the details of a single job."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from broker.history.model.error_classes import Failure
from broker.history.statements.task_facts import MOST_LINES as MOST_LINES, JobFilters as JobFilters
from broker.retries.answers.retries import RetryActionLine
from broker.store.query_context import ResponseModel


class JobLine(ResponseModel):
    """A job.

    Attributes:
        minramcount: memory of the job, in MB.
        node: node where it runs or ran.
        failure: most informative error code; null if nothing went wrong.
    """

    pandaid: int
    jeditaskid: int | None
    jobstatus: str
    jobsubstatus: str | None
    attemptnr: int | None
    computingsite: str | None
    nucleus: str | None
    gshare: str | None
    currentpriority: int | None
    corecount: int | None
    minramcount: int | None
    resource_type: str | None
    node: str | None
    created_at: datetime | None
    modified_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    failure: Failure | None


class JobList(ResponseModel):
    """Jobs, newest first; ``next_after``: cursor of the next page, null at the end."""

    now: datetime
    filters: JobFilters
    jobs: tuple[JobLine, ...]
    next_after: int | None


class JobStep(ResponseModel):
    """An event of a job."""

    at: datetime
    event: Literal["status", "action"]
    status: str | None
    queue: str | None
    rule: str | None = None
    value_s: float | None = None
    limit_s: float | None = None


class JobPlacement(ResponseModel):
    """The decision that sent the job to its queue.

    Attributes:
        decision: number of the decision.
        jobs: number of jobs that it placed there.
        candidates: number of candidate queues.
        weight: weight of the queue; null if unknown.
        link: link to all decisions about the task.
    """

    decision: int
    decided_at: datetime
    brokerage: str
    jobs: int
    candidates: int
    weight: float | None
    link: str


class JobAttempt(ResponseModel):
    """One of the jobs with the same input.

    Attributes:
        inputs: number of input files.
        changed: differences from the previous attempt: name to value before and after.
    """

    job: JobLine
    inputs: int | None
    changed: dict[str, tuple[Any, Any]]


class JobAnswer(JobLine):
    """A job: where it is and why, why it failed, and its history, oldest first.

    Attributes:
        table: PanDA table of the job.
        failures: all its error codes, most informative first.
        log_url: URL of its log, by the pattern of ``error_classes.yaml``; null if there is none.
        placement: decision that placed it; null if no longer stored.
        attempts: jobs with the same input, oldest first; empty if there was only one.
        retries: actions of retry rules on its failure.
    """

    now: datetime
    table: str
    maxrss: int | None
    failures: tuple[Failure, ...]
    log_url: str | None
    placement: JobPlacement | None
    attempts: tuple[JobAttempt, ...]
    steps: tuple[JobStep, ...]
    retries: tuple[RetryActionLine, ...] = ()


class ErrorCount(ResponseModel):
    """Number of jobs that failed with a code; ``failure``: one of these errors, decoded."""

    jobs: int
    failure: Failure


class JobsOfTasks(ResponseModel):
    """The jobs of some tasks by state, and the reasons of failures.

    Attributes:
        tasks: numbers of the tasks.
        states: number of jobs by state.
        errors: errors of the last ``looked_at`` failed jobs, most frequent first.
        finished_an_hour: rate of finished jobs in the last hours; null if too few finished.
        expected_end: expected end of the existing jobs at that rate; null if unknown, or if all have ended.
    """

    now: datetime
    tasks: tuple[int, ...]
    states: dict[str, int]
    errors: tuple[ErrorCount, ...]
    looked_at: int
    finished_an_hour: float | None = None
    expected_end: datetime | None = None
