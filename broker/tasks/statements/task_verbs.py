"""The verbs of tasks as rows: the state of a task, its files and jobs, and the record of who requested what.

Everything is done under the lock of the task's row, as by all agents that write to a task; see
``docs/adr/0043-verbs-of-tasks.md``. Times are naive UTC, except in ``broker.task_verbs``. Source: PanDA data model,
tasks, datasets and files; panda-server, ``task_complex_module`` (commands on tasks, retries).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import sqlalchemy as sa
from psycopg.errors import LockNotAvailable
from sqlalchemy import exc as sa_exc

from broker.domain.decisions import RETRY_AFTER
from broker.errors import NotFound, Refused
from broker.store.connection.tables import Names
from broker.store.writes.job_row_sql import HOST
from broker.tasks.model.verbs import WORKING, Verb

Ends = Literal["all", "waiting"]
LOCK_WAIT = "10s"
_LOCK = """
SELECT task.jeditaskid, task.taskname, task.status, task.oldstatus, task.username, task.prodsourcelabel, task.nucleus,
    task.splitrule, coalesce(task.taskpriority, 0) AS taskpriority,
    coalesce(task.currentpriority, 0) AS currentpriority,
    coalesce((SELECT bool_or(type = 'pseudo_input') FROM {panda}.jedi_datasets AS dataset
              WHERE dataset.jeditaskid = task.jeditaskid AND dataset.masterid IS NULL), false) AS is_pseudo,
    EXISTS (SELECT FROM broker.task_input_feeds AS feed
            JOIN {panda}.jedi_datasets AS dataset USING (jeditaskid, datasetid)
            WHERE feed.jeditaskid = task.jeditaskid AND NOT (feed.may_grow AND dataset.nfiles > 0)) AS waits_for_input
FROM {panda}.jedi_tasks AS task WHERE task.jeditaskid = :task FOR NO KEY UPDATE OF task"""
_MOVE = """
WITH moved AS (
    UPDATE {panda}.jedi_tasks AS task
    SET status = :status, oldstatus = :oldstatus, statechangetime = :now, modificationtime = :modified,
        errordialog = NULL
    WHERE jeditaskid = :task RETURNING task.jeditaskid, task.attemptnr
)
INSERT INTO {panda}.tasks_statuslog (jeditaskid, modificationtime, status, attemptnr, reason, modificationhost)
SELECT jeditaskid, :now, :status, attemptnr, left(:reason, 255), 'HOST' FROM moved""".replace("HOST", HOST)
_RECORD = """
INSERT INTO broker.task_verbs (jeditaskid, verb, asked_at, editor, reason, old_status, new_status, detail, ends,
    upto_pandaid, kept_queues, carried_out_at)
SELECT :task, :verb, :asked_at, :editor, :reason, :old_status, :new_status, CAST(:detail AS jsonb), :ends,
    greatest((SELECT max(pandaid) FROM {panda}.jobsdefined4 WHERE jeditaskid = :task),
             (SELECT max(pandaid) FROM {panda}.jobsactive4 WHERE jeditaskid = :task)),
    :kept, CASE WHEN CAST(:ends AS text) IS NULL THEN CAST(:asked_at AS timestamptz) END
RETURNING id, upto_pandaid"""
_OPEN = """
SELECT id, jeditaskid, verb, ends, upto_pandaid, kept_queues FROM broker.task_verbs
WHERE carried_out_at IS NULL AND (CAST(:tasks AS bigint[]) IS NULL OR jeditaskid = ANY(CAST(:tasks AS bigint[])))
ORDER BY id LIMIT :most"""
_CLOSE = "UPDATE broker.task_verbs SET carried_out_at = :now WHERE id = :id AND carried_out_at IS NULL"
# A job with a final report has run: the report is acted on. A running job is told to stop only once.
_JOBS_TO_END = """
SELECT * FROM (
    SELECT pandaid, 'jobsdefined4' AS in_table, jobstatus, modificationtime, computingsite
    FROM {panda}.jobsdefined4 WHERE jeditaskid = :task
    UNION ALL
    SELECT pandaid, 'jobsactive4', jobstatus, modificationtime, computingsite
    FROM {panda}.jobsactive4 AS job WHERE jeditaskid = :task
      AND CASE WHEN :ends = 'waiting' THEN jobstatus IN ('activated', 'throttled')
          ELSE (jobstatus <> 'running' OR commandtopilot IS DISTINCT FROM 'tobekilled')
            AND NOT EXISTS (SELECT FROM {panda}.job_output_report AS report WHERE report.pandaid = job.pandaid) END
) AS job
WHERE pandaid <= :upto AND NOT coalesce(computingsite = ANY(:kept), false) AND NOT pandaid = ANY(:skipped)
ORDER BY pandaid LIMIT :most"""
# Files that have an attempt left, or belong to a job, stay as they are; secondary files have no number of attempts.
_GIVE_AGAIN = """
WITH given AS (
    UPDATE {panda}.jedi_dataset_contents AS file
    SET maxattempt = least(coalesce(attemptnr, 0) + :attempts, 32767),
        maxfailure = CASE WHEN CAST(:failures AS integer) IS NULL AND maxfailure IS NULL THEN NULL
            ELSE least(coalesce(failedattempt, 0) + coalesce(CAST(:failures AS integer), :attempts), 32767) END,
        proc_status = 'ready'
    WHERE jeditaskid = :task AND status = 'ready' AND maxattempt IS NOT NULL AND coalesce(keeptrack, 1) = 1
      AND (maxattempt <= coalesce(attemptnr, 0) OR maxfailure <= coalesce(failedattempt, 0))
    RETURNING datasetid, CASE WHEN startevent IS NOT NULL AND endevent IS NOT NULL
        THEN greatest(endevent - startevent + 1, 1) ELSE greatest(coalesce(nevents, 0), 0) END AS events
), sums AS (
    SELECT datasetid, count(*) AS files, sum(events) AS events FROM given GROUP BY datasetid
), counted AS (
    UPDATE {panda}.jedi_datasets AS dataset
    SET nfilesused = greatest(coalesce(nfilesused, 0) - sums.files, 0),
        nfilesfailed = greatest(coalesce(nfilesfailed, 0) - sums.files, 0),
        neventsused = greatest(coalesce(neventsused, 0) - sums.events, 0), modificationtime = :now
    FROM sums WHERE dataset.jeditaskid = :task AND dataset.datasetid = sums.datasetid
)
SELECT coalesce(sum(files), 0)::bigint FROM sums"""
_RUN_AGAIN = """
WITH again AS (
    UPDATE {panda}.jedi_tasks AS task
    SET attemptnr = least(coalesce(attemptnr, 1) + 1, 32767), endtime = NULL, superstatus = 'running',
        frozentime = NULL
    WHERE jeditaskid = :task RETURNING jeditaskid, attemptnr
), outputs AS (
    UPDATE {panda}.jedi_datasets AS dataset SET status = 'defined', state = 'open', modificationtime = :now
    FROM again WHERE dataset.jeditaskid = again.jeditaskid AND dataset.type IN ('output', 'log', 'lib')
)
INSERT INTO {panda}.task_attempts (jeditaskid, attemptnr, starttime, startstatus)
SELECT jeditaskid, attemptnr, :now, CAST(:status AS text) FROM again"""
_SET_PARAMETERS = """
UPDATE {panda}.jedi_taskparams SET taskparams = (CAST(taskparams AS jsonb) || CAST(:given AS jsonb))::text
WHERE jeditaskid = :task"""
_READ_PARAMETERS = "SELECT taskparams FROM {panda}.jedi_taskparams WHERE jeditaskid = :task"
_LOOK_NOW = "UPDATE broker.task_input_feeds SET next_look_at = least(next_look_at, :aware) WHERE jeditaskid = :task"
# The matcher's copies of waiting jobs have the old priority; the agent activation makes them anew.
_SET_PRIORITY = """
WITH of_task AS (
    UPDATE {panda}.jedi_tasks SET currentpriority = :priority WHERE jeditaskid = :task
), defined AS (
    UPDATE {panda}.jobsdefined4 SET currentpriority = :priority
    WHERE jeditaskid = :task AND currentpriority IS DISTINCT FROM :priority RETURNING pandaid
), active AS (
    UPDATE {panda}.jobsactive4 SET currentpriority = :priority
    WHERE jeditaskid = :task AND jobstatus IN ('activated', 'throttled') AND currentpriority IS DISTINCT FROM :priority
    RETURNING pandaid
), forgotten AS (
    DELETE FROM broker.waiting_jobs USING active WHERE waiting_jobs.pandaid = active.pandaid
)
SELECT (SELECT count(*) FROM defined) + (SELECT count(*) FROM active)"""
# Being sent elsewhere by hand costs a file no attempt.
_GRANT_ATTEMPTS = """
UPDATE {panda}.jedi_dataset_contents SET maxattempt = least(maxattempt + :more, 32767)
WHERE jeditaskid = :task AND pandaid = ANY(:jobs) AND maxattempt IS NOT NULL"""
_READ_VERBS = """
SELECT asked_at, verb, editor, reason, old_status, new_status, detail FROM broker.task_verbs
WHERE jeditaskid = :task ORDER BY id"""


class TaskBusy(Refused):
    """Another transaction keeps the row of the task locked."""

    http_status = 409


@dataclass(frozen=True)
class LockedTask:
    """A task that no other process writes to until the end of the transaction.

    Attributes:
        is_pseudo: its primary input has no files.
        waits_for_input: one of its input datasets is not there yet.
    """

    jeditaskid: int
    taskname: str
    status: str
    oldstatus: str | None
    username: str | None
    prodsourcelabel: str | None
    nucleus: str | None
    splitrule: str | None
    taskpriority: int
    currentpriority: int
    is_pseudo: bool
    waits_for_input: bool


@dataclass(frozen=True)
class Command:
    """Jobs of a task to be ended; see ``broker.task_verbs``."""

    id: int
    jeditaskid: int
    verb: Verb
    ends: Ends
    upto_pandaid: int | None
    kept_queues: tuple[str, ...]


@dataclass(frozen=True)
class Record:
    """Who requested what, and what it changed."""

    verb: Verb
    editor: str
    reason: str
    old_status: str
    new_status: str
    detail: Mapping[str, Any]
    ends: Ends | None = None
    kept_queues: tuple[str, ...] = ()


def lock_task(connection: sa.Connection, names: Names, task: int) -> LockedTask:
    """The task, locked until the end of the transaction.

    Raises:
        NotFound: there is no task with that number.
        TaskBusy: it stayed locked by another process for too long.
    """
    connection.execute(sa.text(f"SET LOCAL lock_timeout = '{LOCK_WAIT}'"))
    try:
        row = connection.execute(sa.text(names.sql(_LOCK)), {"task": task}).first()
    except sa_exc.OperationalError as error:
        if isinstance(error.orig, LockNotAvailable):
            what = f"task {task} is being written to for more than {LOCK_WAIT}"
            raise TaskBusy(what, "jedi_tasks", "nothing was changed; try again") from error
        raise
    if row is None:
        raise NotFound(f"there is no task {task}", "jedi_tasks", "see broker tasks")
    return LockedTask(*row)


def move(
    connection: sa.Connection, names: Names, task: int, status: str, reason: str, now: datetime,
    oldstatus: str | None = None,
) -> None:  # fmt: skip
    """Give the task a status; one that waits for a nucleus is due at once."""
    modified = now - 2 * RETRY_AFTER if status == "assigning" else now
    values = {"task": task, "status": status, "oldstatus": oldstatus, "reason": reason, "now": now}
    connection.execute(sa.text(names.sql(_MOVE)), {**values, "modified": modified})


def record(connection: sa.Connection, names: Names, task: int, entry: Record, now: datetime) -> Command | None:
    """Record who requested what; returns the command to be carried out, None if no job is to be ended."""
    values = {
        "task": task, "verb": entry.verb, "asked_at": now.replace(tzinfo=UTC), "editor": entry.editor,
        "reason": entry.reason, "old_status": entry.old_status, "new_status": entry.new_status,
        "detail": json.dumps(dict(entry.detail)), "ends": entry.ends, "kept": list(entry.kept_queues),
    }  # fmt: skip
    row = connection.execute(sa.text(names.sql(_RECORD)), values).one()
    if entry.ends is None:
        return None
    return Command(row.id, task, entry.verb, entry.ends, row.upto_pandaid, entry.kept_queues)


def open_commands(
    connection: sa.Connection, names: Names, most: int, tasks: Sequence[int] | None = None
) -> list[Command]:
    """The commands still to be carried out, the oldest first."""
    values = {"tasks": None if tasks is None else list(tasks), "most": most}
    rows = connection.execute(sa.text(names.sql(_OPEN)), values)
    return [
        Command(row.id, row.jeditaskid, row.verb, row.ends, row.upto_pandaid, tuple(row.kept_queues)) for row in rows
    ]


def close_command(connection: sa.Connection, command: Command, now: datetime) -> None:
    """Mark a command as carried out; ``now``: naive UTC."""
    connection.execute(sa.text(_CLOSE), {"id": command.id, "now": now.replace(tzinfo=UTC)})


def jobs_to_end(
    connection: sa.Connection, names: Names, command: Command, skipped: Sequence[int], most: int
) -> Sequence[Any]:
    """The next jobs for a command to end: pandaid, in_table, jobstatus, modificationtime and computingsite."""
    if command.upto_pandaid is None:
        return ()
    values = {
        "task": command.jeditaskid, "ends": command.ends, "upto": command.upto_pandaid,
        "kept": list(command.kept_queues), "skipped": list(skipped), "most": most,
    }  # fmt: skip
    return connection.execute(sa.text(names.sql(_JOBS_TO_END)), values).all()


def grant_attempts(connection: sa.Connection, names: Names, task: int, jobs: Sequence[int], more: int) -> None:
    """Give the files of jobs more attempts."""
    connection.execute(sa.text(names.sql(_GRANT_ATTEMPTS)), {"task": task, "jobs": list(jobs), "more": more})


def give_again(
    connection: sa.Connection, names: Names, task: int, attempts: int, failures: int | None, now: datetime
) -> int:
    """Give new attempts to files that have none left; returns their number."""
    values = {"task": task, "attempts": attempts, "failures": failures, "now": now}
    return int(connection.execute(sa.text(names.sql(_GIVE_AGAIN)), values).scalar_one())


def run_again(connection: sa.Connection, names: Names, task: int, status: str, now: datetime) -> None:
    """Start another attempt of a task that has ended: its output is open again."""
    connection.execute(sa.text(names.sql(_RUN_AGAIN)), {"task": task, "status": status, "now": now})


def read_parameters(connection: sa.Connection, names: Names, task: int) -> dict[str, Any]:
    """The parameters that the task was submitted with; empty if they are not known."""
    text = connection.scalar(sa.text(names.sql(_READ_PARAMETERS)), {"task": task})
    parameters = json.loads(text) if text else {}
    return parameters if isinstance(parameters, dict) else {}


def set_parameters(
    connection: sa.Connection, names: Names, task: int, given: Mapping[str, Any], columns: Mapping[str, Any]
) -> None:
    """Change parameters of a task, and columns of its row."""
    connection.execute(sa.text(names.sql(_SET_PARAMETERS)), {"task": task, "given": json.dumps(dict(given))})
    set_columns(connection, names, task, columns)


def set_columns(connection: sa.Connection, names: Names, task: int, columns: Mapping[str, Any]) -> None:
    """Change columns of the task's row; the names are those of our own tables of parameters."""
    if not columns:
        return
    listed = ", ".join(f"{name} = :{name}" for name in columns)
    statement = f"UPDATE {{panda}}.jedi_tasks SET {listed} WHERE jeditaskid = :task"  # noqa: S608 - names of columns
    connection.execute(sa.text(names.sql(statement)), {**columns, "task": task})


def look_now(connection: sa.Connection, task: int, now: datetime) -> int:
    """Have the input that the task waits for checked in the next cycle; returns the number of datasets."""
    return connection.execute(sa.text(_LOOK_NOW), {"task": task, "aware": now.replace(tzinfo=UTC)}).rowcount


def set_priority(connection: sa.Connection, names: Names, task: int, priority: int) -> int:
    """Give the task and its waiting jobs a priority; returns how many jobs changed."""
    return int(connection.execute(sa.text(names.sql(_SET_PRIORITY)), {"task": task, "priority": priority}).scalar_one())


def working_status(task: LockedTask) -> str:
    """The status in which a task goes on: the one before it waited, else the one in which its work begins."""
    if task.oldstatus in (*WORKING, "assigning"):
        return str(task.oldstatus)
    return first_status(task)


def first_status(task: LockedTask) -> str:
    """The status in which the work of a task begins."""
    if task.waits_for_input:
        return "registered"
    has_place = task.nucleus is not None or task.prodsourcelabel in ("user", "panda")
    return "ready" if has_place else "assigning"


def read_verbs(connection: sa.Connection, task: int) -> Sequence[Any]:
    """The verbs that were requested for a task, the oldest first."""
    return connection.execute(sa.text(_READ_VERBS), {"task": task}).all()
