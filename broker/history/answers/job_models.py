"""Jobs as every interface gives them: the row of the list, and all that is known of one."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from broker.history.model.error_classes import Failure
from broker.history.statements.task_facts import MOST_LINES as MOST_LINES, JobFilters as JobFilters
from broker.retries.answers.retries import RetryActionLine
from broker.store.query_context import Answer


class JobLine(Answer):
    """A job.

    Attributes:
        minramcount: MB of the job.
        node: where it runs, or ran.
        failure: the code that says most; None where nothing went wrong.
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


class JobList(Answer):
    """Jobs, the newest first; ``next_after``: of the page that follows, null at the end."""

    now: datetime
    filters: JobFilters
    jobs: tuple[JobLine, ...]
    next_after: int | None


class JobStep(Answer):
    """Something that happened to a job."""

    at: datetime
    event: Literal["status", "action"]
    status: str | None
    queue: str | None
    rule: str | None = None
    value_s: float | None = None
    limit_s: float | None = None


class JobPlacement(Answer):
    """The decision that sent the job to its queue.

    Attributes:
        decision: its number.
        jobs: so many were placed there by it.
        candidates: queues that could have had it.
        weight: of the queue among them; None where it is not known.
        link: of all that was decided about the task.
    """

    decision: int
    decided_at: datetime
    brokerage: str
    jobs: int
    candidates: int
    weight: float | None
    link: str


class JobAttempt(Answer):
    """One of the jobs that had the same input.

    Attributes:
        inputs: files of its input.
        changed: what is different from the attempt before: name to value before and after.
    """

    job: JobLine
    inputs: int | None
    changed: dict[str, tuple[Any, Any]]


class JobAnswer(JobLine):
    """A job: where it is, why there, why it failed, and what happened to it, oldest first.

    Attributes:
        table: of PanDA's that it is in.
        failures: every code of it, the one that says most first.
        log_url: of its log, by the pattern of ``error_classes.yaml``; null without.
        placement: why it is there; null where the decision is not stored any more.
        attempts: the jobs that had the same input, the oldest first; empty where there was one only.
        retries: what retry rules made of its failure.
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


class ErrorCount(Answer):
    """So many jobs that failed with a code; ``failure``: the code of one of them, decoded."""

    jobs: int
    failure: Failure


class JobsOfTasks(Answer):
    """The jobs of some tasks by state, and why those failed that did.

    Attributes:
        tasks: their numbers.
        states: how many are in which state.
        errors: of the last ``looked_at`` jobs that failed, the most frequent first.
        finished_an_hour: how fast jobs finished in the last hours; null where too few did.
        expected_end: when the jobs that there are have ended at that speed; null where it is not known, or all have.
    """

    now: datetime
    tasks: tuple[int, ...]
    states: dict[str, int]
    errors: tuple[ErrorCount, ...]
    looked_at: int
    finished_an_hour: float | None = None
    expected_end: datetime | None = None
