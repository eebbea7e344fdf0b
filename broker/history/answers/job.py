"""A job: where it is, and what happened to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from broker.history.statements.job_facts import TABLES, read_actions, read_job, read_statuses
from broker.service.answers.models import JobAnswer, JobStep
from broker.store.query_context import Asking, NothingFound


def job_answer(asking: Asking, pandaid: int) -> JobAnswer:
    """A job by its number.

    Raises:
        NothingFound: it is in none of PanDA's tables of jobs.
    """
    job = read_job(asking.connection, asking.catalogue, pandaid)
    if job is None:
        raise NothingFound("job", pandaid, ", ".join(TABLES), remedy="it may have moved to the long archive")
    steps = [
        *_statuses(read_statuses(asking.connection, asking.catalogue, pandaid)),
        *_actions(read_actions(asking.connection, pandaid)),
    ]
    return JobAnswer(
        now=asking.now,
        pandaid=pandaid,
        jeditaskid=job["jeditaskid"],
        table=job["table"],
        jobstatus=job["jobstatus"] or "",
        computingsite=job["computingsite"],
        gshare=job["gshare"],
        currentpriority=job["currentpriority"],
        corecount=job["corecount"],
        minramcount=job["minramcount"],
        resource_type=job["resource_type"],
        created_at=job["creationtime"],
        modified_at=job["modificationtime"],
        started_at=job["starttime"],
        ended_at=job["endtime"],
        steps=tuple(sorted(steps, key=lambda step: step.at)),
    )


def _statuses(rows: list[dict[str, Any]]) -> Iterator[JobStep]:
    for row in rows:
        yield JobStep(at=row["modificationtime"], event="status", status=row["jobstatus"], queue=row["computingsite"])


def _actions(rows: list[dict[str, Any]]) -> Iterator[JobStep]:
    for row in rows:
        yield _action(row)


def _action(row: Mapping[str, Any]) -> JobStep:
    return JobStep(
        at=row["acted_at"],
        event="action",
        status=row["new_status"],
        queue=row["queue"],
        rule=row["rule"],
        value_s=row["value_s"],
        limit_s=row["limit_s"],
    )
