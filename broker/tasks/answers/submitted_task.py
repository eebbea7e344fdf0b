"""A task that was made, as every interface gives it."""

from __future__ import annotations

from pydantic import BaseModel

from broker.tasks.statements.task_rows import Submitted


class TaskMade(BaseModel):
    """What is told of every task that was made: its number, its name and its status."""

    jeditaskid: int
    taskname: str
    status: str


class SubmittedTask(TaskMade):
    """A task that was made.

    Attributes:
        jobs: names of its jobs, where they have any.
        job_count: how many jobs it has.
        alternatives: ways in which it may be run.
        notes: what the submitter should know.
        pool: SubmitPool of its jobs; null without requirements.
    """

    jobs: list[str]
    job_count: int
    alternatives: int
    notes: list[str]
    pool: str | None


def submitted_task(made: Submitted) -> SubmittedTask:
    """What is told of a task that was made."""
    return SubmittedTask(
        jeditaskid=made.jeditaskid,
        taskname=made.taskname,
        status=made.status,
        jobs=list(made.job_ids),
        job_count=made.jobs,
        alternatives=made.alternatives,
        notes=list(made.notes),
        pool=made.pool_id,
    )
