"""A task that was made, as every interface returns it."""

from __future__ import annotations

from pydantic import BaseModel

from broker.tasks.statements.task_rows import InsertedTask


class CreatedTask(BaseModel):
    """The common part of every created task: number, name and status."""

    jeditaskid: int
    taskname: str
    status: str


class MadeTask(CreatedTask):
    """The created task, or the one that the same submission created before.

    ``status``: registered while the task waits for its input; else assigning or ready.

    Attributes:
        jobs: number of jobs, by its own split rule; 0 until its input is known.
        notes: notes for the submitter.
    """

    jobs: int
    notes: list[str]


class SubmittedTask(CreatedTask):
    """A created task.

    Attributes:
        jobs: names of its jobs, if they have any.
        job_count: number of jobs.
        alternatives: number of ways in which it may run.
        notes: notes for the submitter.
        pool: SubmitPool of its jobs; null if it has no requirements.
    """

    jobs: list[str]
    job_count: int
    alternatives: int
    notes: list[str]
    pool: str | None


def made_task(task: InsertedTask) -> MadeTask:
    """The answer about a task that was made of task parameters."""
    return MadeTask(
        jeditaskid=task.jeditaskid,
        taskname=task.taskname,
        status=task.status,
        jobs=task.jobs,
        notes=list(task.notes),
    )


def submitted_task(task: InsertedTask) -> SubmittedTask:
    """The answer about a task that was made."""
    return SubmittedTask(
        jeditaskid=task.jeditaskid,
        taskname=task.taskname,
        status=task.status,
        jobs=list(task.job_ids),
        job_count=task.jobs,
        alternatives=task.alternatives,
        notes=list(task.notes),
        pool=task.pool_id,
    )
