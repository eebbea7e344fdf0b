"""The write-back of a job brokerage: jobs, their files, dataset counters and task states, in one transaction.

Every write is conditional on the state that the decision saw. A task that another process has changed or keeps locked
is skipped with all its jobs; a job with a file that has changed since it was read is skipped as a whole. Skipped work
is counted and waits for the next cycle. Source: PanDA data model, tasks, datasets and files, jobs.

When the tasks of a batch are locked, short locks of other agents are waited for, longer ones are not.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

import numpy as np
import psycopg
from psycopg import sql

from broker.domain.arrays import Bools, Ints
from broker.domain.decisions import pending_minutes
from broker.domain.instants import naive
from broker.domain.placements import Placement
from broker.store.connection.array_transfer import copy_integers, integers_of
from broker.store.connection.errors import DatabaseUnavailable
from broker.store.connection.tables import Names
from broker.store.writes import job_row_sql as statements

LOCK_WAIT_S = 2.0
"""Seconds to wait for an agent that is writing a task's jobs. A holder of task locks waits for nothing else, so this
cannot deadlock."""

_SKIP = " SKIP LOCKED"
_SHORT_WAIT = "SELECT set_config('lock_timeout', %s, true)"


def lock_tasks(
    connection: psycopg.Connection[Any],
    statement: str,
    values: Mapping[str, Any],
    tasks: Sequence[int],
    wait_s: float = LOCK_WAIT_S,
) -> list[tuple[Any, ...]]:
    """Lock and return the rows of tasks that are unchanged since the decisions; locked ones may be left out.

    Args:
        connection: in the writing transaction.
        statement: selects rows with the task id first, and ends with ``FOR NO KEY UPDATE``.
        values: parameters of the statement.
        tasks: the tasks to lock.
        wait_s: seconds to wait for each task that another process has locked.
    """
    rows = connection.execute(statement + _SKIP, values).fetchall()
    if len(rows) == len(set(tasks)):
        return rows
    limit = str(_scalar(connection, "SELECT current_setting('lock_timeout')"))
    connection.execute("SAVEPOINT waiting_for_tasks")
    try:
        connection.execute(_SHORT_WAIT, [f"{max(1, int(wait_s * 1000))}ms"])
        rows = connection.execute(statement, values).fetchall()
        connection.execute(_SHORT_WAIT, [limit])
    except psycopg.errors.LockNotAvailable:
        connection.execute("ROLLBACK TO SAVEPOINT waiting_for_tasks")
        rows = connection.execute(statement + _SKIP, values).fetchall()
    connection.execute("RELEASE SAVEPOINT waiting_for_tasks")
    return rows


def _scalar(connection: psycopg.Connection[Any], statement: str) -> object:
    row = connection.execute(statement).fetchone()
    return None if row is None else row[0]


WORKING_STATUSES = ("ready", "running", "scouting", "topreprocess", "preprocessing")
"""Statuses of a task in which jobs are created for it."""

HOLDABLE_STATUSES = (
    "ready",
    "running",
    "merging",
    "scouting",
    "defined",
    "topreprocess",
    "preprocessing",
    "registered",
    "prepared",
    "rerefine",
)
"""Statuses of a task that may be put on hold when no queue takes it."""


LOCK_FRESH_S = 600.0
"""Seconds for which a lock that PanDA's agents wrote into a task row counts."""

CLAIM_LIMIT_S = 60.0
"""Time limit for claiming the files of one batch. It takes a few seconds; a slower statement will not end by itself."""

_ROUNDS = 5


class ContendedFilesError(DatabaseUnavailable):
    """Files keep changing while they are being claimed; nothing was kept."""


class ClaimOverTimeError(DatabaseUnavailable):
    """The server did not claim the files of a batch in time; nothing was kept."""


@dataclass(frozen=True)
class WriteBack:
    """What a write-back did.

    Attributes:
        kept: for each job of the placement, whether it was written.
        tasks_skipped: tasks that had changed or were locked.
        skipped_changed: jobs left out because a file had changed.
        files: files claimed.
        waiting: tasks put on hold.
    """

    kept: Bools
    tasks_skipped: frozenset[int]
    skipped_changed: int
    files: int
    waiting: int

    @property
    def counts(self) -> dict[str, int]:
        """The counts for the row of the agent run."""
        return {
            "jobs": int(self.kept.sum()),
            "files": self.files,
            "tasks_skipped": len(self.tasks_skipped),
            "skipped_changed": self.skipped_changed,
            "tasks_waiting": self.waiting,
        }


class AssignmentWriter:
    """Writes placements in the transaction of one connection; the caller fences it and commits."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        names: Names,
        now: datetime,
        claim_limit_s: float = CLAIM_LIMIT_S,
        lock_wait_s: float = LOCK_WAIT_S,
        *,
        each_cycle: bool = False,
    ) -> None:
        """Write through ``connection`` into the tables of ``names``; all rows get the time ``now`` (aware).

        With ``each_cycle`` the placement also covers waiting tasks; nothing is written about one that continues to wait
        for the same reason.
        """
        self._lock_wait_s = lock_wait_s
        self._connection = connection
        self._names = names
        self._claim_limit_s, self._each_cycle = claim_limit_s, each_cycle
        self._now = naive(now)

    def write(self, placement: Placement) -> WriteBack:
        """Write the part of ``placement`` that is still valid. Call it once per transaction.

        Raises:
            ContendedFilesError: files kept changing while they were claimed.
            ClaimOverTimeError: the server took too long for the files.
        """
        skipped = self._lock_tasks(placement)
        selected = ~np.isin(placement.jobs.jeditaskid, np.array(sorted(skipped), dtype=np.int64))
        files, skipped_changed = 0, 0
        if selected.any():
            self._stage(placement, selected)
            with self._time_limit():
                changed, files = self._claim_files(placement, selected)
            selected[changed] = False
            skipped_changed = len(changed)
            self._run(statements.RECORD_SHARED_FILES)
            self._insert_jobs(placement)
        waiting = self._move_tasks(placement, selected, skipped)
        return WriteBack(selected, frozenset(skipped), skipped_changed, files, waiting)

    def reactivate(self, *, for_users: bool = False) -> int:
        """Restore the status of pending tasks that have waited long enough, and return how many there were.

        It applies to tasks of users with ``for_users``, else to tasks that have a nucleus.
        """
        statuses, minutes = list(WORKING_STATUSES), pending_minutes(for_users=for_users)
        return self._run(
            statements.REACTIVATE, statuses=statuses, pending_minutes=minutes, for_users=for_users
        ).rowcount

    def _lock_tasks(self, placement: Placement) -> set[int]:
        seen = {task.jeditaskid: task for task in placement.tasks}
        values = {"now": self._now, "tasks": list(seen), "statuses": list(WORKING_STATUSES)}
        values |= {"lock_fresh_s": LOCK_FRESH_S, "waiting": self._each_cycle}
        statement = self._names.sql(statements.LOCK_TASKS)
        rows = lock_tasks(self._connection, statement, values, list(seen), self._lock_wait_s)
        locked = {task for task, _, nucleus in rows if nucleus == seen[task].nucleus}
        return set(seen) - locked

    def _stage(self, placement: Placement, selected: Bools) -> None:
        for statement in statements.STAGE.split(";"):
            self._run(statement)
        jobs, files = placement.jobs, placement.files
        of_selected = selected[files.job]
        pandaids, row_ids = self._reserve(int(selected.sum()), int(of_selected.sum()))
        columns = {f.name: getattr(jobs, f.name)[selected] for f in fields(jobs) if f.name != "chunk"}
        numbered = {"job": np.flatnonzero(selected), **columns, "pandaid": pandaids}
        copy_integers(self._connection, sql.Identifier("staged_jobs"), numbered)
        columns = {f.name: getattr(files, f.name)[of_selected] for f in fields(files)}
        numbered = {**columns, "pandaid": pandaids[(np.cumsum(selected) - 1)[columns["job"]]], "row_id": row_ids}
        copy_integers(self._connection, sql.Identifier("staged_files"), numbered)
        self._run("ANALYZE staged_jobs (job, jeditaskid)")
        self._run("ANALYZE staged_files (job, jeditaskid, datasetid, fileid, claimed)")

    def _reserve(self, jobs: int, files: int) -> tuple[Ints, Ints]:
        """Reserve numbers for ``jobs`` jobs, and for ``files`` files recorded with them."""
        reserved = self._run(statements.RESERVE_NUMBERS, jobs=jobs, files=files).fetchone() or (None, None)
        pandaids, row_ids = (integers_of([] if data is None else [data]) for data in reserved)
        return pandaids, row_ids

    def _claim_files(self, placement: Placement, selected: Bools) -> tuple[Ints, int]:
        """Claim the unchanged files of the staged jobs; return the jobs left out and the number of files claimed."""
        dropped: list[int] = []
        wanted = placement.files.claimed & selected[placement.files.job]
        for _ in range(_ROUNDS):
            self._run("SAVEPOINT claiming")
            (claimed,) = self._one(statements.CLAIM_FILES)
            if claimed == int(wanted.sum()):
                self._run("RELEASE SAVEPOINT claiming")
                return np.array(dropped, dtype=np.int64), claimed
            changed = [job for (job,) in self._run(statements.JOBS_WITH_CHANGED_FILES).fetchall()]
            self._run("ROLLBACK TO SAVEPOINT claiming")
            self._run(statements.DROP_JOBS, jobs=changed)
            self._run(statements.DROP_FILES, jobs=changed)
            dropped += changed
            wanted &= ~np.isin(placement.files.job, changed)
        raise ContendedFilesError(
            f"files kept changing while they were claimed ({len(dropped)} jobs so far)",
            self._names.table("jedi_dataset_contents"),
            "nothing was written; the next cycle tries again; see which other program writes these rows",
        )

    @contextlib.contextmanager
    def _time_limit(self) -> Iterator[None]:
        """Limit each statement to the time for claims, or to the current limit if that is lower."""
        (before,) = self._one("SELECT setting FROM pg_settings WHERE name = 'statement_timeout'")
        limit_ms = min(int(self._claim_limit_s * 1000), int(before) or sys.maxsize)
        self._limit_statements(limit_ms)
        try:
            yield
        except psycopg.errors.QueryCanceled as error:
            raise ClaimOverTimeError(
                f"the files of a batch were not claimed within {limit_ms / 1000:g} s",
                self._names.table("jedi_dataset_contents"),
                "nothing was written; ANALYZE that table, or lower chunks_of_a_batch in config/agents.yaml",
            ) from error
        self._limit_statements(int(before))

    def _limit_statements(self, limit_ms: int) -> None:
        self._connection.execute("SELECT set_config('statement_timeout', %s, true)", (f"{limit_ms}ms",))

    def _insert_jobs(self, placement: Placement) -> None:
        queues, types = list(placement.queue_names), list(placement.resource_types)
        platforms = [_storable(platform) for platform in placement.platforms]
        self._run(statements.JOIN_BY_HASH)
        self._run(statements.INSERT_JOBS, queues=queues, resource_types=types, platforms=platforms)

    def _move_tasks(self, placement: Placement, selected: Bools, skipped: set[int]) -> int:
        with_jobs = {int(task) for task in np.unique(placement.jobs.jeditaskid[selected])}
        if with_jobs:
            scouting = [task.jeditaskid for task in placement.tasks if task.scout]
            self._run(statements.TASKS_WITH_JOBS, tasks=sorted(with_jobs), scouting=scouting)
        waiting = {
            task: reason
            for task, reason in sorted(placement.waiting.items())
            if task not in with_jobs and task not in skipped
        }
        if not waiting:
            return 0
        reasons = [_storable(reason) for reason in waiting.values()]
        if self._each_cycle:
            self._run(
                statements.TASKS_THAT_WAIT_FOR_ANOTHER_REASON,
                tasks=list(waiting),
                reasons=reasons,
                throttled=sorted(placement.throttled),
            )
        result = self._run(
            statements.TASKS_THAT_WAIT,
            tasks=list(waiting),
            reasons=reasons,
            throttled=sorted(placement.throttled),
            holdable=list(HOLDABLE_STATUSES),
        )
        return result.rowcount

    def _one(self, statement: str) -> tuple[Any, ...]:
        row = self._run(statement).fetchone()
        return row if row is not None else ()

    def _run(self, statement: str, **values: int | float | Sequence[int] | Sequence[str]) -> psycopg.Cursor[Any]:
        text = self._names.sql(statement)
        parameters: Mapping[str, Any] = {"now": self._now, **values}
        return self._connection.execute(text, parameters if "%(" in statement else None)


def _storable(text: str) -> str:
    """The text with the characters replaced that no database can hold (NUL, halves of surrogate pairs)."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
