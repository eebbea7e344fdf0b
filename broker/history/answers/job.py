"""Jobs: where they are and why, why they failed, and what happened to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from broker.history.answers.job_models import (
    ErrorCount,
    JobAnswer,
    JobAttempt,
    JobFilters,
    JobLine,
    JobList,
    JobPlacement,
    JobsOfTasks,
    JobStep,
)
from broker.history.model.error_classes import (
    NO_CODE,
    SOURCES,
    ErrorClasses,
    WrongErrorClasses,
    read_error_classes,
)
from broker.history.statements.task_facts import (
    TABLES,
    JobSelection,
    finished_between,
    read_actions,
    read_attempts,
    read_job,
    read_jobs,
    read_log_file,
    read_state_counts,
    read_statuses,
)
from broker.resources import path
from broker.retries.answers.retries import actions_of
from broker.store.decisions.decision_rows import COLUMNS, TABLE, decisions_of
from broker.store.query_context import NothingFound, QueryContext

ERROR_CLASSES = "error_classes.yaml"
MOST_ATTEMPTS, MOST_DECISIONS = 50, 20
_SAME = (
    "pandaid", "jeditaskid", "jobsubstatus", "attemptnr", "computingsite", "nucleus", "gshare", "currentpriority",
    "corecount", "minramcount", "resource_type",
)  # fmt: skip
_COMPARED = {"queue": "computingsite", "memory_mb": "minramcount", "cores": "corecount"}
# jobs are created in the transaction that writes their decision, and carry its time
_READ_BROKERED = sa.text(f"""
    SELECT {COLUMNS.replace("work,", "NULL::bytea AS work,")} FROM {TABLE}
    WHERE jeditaskid = :task AND decided_at <= :created + interval '1 second' AND outcome = 'brokered'
    ORDER BY decided_at DESC, id DESC LIMIT :most""")  # noqa: S608 - constants


def error_classes(config: Path | None) -> ErrorClasses:
    """Load the error classes: from the operator's folder if the file is there, else as shipped.

    Raises:
        WrongErrorClasses: the file cannot be read or used.
    """
    own_file = None if config is None else config / ERROR_CLASSES
    file = own_file if own_file is not None and own_file.is_file() else path(f"config/{ERROR_CLASSES}")
    try:
        return _read(file, file.stat().st_mtime_ns)
    except (OSError, UnicodeError) as error:
        raise WrongErrorClasses(f"it cannot be read: {error}", str(file), "correct or remove the file") from error


@lru_cache(maxsize=4)
def _read(file: Path, changed_ns: int) -> ErrorClasses:
    """Read the file; the cache key includes its last change."""
    return read_error_classes(file.read_text(encoding="utf-8"), str(file))


def job_list(query: QueryContext, filters: JobFilters) -> JobList:
    """Return the jobs that match all filters, newest first.

    Raises:
        WrongErrorFilter: the error filter matches nothing known.
    """
    classes = error_classes(query.config)
    errors = None
    if filters.error is not None:
        errors = [(SOURCES.get(source, NO_CODE), low, high) for source, low, high in classes.ranges_of(filters.error)]
    selection = JobSelection(filters, errors=errors, limit=filters.limit + 1)
    rows = read_jobs(query.connection, query.catalogue, selection)
    page = tuple(_line(row, classes) for row in rows[: filters.limit])
    after = page[-1].pandaid if len(rows) > filters.limit else None
    return JobList(now=query.now, filters=filters, jobs=page, next_after=after)


def failures_of(query: QueryContext, pandaids: Sequence[int]) -> dict[str, int]:
    """Return how many of some jobs failed with which code and meaning, the most frequent first."""
    classes = error_classes(query.config)
    selection = JobSelection(jobs=pandaids, limit=max(len(pandaids), 1))
    rows = read_jobs(query.connection, query.catalogue, selection)
    failed = [failures[0] for failures in map(classes.decode, rows) if failures]
    return dict(Counter(f"{failure.error} {failure.meaning}" for failure in failed).most_common())


MOST_FAILED = 200


LOOKED_BACK, SHORTEST = timedelta(hours=6), timedelta(minutes=10)
"""How far back finished jobs are counted, and the shortest span from which a rate is derived."""
FEWEST_FINISHED = 3
LONGEST_WAIT = timedelta(days=365)
ENDED = ("finished", "failed", "cancelled", "closed")


def jobs_of_tasks(query: QueryContext, tasks: Sequence[int]) -> JobsOfTasks:
    """Return the jobs of some tasks by state, and the codes of the latest failures."""
    states_by_task = read_state_counts(query.connection, query.catalogue, tasks)
    states: Counter[str] = Counter()
    for states_of_task in states_by_task.values():
        states.update(states_of_task)
    failed = [task for task, states_of_task in states_by_task.items() if states_of_task.get("failed")]
    most = max(1, MOST_FAILED // max(1, len(failed)))
    rows = [
        row
        for task in failed
        for row in read_jobs(
            query.connection, query.catalogue, JobSelection(JobFilters(task=task, state="failed"), limit=most)
        )
    ]
    errors = tuple(_error_counts(rows, error_classes(query.config)))
    speed = None
    if states:
        since = query.now - LOOKED_BACK
        jobs, first = finished_between(query.connection, query.catalogue, tasks, since, query.now)
        speed = finished_an_hour(jobs, first, query.now)
    return JobsOfTasks(
        now=query.now,
        tasks=tuple(tasks),
        states=dict(states),
        errors=errors,
        looked_at=len(rows),
        finished_an_hour=speed,
        expected_end=expected_end(states, speed, query.now),
    )


def finished_an_hour(jobs: int, first: datetime | None, now: datetime) -> float | None:
    """Return the jobs finished an hour, from the number that did since the first of them; None if too few did. Pure."""
    if first is None or jobs < FEWEST_FINISHED:
        return None
    return jobs * (timedelta(hours=1) / max(SHORTEST, now - first))


def expected_end(states: Mapping[str, int], speed: float | None, now: datetime) -> datetime | None:
    """Return when the present jobs will have ended; None if unknown, or if all have. Pure."""
    unfinished = sum(jobs for state, jobs in states.items() if state not in ENDED)
    if not unfinished or not speed:
        return None
    return now + min(LONGEST_WAIT, timedelta(hours=unfinished / speed))


def _error_counts(rows: Sequence[Mapping[str, Any]], classes: ErrorClasses) -> Iterator[ErrorCount]:
    """Yield the codes of failed jobs, most frequent first; each job counts with its most specific code. Pure."""
    first = [failures[0] for failures in map(classes.decode, rows) if failures]
    by_error = {failure.error: failure for failure in first}
    for error, jobs in Counter(failure.error for failure in first).most_common():
        yield ErrorCount(jobs=jobs, failure=by_error[error])


def job_answer(query: QueryContext, pandaid: int) -> JobAnswer:
    """Return a job by its number.

    Raises:
        NothingFound: the job is in none of PanDA's job tables.
    """
    job = read_job(query.connection, query.catalogue, pandaid)
    if job is None:
        raise NothingFound("job", pandaid, ", ".join(TABLES), remedy="it may have moved to the long archive")
    classes = error_classes(query.config)
    log, scope = read_log_file(query.connection, query.catalogue, pandaid)
    of_log = {"queue": job["computingsite"], "log": log, "scope": scope}
    steps = [
        *_statuses(read_statuses(query.connection, query.catalogue, pandaid)),
        *_actions(read_actions(query.connection, pandaid)),
    ]
    return JobAnswer(
        **_line(job, classes).model_dump(),
        now=query.now,
        table=job["table"],
        maxrss=job["maxrss"],
        failures=classes.decode(job),
        log_url=classes.log_of({**job, **of_log}),
        placement=_placement(query, job),
        attempts=_attempts(query, job, classes),
        steps=tuple(sorted(steps, key=lambda step: step.at)),
        retries=actions_of(query, job=pandaid),
    )


def _line(job: Mapping[str, Any], classes: ErrorClasses) -> JobLine:
    failures = classes.decode(job)
    return JobLine(
        **{name: job[name] for name in _SAME},
        jobstatus=job["jobstatus"] or "",
        node=job["modificationhost"],
        created_at=job["creationtime"],
        modified_at=job["modificationtime"],
        started_at=_known(job["starttime"]),
        ended_at=_known(job["endtime"]),
        failure=failures[0] if failures else None,
    )


def _known(moment: Any) -> Any:
    """Return the instant; None for 1970, PanDA's default for columns that were never set."""
    return None if moment is None or moment.year == 1970 else moment


def _placement(query: QueryContext, job: Mapping[str, Any]) -> JobPlacement | None:
    """Return the last decision, before the job was created, that placed jobs of its task at its queue."""
    queue, created = job["computingsite"], job["creationtime"]
    if queue is None or created is None or job["jeditaskid"] is None:
        return None
    values = {"task": job["jeditaskid"], "created": created, "most": MOST_DECISIONS}
    rows = (dict(row._mapping) for row in query.connection.execute(_READ_BROKERED, values))
    for stored in decisions_of(query.connection, rows):
        jobs = stored.record.assigned.get(queue)
        if jobs:
            decision = stored.record.decision
            weights = [
                candidate.weight for candidate in decision.candidates if candidate.name.partition("/")[0] == queue
            ]
            return JobPlacement(
                decision=stored.id,
                decided_at=stored.origin.decided_at,
                brokerage=decision.brokerage,
                jobs=jobs,
                candidates=len(decision.candidates),
                weight=max(weights, default=None),
                link=f"/api/v1/tasks/{job['jeditaskid']}/decision?at={stored.origin.decided_at.isoformat()}",
            )
    return None


def _attempts(query: QueryContext, job: Mapping[str, Any], classes: ErrorClasses) -> tuple[JobAttempt, ...]:
    if job["jeditaskid"] is None:
        return ()
    numbers = read_attempts(query.connection, query.catalogue, job["pandaid"], job["jeditaskid"])
    selection = JobSelection(jobs=numbers, limit=MOST_ATTEMPTS)
    rows = read_jobs(query.connection, query.catalogue, selection)[::-1]
    if len(rows) < 2:
        return ()
    before: list[Mapping[str, Any]] = [rows[0], *rows]
    return tuple(
        JobAttempt(job=_line(row, classes), inputs=row["ninputdatafiles"], changed=_differences(old, row))
        for old, row in zip(before, rows, strict=False)
    )


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    compared = {**_COMPARED, "inputs": "ninputdatafiles"}
    return {name: (old[column], new[column]) for name, column in compared.items() if old[column] != new[column]}


def _statuses(rows: list[dict[str, Any]]) -> Iterator[JobStep]:
    for row in rows:
        yield JobStep(at=row["modificationtime"], event="status", status=row["jobstatus"], queue=row["computingsite"])


def _actions(rows: list[dict[str, Any]]) -> Iterator[JobStep]:
    for row in rows:
        yield JobStep(
            at=row["acted_at"],
            event="action",
            status=row["new_status"],
            queue=row["queue"],
            rule=row["rule"],
            value_s=row["value_s"],
            limit_s=row["limit_s"],
        )
