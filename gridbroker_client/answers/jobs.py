"""Answers about jobs, from the description of the API; `make reference` writes this file."""

from __future__ import annotations

from typing import Any, Literal, TypedDict


class JobList(TypedDict):
    """Jobs, newest first; ``next_after``: cursor of the next page, null at the end."""

    now: str
    filters: JobFilters
    jobs: list[JobLine]
    next_after: int | None


class JobAnswer(TypedDict):
    """A job: where it is and why, why it failed, and its history, oldest first."""

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
    created_at: str | None
    modified_at: str | None
    started_at: str | None
    ended_at: str | None
    failure: Failure | None
    now: str
    table: str
    maxrss: int | None
    failures: list[Failure]
    log_url: str | None
    placement: JobPlacement | None
    attempts: list[JobAttempt]
    steps: list[JobStep]
    retries: list[RetryActionLine]


class JobFilters(TypedDict):
    """Filters of jobs; all must match."""

    task: int | None
    queue: str | None
    state: str | None
    error: str | None
    limit: int
    after: int | None


class JobLine(TypedDict):
    """A job."""

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
    created_at: str | None
    modified_at: str | None
    started_at: str | None
    ended_at: str | None
    failure: Failure | None


class Failure(TypedDict):
    """One error code of a job, decoded."""

    source: str
    code: int | None
    error: str
    error_class: str
    fault: str
    faults: list[str]
    meaning: str
    diag: str


class JobPlacement(TypedDict):
    """The decision that sent the job to its queue."""

    decision: int
    decided_at: str
    brokerage: str
    jobs: int
    candidates: int
    weight: float | None
    link: str


class JobAttempt(TypedDict):
    """One of the jobs with the same input."""

    job: JobLine
    inputs: int | None
    changed: dict[str, list[Any]]


class JobStep(TypedDict):
    """An event of a job."""

    at: str
    event: Literal["status", "action"]
    status: str | None
    queue: str | None
    rule: str | None
    value_s: float | None
    limit_s: float | None


class RetryActionLine(TypedDict):
    """What a rule did, or would have done, to the input of a job or its task."""

    acted_at: str
    pandaid: int
    attemptnr: int
    queue: str | None
    rule: str
    rules_version: str
    errorsource: str
    errorcode: int
    action: str
    active: bool
    target: str
    rows_changed: int
    before: dict[str, Any]
    after: dict[str, Any]
    reason: str
    evidence: dict[str, Any]
