"""Reads of tasks and their jobs as people query them, from PanDA's tables.

Tasks come from PanDA's task table. Jobs come from whichever of PanDA's job tables has them, with what is on record
about them: states, attempts, logs, and actions of timeouts and rebrokerage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from pydantic import Field

from broker.domain.instants import naive
from broker.domain.task_states import NO_LONGER_BROKERED
from broker.store.connection.tables import TableCatalogue
from broker.store.query_context import ResponseModel

COLUMNS = (
    "jeditaskid",
    "taskname",
    "status",
    "username",
    "workinggroup",
    "prodsourcelabel",
    "processingtype",
    "gshare",
    "currentpriority",
    "corecount",
    "ramcount",
    "ramunit",
    "walltime",
    "walltimeunit",
    "nucleus",
    "site",
    "creationdate",
    "errordialog",
)


@dataclass(frozen=True)
class TaskSelection:
    """Filters of tasks, all of which must hold; names of users, nuclei and shares match in upper or lower case."""

    tasks: Sequence[int] | None = None
    user: str | None = None
    statuses: Sequence[str] | None = None
    nucleus: str | None = None
    gshare: str | None = None
    open_only: bool = False


#: The condition of a selection, on the columns of the table of tasks.
SELECTED = """
    WHERE (CAST(:tasks AS bigint[]) IS NULL OR jeditaskid = ANY(:tasks))
      AND (CAST(:user AS text) IS NULL OR lower(username) = lower(:user))
      AND (CAST(:statuses AS text[]) IS NULL OR status = ANY(:statuses))
      AND (CAST(:nucleus AS text) IS NULL OR lower(nucleus) = lower(:nucleus))
      AND (CAST(:gshare AS text) IS NULL OR lower(gshare) = lower(:gshare))
      AND (NOT :open_only OR status IS NULL OR status <> ALL(CAST(:ended AS text[])))
    ORDER BY jeditaskid"""


def read_task_facts(
    connection: sa.Connection, catalogue: TableCatalogue, selection: TaskSelection
) -> dict[int, dict[str, Any]]:
    """Return the facts of tasks by their number, with the field names of an answer."""
    source = catalogue.source("jedi_tasks", COLUMNS)
    query = sa.text(f"SELECT {', '.join(COLUMNS)} FROM {source} AS t {SELECTED}")  # noqa: S608 - quoted names
    return {row[0]: _facts(row) for row in connection.execute(query, selected_values(selection)).all()}


def read_task_shares(
    connection: sa.Connection, catalogue: TableCatalogue, tasks: Sequence[int]
) -> dict[int, str | None]:
    """Return the global share of each of these tasks."""
    if not tasks:
        return {}
    source = catalogue.source("jedi_tasks", ("jeditaskid", "gshare"))
    query = sa.text(f"SELECT jeditaskid, gshare FROM {source} AS t WHERE jeditaskid = ANY(:tasks)")  # noqa: S608 - quoted names
    return {row[0]: row[1] for row in connection.execute(query, {"tasks": list(tasks)}).all()}


def read_task_numbers(connection: sa.Connection, catalogue: TableCatalogue, selection: TaskSelection) -> list[int]:
    """Return the numbers of tasks, in order: :func:`read_task_facts` without the facts."""
    source = catalogue.source("jedi_tasks", COLUMNS)
    query = sa.text(f"SELECT jeditaskid FROM {source} AS t {SELECTED}")  # noqa: S608 - quoted names
    return [int(number) for number in connection.scalars(query, selected_values(selection)).all()]


def selected_values(selection: TaskSelection) -> Mapping[str, object]:
    """Return the values of the parameters of :data:`SELECTED`."""
    return {
        "tasks": None if selection.tasks is None else list(selection.tasks),
        "user": selection.user,
        "statuses": None if selection.statuses is None else list(selection.statuses),
        "nucleus": selection.nucleus,
        "gshare": selection.gshare,
        "open_only": selection.open_only,
        "ended": list(NO_LONGER_BROKERED),
    }


class UserTasks(ResponseModel):
    """How many tasks a user has: in all, open, running, and pending."""

    user: str
    tasks: int
    open: int
    running: int
    pending: int


def read_tasks_by_user(connection: sa.Connection, catalogue: TableCatalogue) -> list[UserTasks]:
    """Return all users who have tasks, those with most open tasks first."""
    source = catalogue.source("jedi_tasks", ("username", "status"))
    query = (
        "SELECT username, count(*), count(*) FILTER (WHERE status <> ALL(CAST(:ended AS text[]))), "  # noqa: S608
        "count(*) FILTER (WHERE status = 'running'), count(*) FILTER (WHERE status = 'pending') "
        f"FROM {source} AS t WHERE username IS NOT NULL GROUP BY 1 ORDER BY 3 DESC, 1"
    )
    rows = connection.execute(sa.text(query), {"ended": list(NO_LONGER_BROKERED)})
    return [UserTasks(user=str(row[0]), tasks=row[1], open=row[2], running=row[3], pending=row[4]) for row in rows]


def read_user_names(connection: sa.Connection, catalogue: TableCatalogue) -> list[str]:
    """Return the names of all users who have tasks."""
    return read_task_values(connection, catalogue, "username")


def read_task_names(
    connection: sa.Connection, catalogue: TableCatalogue, text: str, most: int
) -> list[tuple[int, str]]:
    """Return numbers and names of the newest tasks whose name contains a text, in upper or lower case."""
    source = catalogue.source("jedi_tasks", ("jeditaskid", "taskname"))
    query = (
        f"SELECT jeditaskid, taskname FROM {source} AS t "  # noqa: S608 - quoted names
        "WHERE strpos(lower(taskname), lower(:text)) > 0 ORDER BY jeditaskid DESC LIMIT :most"
    )
    return [(int(row[0]), str(row[1])) for row in connection.execute(sa.text(query), {"text": text, "most": most})]


def read_task_values(connection: sa.Connection, catalogue: TableCatalogue, column: str) -> list[str]:
    """Return the distinct values of tasks in one of ``COLUMNS``."""
    source = catalogue.source("jedi_tasks", (column,))
    query = f'SELECT DISTINCT "{column}" FROM {source} AS t WHERE "{column}" IS NOT NULL ORDER BY 1'  # noqa: S608 - as above
    return [str(value) for value in connection.scalars(sa.text(query))]


def _facts(row: Sequence[Any]) -> dict[str, Any]:
    facts = dict(zip(COLUMNS, row, strict=True))
    created = facts.pop("creationdate")
    return {**facts, "created_at": created.replace(tzinfo=UTC) if isinstance(created, datetime) else None}


TABLES = ("jobsdefined4", "jobsactive4", "jobsarchived4")
_CODES = ("pilot", "exe", "ddm", "taskbuffer", "jobdispatcher", "brokerage", "sup")
_COLUMNS = (
    "pandaid", "jeditaskid", "jobstatus", "jobsubstatus", "attemptnr", "computingsite", "nucleus", "gshare",
    "currentpriority", "corecount", "minramcount", "resource_type", "modificationhost", "ninputdatafiles", "maxrss",
    "creationtime", "modificationtime", "starttime", "endtime", "transexitcode",
    *(f"{source}error{part}" for source in _CODES for part in ("code", "diag")),
)  # fmt: skip
_LOG_COLUMNS = ("pandaid", "modificationtime", "jobstatus", "computingsite")
_READ_ACTIONS = sa.text("""
    SELECT acted_at, action, rule, queue, old_status, new_status, value_s, limit_s FROM broker.job_actions
    WHERE pandaid = :pandaid ORDER BY acted_at, id""")


_WHERE = """
    WHERE (CAST(:jobs AS bigint[]) IS NULL OR pandaid = ANY(CAST(:jobs AS bigint[])))
      AND (CAST(:task AS bigint) IS NULL OR jeditaskid = :task)
      AND (CAST(:queue AS text) IS NULL OR lower(computingsite) = lower(:queue))
      AND (CAST(:state AS text) IS NULL OR jobstatus = :state)
      AND (CAST(:after AS bigint) IS NULL OR pandaid < :after)
      AND (CAST(:sources AS text[]) IS NULL OR EXISTS (
        SELECT FROM unnest(CAST(:sources AS text[]), CAST(:lows AS bigint[]), CAST(:highs AS bigint[]))
            AS asked (source, low, high)
        WHERE CASE asked.source ARMS END))"""
_ARM = "WHEN '{name}' THEN coalesce({column}, 0) BETWEEN asked.low AND asked.high AND {column} <> 0"
_EXIT_CODE = "CASE WHEN transexitcode ~ '^[0-9]{1,9}$' THEN transexitcode::bigint END"
_NUMBERS = {**{f"{source}error": f"{source}errorcode" for source in _CODES}, "transexit": f"({_EXIT_CODE})"}
_NONE = " AND ".join(f"coalesce({column}, 0) = 0" for column in _NUMBERS.values())
_ARMS = " ".join(
    [f"WHEN 'none' THEN jobstatus = 'failed' AND {_NONE}"]
    + [_ARM.format(name=name, column=column) for name, column in _NUMBERS.items()]
)
_OF_FILES = """
SELECT DISTINCT mine.fileid FROM {files} AS mine JOIN {datasets} AS dataset USING (jeditaskid, datasetid)
WHERE mine.pandaid = :job AND mine.type IN ('input', 'pseudo_input') AND dataset.masterid IS NULL"""
_LOG_FILE = "SELECT lfn, scope FROM {files} AS f WHERE pandaid = :job AND type = 'log' LIMIT 1"


MOST_LINES = 100_000
"""Maximum length of a list of tasks or jobs."""


class JobFilters(ResponseModel):
    """Filters of jobs; all must match.

    Attributes:
        task: only jobs of this task.
        queue: only jobs at this queue, case-insensitive.
        state: only jobs with this jobstatus.
        error: a code (``1099``), a code with its source (``pilot:1099``), a class (``memory``), or a default fault
            (``site``).
        limit: maximum number of jobs, newest first.
        after: only jobs with a lower number, for the next page.
    """

    task: int | None = None
    queue: str | None = None
    state: str | None = None
    error: str | None = None
    limit: int = Field(default=1000, ge=1, le=MOST_LINES)
    after: int | None = None


@dataclass(frozen=True)
class JobSelection:
    """The jobs to read: those that pass the filters, with their error as ranges of codes.

    Attributes:
        filters: conditions on the jobs; its ``error`` and ``limit`` are ignored.
        jobs: numbers of the jobs.
        errors: ranges of codes, any of which matches: prefix of the columns (``piloterror``), or ``none`` for failed
            jobs without any code; lowest and highest code.
        limit: maximum number of jobs, newest first.
    """

    filters: JobFilters = field(default_factory=JobFilters)
    jobs: Sequence[int] | None = None
    errors: Sequence[tuple[str, int, int]] | None = None
    limit: int = 1000


def read_jobs(connection: sa.Connection, catalogue: TableCatalogue, selection: JobSelection) -> list[dict[str, Any]]:
    """Return the rows of jobs, each with its ``table``, highest number first, with aware times."""
    columns, where = ", ".join(_COLUMNS), _WHERE.replace("ARMS", _ARMS)
    parts = [
        f"(SELECT {columns}, '{table}' AS \"table\" FROM {catalogue.source(table, _COLUMNS)} AS j {where} "  # noqa: S608
        "ORDER BY pandaid DESC LIMIT :limit)"
        for table in TABLES
    ]
    query = f"SELECT * FROM ({' UNION ALL '.join(parts)}) AS job ORDER BY pandaid DESC LIMIT :limit"  # noqa: S608
    errors = selection.errors
    values = {
        "jobs": None if selection.jobs is None else list(selection.jobs), "limit": selection.limit,
        **selection.filters.model_dump(exclude={"error", "limit"}),
        "sources": None if errors is None else [span[0] for span in errors],
        "lows": [span[1] for span in errors or ()], "highs": [span[2] for span in errors or ()],
    }  # fmt: skip
    return [aware(row._mapping) for row in connection.execute(sa.text(query), values)]


def read_state_counts(
    connection: sa.Connection, catalogue: TableCatalogue, tasks: Sequence[int]
) -> dict[int, dict[str, int]]:
    """Return how many jobs of each task are in which state; tasks without jobs are left out."""
    parts = [
        f"SELECT jeditaskid, jobstatus FROM {catalogue.source(table, ('pandaid', 'jeditaskid', 'jobstatus'))} AS j "  # noqa: S608
        "WHERE jeditaskid = ANY(:tasks)"
        for table in TABLES
    ]
    query = (
        f"SELECT jeditaskid, jobstatus, count(*) FROM ({' UNION ALL '.join(parts)}) AS job GROUP BY 1, 2 ORDER BY 1, 2"  # noqa: S608
    )
    counts: dict[int, dict[str, int]] = {}
    for task, status, jobs in connection.execute(sa.text(query), {"tasks": list(tasks)}):
        counts.setdefault(int(task), {})[str(status)] = int(jobs)
    return counts


def read_attempts(connection: sa.Connection, catalogue: TableCatalogue, pandaid: int, task: int) -> list[int]:
    """Return the jobs of the task that had one of the files of the job's primary input, including itself, in order."""
    files = catalogue.source("filestable4", ("pandaid", "jeditaskid", "datasetid", "fileid", "type"))
    datasets = catalogue.source("jedi_datasets", ("jeditaskid", "datasetid", "masterid"))
    mine = list(connection.scalars(sa.text(_OF_FILES.format(files=files, datasets=datasets)), {"job": pandaid}))
    if not mine:
        return [pandaid]
    jobs = " UNION ALL ".join(
        f"SELECT pandaid FROM {catalogue.source(table, ('pandaid', 'jeditaskid'))} AS j WHERE jeditaskid = :task"  # noqa: S608
        for table in TABLES
    )
    query = (
        f"SELECT DISTINCT job.pandaid FROM ({jobs}) AS job JOIN {files} AS file USING (pandaid) "  # noqa: S608
        "WHERE file.fileid = ANY(:files) AND file.type IN ('input', 'pseudo_input') ORDER BY 1"
    )
    return [int(number) for number in connection.scalars(sa.text(query), {"task": task, "files": mine})]


def read_log_file(connection: sa.Connection, catalogue: TableCatalogue, pandaid: int) -> tuple[str | None, str | None]:
    """Return name and scope of the log of a job; None if it has none."""
    files = catalogue.source("filestable4", ("pandaid", "lfn", "scope", "type"))
    row = connection.execute(sa.text(_LOG_FILE.format(files=files)), {"job": pandaid}).first()
    return (None, None) if row is None else (row.lfn, row.scope)


def read_job(connection: sa.Connection, catalogue: TableCatalogue, pandaid: int) -> dict[str, Any] | None:
    """Return the row of a job with its ``table`` and aware times; None if no table has it."""
    rows = read_jobs(connection, catalogue, JobSelection(jobs=[pandaid], limit=1))
    return rows[0] if rows else None


def read_statuses(connection: sa.Connection, catalogue: TableCatalogue, pandaid: int) -> list[dict[str, Any]]:
    """Return the states that a job went through, oldest first."""
    source = catalogue.source("jobs_statuslog", _LOG_COLUMNS)
    query = sa.text(
        f"SELECT modificationtime, jobstatus, computingsite FROM {source} AS l "  # noqa: S608 - quoted names
        "WHERE pandaid = :pandaid AND modificationtime IS NOT NULL ORDER BY 1"
    )
    return [aware(row._mapping) for row in connection.execute(query, {"pandaid": pandaid})]


def read_actions(connection: sa.Connection, pandaid: int) -> list[dict[str, Any]]:
    """Return the actions of timeouts and rebrokerage on a job, oldest first."""
    return [dict(row._mapping) for row in connection.execute(_READ_ACTIONS, {"pandaid": pandaid})]


_ENDED_COLUMNS = ("jeditaskid", "jobstatus", "endtime")
_FINISHED = """
    SELECT count(*), min(endtime) FROM {archived} AS j
    WHERE jeditaskid = ANY(:tasks) AND jobstatus = 'finished' AND endtime >= :since AND endtime <= :until"""


def finished_between(
    connection: sa.Connection, catalogue: TableCatalogue, tasks: Sequence[int], since: datetime, until: datetime
) -> tuple[int, datetime | None]:
    """Return how many jobs of some tasks finished in a span of time (aware), and when the first of them did."""
    query = sa.text(_FINISHED.format(archived=catalogue.source("jobsarchived4", _ENDED_COLUMNS)))
    span = {"since": naive(since), "until": naive(until)}
    jobs, first = connection.execute(query, {"tasks": list(tasks), **span}).one()
    return int(jobs), None if first is None else first.replace(tzinfo=UTC)


def aware(row: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the row with its instants in UTC, which PanDA's columns store without a zone."""
    return {
        name: value.replace(tzinfo=UTC) if isinstance(value, datetime) and value.tzinfo is None else value
        for name, value in row.items()
    }
