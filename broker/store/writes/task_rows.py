"""The write-back of the task brokerage: nuclei, destinations of output, and waiting tasks, in one transaction.

Every write is conditional on the state that the decision saw. A task that is no longer in ``assigning``, has been tried
in the meantime, has another nucleus or other storage tokens, or is being written to, is skipped with all its datasets
and counted. Source: PanDA production brokerage, write-back; PanDA data model, tasks and datasets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg

from broker.domain.instants import naive
from broker.domain.placements import TaskPlacement
from broker.store.connection.tables import Names
from broker.store.reads.task_reads import ASSIGNING, OUTPUT_TYPES, due_before
from broker.store.writes.job_row_sql import HOST
from broker.store.writes.job_rows import LOCK_FRESH_S, LOCK_WAIT_S, lock_tasks

#: How far the modification time of an assigned task is set back, so that jobs may be created for it at once.
READY_MINUTES_AGO = 60

# A task that another process keeps locked is left for the next cycle; an old lock of PanDA's agents no longer counts.
LOCK_TASKS = """
SELECT task.jeditaskid
FROM {panda}.jedi_tasks AS task
JOIN unnest(%(tasks)s::bigint[], %(seen)s::text[]) AS given (jeditaskid, nucleus) USING (jeditaskid)
WHERE task.status = %(assigning)s AND task.nucleus IS NOT DISTINCT FROM given.nucleus
  AND (%(each_cycle)s OR task.modificationtime IS NULL OR task.modificationtime < %(due)s)
  AND (task.lockedby IS NULL OR task.lockedtime IS NULL
       OR task.lockedtime < %(now)s - make_interval(secs => %(lock_fresh_s)s))
ORDER BY task.jeditaskid
FOR NO KEY UPDATE OF task"""

# Tasks with an output that has changed since it was read.
LOCK_OUTPUTS = """
WITH here AS (
    SELECT dataset.jeditaskid, dataset.datasetid, dataset.storagetoken
    FROM {panda}.jedi_datasets AS dataset
    WHERE dataset.jeditaskid = ANY(%(tasks)s) AND dataset.type = ANY(%(types)s)
    ORDER BY dataset.jeditaskid, dataset.datasetid
    FOR NO KEY UPDATE OF dataset
)
SELECT DISTINCT given.jeditaskid
FROM unnest(%(owners)s::bigint[], %(datasets)s::bigint[], %(seen)s::text[]) AS given (jeditaskid, datasetid, token)
LEFT JOIN here ON here.jeditaskid = given.jeditaskid AND here.datasetid = given.datasetid
    AND here.storagetoken IS NOT DISTINCT FROM given.token
WHERE here.datasetid IS NULL AND given.jeditaskid = ANY(%(tasks)s)
"""

PLACE_OUTPUTS = """
UPDATE {panda}.jedi_datasets AS dataset
SET storagetoken = given.token, destination = 'nucleus:' || given.nucleus, modificationtime = %(now)s
FROM unnest(%(owners)s::bigint[], %(datasets)s::bigint[], %(tokens)s::text[], %(nuclei)s::text[])
     AS given (jeditaskid, datasetid, token, nucleus)
WHERE dataset.jeditaskid = given.jeditaskid AND dataset.datasetid = given.datasetid
"""

ASSIGN_TASKS = """
WITH assigned AS (
    UPDATE {panda}.jedi_tasks AS task
    SET nucleus = given.nucleus, status = 'ready', superstatus = 'ready', oldstatus = NULL, errordialog = NULL,
        statechangetime = %(now)s, modificationtime = %(now)s - make_interval(mins => %(ready_minutes)s),
        queuedtime = CASE WHEN given.has_input THEN coalesce(task.queuedtime, %(now)s) END,
        activatedtime = CASE WHEN given.has_input AND task.queuedtime IS NULL
            THEN coalesce(task.activatedtime, %(now)s) ELSE task.activatedtime END
    FROM (
        SELECT one.jeditaskid, one.nucleus, EXISTS (
            SELECT FROM {panda}.jedi_datasets AS dataset
            WHERE dataset.jeditaskid = one.jeditaskid AND dataset.type IN ('input', 'pseudo_input')
              AND dataset.masterid IS NULL AND dataset.nfilestobeused > 0
              AND dataset.nfilestobeused > dataset.nfilesused
        ) AS has_input
        FROM unnest(%(tasks)s::bigint[], %(nuclei)s::text[]) AS one (jeditaskid, nucleus)
    ) AS given
    WHERE task.jeditaskid = given.jeditaskid
    RETURNING task.jeditaskid, task.attemptnr, given.nucleus
)
INSERT INTO {panda}.tasks_statuslog (jeditaskid, modificationtime, status, attemptnr, reason, modificationhost)
SELECT jeditaskid, %(now)s, 'ready', attemptnr, 'nucleus ' || nucleus, 'HOST' FROM assigned
""".replace("HOST", HOST)

# Production systems that submit through DEFT keep the status of the task there as well.
DEFT_IS_THERE = "SELECT to_regclass('doma_deft.t_task') IS NOT NULL"
TELL_DEFT = "UPDATE doma_deft.t_task SET status = 'ready', timestamp = %(now)s WHERE taskid = ANY(%(tasks)s)"

# The task stays in assigning; ``frozentime`` is kept, or set if it was empty. If tasks are tried in each cycle, nothing
# is written while the reason stays the same.
KEEP_WAITING = """
UPDATE {panda}.jedi_tasks AS task
SET modificationtime = %(now)s, frozentime = coalesce(task.frozentime, %(now)s), errordialog = left(given.reason, 510)
FROM unnest(%(tasks)s::bigint[], %(reasons)s::text[]) AS given (jeditaskid, reason)
WHERE task.jeditaskid = given.jeditaskid
  AND (NOT %(each_cycle)s OR task.frozentime IS NULL OR task.errordialog IS DISTINCT FROM left(given.reason, 510))
"""


@dataclass(frozen=True)
class NucleiWritten:
    """What a write-back did.

    Attributes:
        tasks_skipped: tasks that had changed or were locked.
        assigned: tasks that got a nucleus.
        outputs: datasets that got a place.
        waiting: tasks that stay in assigning.
    """

    tasks_skipped: frozenset[int]
    assigned: int
    outputs: int
    waiting: int

    @property
    def kept(self) -> None:
        """None, because the rows are not jobs."""

    @property
    def counts(self) -> dict[str, int]:
        """The counts for the row of the agent run."""
        return {
            "tasks_assigned": self.assigned,
            "outputs_placed": self.outputs,
            "tasks_waiting": self.waiting,
            "tasks_skipped": len(self.tasks_skipped),
        }


class NucleusWriter:
    """Writes nuclei in the transaction of one connection; the caller fences it and commits."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        names: Names,
        now: datetime,
        lock_wait_s: float = LOCK_WAIT_S,
        *,
        each_cycle: bool = False,
    ) -> None:
        """Write through ``connection`` into the tables of ``names``; all rows get the time ``now`` (aware).

        With ``each_cycle`` tasks are tried in every cycle, even if they were tried recently.
        """
        self._lock_wait_s, self._each_cycle = lock_wait_s, each_cycle
        self._connection, self._names = connection, names
        self._now, self._due = naive(now), due_before(now)

    def write(self, placement: TaskPlacement) -> NucleiWritten:
        """Write the part of ``placement`` that is still valid."""
        seen = {entry.jeditaskid: entry.seen for entry in placement.assigned}
        seen |= {entry.jeditaskid: entry.seen for entry in placement.waiting}
        locked = self._lock(seen)
        changed = self._changed_outputs(placement, locked)
        valid_tasks = locked - changed
        outputs = self._place_outputs(placement, valid_tasks)
        assigned = [entry for entry in placement.assigned if entry.jeditaskid in valid_tasks]
        if assigned:
            self._run(
                ASSIGN_TASKS,
                tasks=[entry.jeditaskid for entry in assigned],
                nuclei=[entry.nucleus for entry in assigned],
                ready_minutes=READY_MINUTES_AGO,
            )
            if self._run(DEFT_IS_THERE).fetchone() == (True,):
                self._run(TELL_DEFT, tasks=[entry.jeditaskid for entry in assigned])
        waiting = [entry for entry in placement.waiting if entry.jeditaskid in valid_tasks]
        if waiting:
            tasks, reasons = [entry.jeditaskid for entry in waiting], [entry.reason for entry in waiting]
            self._run(KEEP_WAITING, tasks=tasks, reasons=reasons, each_cycle=self._each_cycle)
        return NucleiWritten(frozenset(set(seen) - valid_tasks), len(assigned), outputs, len(waiting))

    def _lock(self, seen: Mapping[int, str | None]) -> set[int]:
        values = {"now": self._now, "tasks": list(seen), "seen": list(seen.values()), "assigning": ASSIGNING}
        values |= {"due": self._due, "lock_fresh_s": LOCK_FRESH_S, "each_cycle": self._each_cycle}
        statement = self._names.sql(LOCK_TASKS)
        rows = lock_tasks(self._connection, statement, values, list(seen), self._lock_wait_s)
        return {task for (task,) in rows}

    def _changed_outputs(self, placement: TaskPlacement, locked: set[int]) -> set[int]:
        rows = [(entry.jeditaskid, place) for entry in placement.assigned for place in entry.outputs]
        if not rows or not locked:
            return set()
        changed = self._run(
            LOCK_OUTPUTS,
            tasks=sorted(locked),
            types=list(OUTPUT_TYPES),
            owners=[task for task, _ in rows],
            datasets=[place.datasetid for _, place in rows],
            seen=[place.seen for _, place in rows],
        )
        return {task for (task,) in changed.fetchall()}

    def _place_outputs(self, placement: TaskPlacement, valid_tasks: set[int]) -> int:
        rows = [
            (entry, place) for entry in placement.assigned for place in entry.outputs if entry.jeditaskid in valid_tasks
        ]
        if not rows:
            return 0
        return self._run(
            PLACE_OUTPUTS,
            owners=[entry.jeditaskid for entry, _ in rows],
            datasets=[place.datasetid for _, place in rows],
            tokens=[place.storagetoken for _, place in rows],
            nuclei=[entry.nucleus for entry, _ in rows],
        ).rowcount

    def _run(self, statement: str, **values: int | float | str | datetime | Sequence[Any]) -> psycopg.Cursor[Any]:
        return self._connection.execute(self._names.sql(statement), {"now": self._now, **values})
