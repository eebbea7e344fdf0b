"""The one place that ends jobs: the decisions of timeouts and rebrokerage become rows, in one transaction.

Everything is conditional on what the decision saw. A job that has moved on, was heard from since, or is being written
to is skipped, counted, and judged again in the next cycle; so the same decision can be carried out twice, and by two
agents at once.

For jobs that PanDA ended on request (:func:`record`), only the history and the memory of the brokerages are written.
PanDA's own tables are not touched: it has written them.

Source: PanDA server, killing of jobs and verdicts of the watcher.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from broker.domain.instants import naive
from broker.lifecycle.model.jobs import FAILURES, KILLS, TO_REASSIGN, Action, ErrorColumn, JobTable, Kill
from broker.lifecycle.statements import action_sql as statements
from broker.store.connection.database import Database
from broker.store.connection.tables import TableCatalogue, quoted

TABLES: tuple[JobTable, ...] = ("jobsdefined4", "jobsactive4")
ARCHIVE = "jobsarchived4"
_DIAG_CHARACTERS = 250


@dataclass(frozen=True)
class JobAction:
    """A job to be ended, and the state in which it was seen.

    Attributes:
        pandaid: the job.
        table: where it was.
        old_status: its jobstatus there.
        modificationtime: its time of last change, naive UTC; None when it had none.
        queue: its computingsite.
        jeditaskid: its task.
        rule: what fired; kept with the action and in the diagnostics.
        action: failed; reassigned: closed, to be brokered again; killed: ended, or told to stop if it is running.
        code: kill code of :data:`broker.lifecycle.model.jobs.KILLS`, or for ``failed`` the error code.
        value_s: the age that was measured, in seconds; None where the rule measures something else.
        limit_s: the limit that it exceeds, in seconds.
        error: for ``failed``, the column of the error code.
        detail: what else was measured, for the history.
    """

    pandaid: int
    table: JobTable
    old_status: str
    modificationtime: datetime | None
    queue: str | None
    jeditaskid: int | None
    rule: str
    action: Action
    code: int
    value_s: float | None = None
    limit_s: float | None = None
    error: ErrorColumn = "taskbuffer"
    detail: Mapping[str, Any] | None = None

    @property
    def kill(self) -> Kill | None:
        """What its kill code does; None for a failure."""
        return None if self.action == "failed" else KILLS.get(self.code, Kill(TO_REASSIGN, 100, "ended"))

    @property
    def keeps_row(self) -> bool:
        """Whether the job is told to stop and keeps its row: it is running, and its pilot will report the end."""
        return self.action != "failed" and self.old_status == "running"

    @property
    def diag(self) -> str:
        """The text for the job's diagnostics."""
        kill = self.kill
        text = kill.diag if kill is not None else FAILURES.get((self.error, self.code), "timed out")
        if self.value_s is not None and self.limit_s is not None:
            return f"{text}: rule {self.rule}, {self.value_s:.0f} s, limit {self.limit_s:.0f} s"
        return f"{text}: rule {self.rule}"


@dataclass(frozen=True)
class ActionContext:
    """Who acts, and on which database.

    Attributes:
        catalogue: the tables of the database.
        agent: name of the agent.
        run_id: its row in ``agent_runs``.
        now: written as time of change (aware).
        standalone: the jobs were made by this broker, which counts the events of the files it gives out;
            alongside PanDA that counter is not touched.
    """

    catalogue: TableCatalogue
    agent: str
    run_id: int | None
    now: datetime
    standalone: bool


@dataclass(frozen=True)
class ActOutcome:
    """The outcome of ending jobs.

    Attributes:
        acted: jobs that were ended or told to stop, ascending.
        skipped: jobs that had changed since they were seen, ascending.
        files: input files released.
        files_lost: those of them without an attempt left.
    """

    acted: tuple[int, ...] = ()
    skipped: tuple[int, ...] = ()
    files: int = 0
    files_lost: int = 0


def act(connection: sa.Connection, moves: Sequence[JobAction], by: ActionContext) -> ActOutcome:
    """End the jobs that are still as they were seen. The caller fences the transaction and commits it.

    Each job is archived with its new state, its codes and times, its output marked as failed and its input released
    with the attempt counted; a running job that is killed is only told to stop. Datasets, tasks, the status log, the
    memory of the brokerage and ``broker.job_actions`` follow.
    """
    if not moves:
        return ActOutcome((), ())
    batch = MoveBatch(connection, by)
    batch.stage(staged(moves))
    batch.take(sorted({move.jeditaskid for move in moves if move.jeditaskid is not None}))
    return end_staged(batch, moves, by)


def end_staged(batch: MoveBatch, moves: Sequence[JobAction], by: ActionContext) -> ActOutcome:
    """End the jobs that were taken."""
    acted, files, lost = _end_taken(batch, by)
    if batch.run(statements.STAGE_UNMERGED):
        batch.take(sorted({move.jeditaskid for move in moves if move.jeditaskid is not None}))
        _, more, more_lost = _end_taken(batch, by)
        files, lost = files + more, lost + more_lost
    skipped = {move.pandaid for move in moves}.difference(acted)
    return ActOutcome(acted, tuple(sorted(skipped)), files, lost)


def _end_taken(batch: MoveBatch, by: ActionContext) -> tuple[tuple[int, ...], int, int]:
    """Archive the taken jobs with their files; returns the jobs, and how many input files were released and lost."""
    for table in TABLES:
        batch.run(archive_statement(by.catalogue, table))
    batch.run(statements.NOTE_USED)
    batch.run(statements.END_RECORDS)
    for stamped in statements.STAMPED:
        if "modificationtime" in by.catalogue.columns_present(stamped):
            batch.run(statements.STAMP.replace("{table}", stamped))
    batch.run(statements.END_OUTPUTS, events_are_counted=by.standalone)
    ((files, lost),) = batch.run(statements.GIVE_BACK, events_are_counted=by.standalone)
    batch.run(statements.RECORD, run_id=by.run_id, agent=by.agent)
    if by.standalone:
        batch.run(statements.TO_RULES)
    return tuple(pandaid for (pandaid,) in batch.run(statements.TAKEN)), files, lost


class MoveBatch:
    """The statements of one batch of jobs that end, in the caller's transaction."""

    def __init__(self, connection: sa.Connection, by: ActionContext) -> None:
        self._connection = Database.raw(connection)
        self._names = by.catalogue.names
        self._now = naive(by.now)

    def stage(self, rows: Iterable[tuple[object, ...]], copied: str = statements.COPY) -> None:
        """Stage jobs: rows in the order of the COPY."""
        for statement in statements.STAGE.split(";"):
            self._connection.execute(statement.encode())
        with self._connection.cursor() as cursor, cursor.copy(copied.encode()) as copy:
            for row in rows:
                copy.write_row(row)
        self._connection.execute("ANALYZE staged_moves")

    def take(self, tasks: Sequence[int]) -> None:
        """Take the staged jobs that are unchanged since they were read, of those ``tasks`` that can be locked."""
        self.run(statements.LOCK_TASKS, tasks=list(tasks))
        for table in TABLES:
            self.run(statements.TAKE.replace("{source}", table))
            self.run(statements.TELL.replace("{source}", table))
        self.run("ANALYZE staged_moves")

    def run(self, statement: str, **values: object) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows; an empty list where it has none."""
        text = self._names.sql(statement)
        parameters = {"now": self._now, **values} if "%(" in statement else None
        cursor = self._connection.execute(text.encode(), parameters)
        return cursor.fetchall() if cursor.description is not None else []


def staged(moves: Iterable[JobAction]) -> Iterator[tuple[object, ...]]:
    """The rows of jobs, each once, in the order of the COPY."""
    for move in {one.pandaid: one for one in moves}.values():
        yield tuple(_row(move))


def _row(move: JobAction) -> Iterator[object]:
    kill = move.kill
    yield from (move.pandaid, move.table, move.old_status, move.modificationtime, move.queue, move.jeditaskid)
    yield "failed" if kill is None else kill.jobstatus
    yield None if kill is None else kill.substatus
    yield kill is not None
    yield move.keeps_row
    yield move.error if kill is None else "taskbuffer"
    yield move.code if kill is None else kill.taskbuffer_code
    yield move.diag[:_DIAG_CHARACTERS]
    yield from (move.rule, move.action, move.code, move.value_s, move.limit_s)
    yield None if move.detail is None else json.dumps(dict(move.detail))


def archive_statement(catalogue: TableCatalogue, table: JobTable) -> str:
    """The statement that moves the rows of ``table``; alongside PanDA the tables have columns unknown to us."""
    columns = sorted(catalogue.columns_present(table) & catalogue.columns_present(ARCHIVE))
    becomes = {name: value.replace("{now}", "%(now)s::timestamp") for name, value in statements.BECOMES.items()}
    values = [f"{becomes.get(name, 'job.' + quoted(name))} AS {quoted(name)}" for name in columns]
    return (
        statements.ARCHIVE.replace("{source}", table)
        .replace("{values}", ", ".join(values))
        .replace("{columns}", ", ".join(quoted(name) for name in columns))
    )


_ACTION = """
INSERT INTO broker.job_actions (agent_run, agent, pandaid, jeditaskid, queue, old_status, new_status, rule, action,
    code, value_s, limit_s, detail, acted_at)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"""
_REMEMBER = """
INSERT INTO broker.rebrokered_from AS known (jeditaskid, datasetid, queue, rebrokered_at)
SELECT DISTINCT one.jeditaskid, file.datasetid, one.queue, %(now)s
FROM unnest(%(pandaids)s::bigint[], %(tasks)s::bigint[], %(queues)s::text[]) AS one (pandaid, jeditaskid, queue)
JOIN {files} AS file ON file.pandaid = one.pandaid
JOIN {datasets} AS dataset
  ON dataset.jeditaskid = one.jeditaskid AND dataset.datasetid = file.datasetid AND dataset.masterid IS NULL
WHERE file.type IN ('input', 'pseudo_input')
ON CONFLICT (jeditaskid, datasetid, queue)
    DO UPDATE SET rebrokered_at = greatest(known.rebrokered_at, excluded.rebrokered_at)"""


def record(connection: sa.Connection, moves: Sequence[JobAction], by: ActionContext) -> None:
    """Record what PanDA did. The caller fences the transaction and commits it."""
    raw, now = Database.raw(connection), by.now.astimezone(UTC)
    with raw.cursor() as cursor:
        cursor.executemany(_ACTION, [_history_row(move, by) for move in moves])
    freed = [job for job in moves if not job.keeps_row and job.queue is not None and job.jeditaskid is not None]
    query = _REMEMBER.format(
        files=by.catalogue.source("filestable4", ("pandaid", "datasetid", "type")),
        datasets=by.catalogue.source("jedi_datasets", ("jeditaskid", "datasetid", "masterid")),
    )
    values: dict[str, Any] = {
        "now": now,
        "pandaids": [job.pandaid for job in freed],
        "tasks": [job.jeditaskid for job in freed],
        "queues": [job.queue for job in freed],
    }
    raw.execute(query.encode(), values)


def _history_row(move: JobAction, by: ActionContext) -> tuple[object, ...]:
    detail = {**(move.detail or {}), "through": "panda_api"}
    new_status = move.old_status if move.keeps_row else "closed"
    return (
        by.run_id, by.agent, move.pandaid, move.jeditaskid, move.queue, move.old_status, new_status, move.rule,
        move.action, move.code, move.value_s, move.limit_s, json.dumps(detail), by.now.astimezone(UTC),
    )  # fmt: skip
