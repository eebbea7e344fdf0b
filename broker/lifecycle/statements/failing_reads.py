"""Reads where jobs fail, and the jobs that wait there."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from broker.lifecycle.model.failing_places import WaitingThere
from broker.lifecycle.model.jobs import JEDI, NEVER_MOVED, WaitingJob
from broker.snapshot.raw import RawSource, Rows
from broker.snapshot.sources import queue_health, task_failures
from broker.snapshot.sources.queue_health import MAX_AGE_S, QUEUE_HEALTH, LearnedQueues
from broker.snapshot.sources.task_failures import TASK_FAILURES, FailingTasks, TaskFailuresSource
from broker.store.connection.tables import TableCatalogue
from broker.store.summaries.worker_node_summaries import refreshed_for

OUTCOMES = "outcomes"
_NEVER_STARTED = ("defined", "assigned", "activated")
_COLUMNS = (
    "pandaid", "jobstatus", "computingsite", "gshare", "jeditaskid", "jobdefinitionid", "modificationtime",
    "creationtime", "starttime", "prodsourcelabel", "lockedby", "relocationflag",
)  # fmt: skip
# Jobs of a task that names a queue would only come back there.
_READ_WAITING = """
    SELECT j.pandaid, '{table}', j.jobstatus, j.computingsite, j.gshare, j.jeditaskid, j.jobdefinitionid,
        j.modificationtime, j.creationtime, j.starttime, j.prodsourcelabel
    FROM {source} AS j LEFT JOIN {tasks} AS t ON t.jeditaskid = j.jeditaskid
    WHERE j.computingsite = ANY(:queues) AND j.jobstatus = ANY(:statuses) AND j.lockedby = :jedi
      AND coalesce(j.relocationflag, 0) <> :never AND coalesce(t.site, '') = ''
    ORDER BY j.pandaid"""
_READ_HEALTH = "SELECT {columns} FROM broker.queue_health WHERE node = '' AND state = 'excluded' ORDER BY queue, kind"


def is_known(connection: sa.Connection, now: datetime) -> bool:
    """Whether what the agent ``outcomes`` has learned is recent enough to act on."""
    newest = refreshed_for(connection, OUTCOMES)
    return newest is not None and (now - newest).total_seconds() <= MAX_AGE_S


def read_closed(connection: sa.Connection) -> LearnedQueues:
    """The queues that are closed."""
    columns = (*queue_health.STATE_COLUMNS, "probes_there")
    selected = [*queue_health.STATE_COLUMNS, "0 AS probes_there"]
    selected[columns.index("tasks")] = "cardinality(tasks) AS tasks"
    rows = connection.execute(sa.text(_READ_HEALTH.format(columns=", ".join(selected))))
    return queue_health.learned_of(RawSource(QUEUE_HEALTH, {QUEUE_HEALTH: Rows(columns, tuple(map(tuple, rows)))}))


def read_failing_tasks(connection: sa.Connection) -> FailingTasks:
    """Tasks with several failed jobs at one queue, with the recent ends of all their jobs."""
    (read,) = TaskFailuresSource.reads
    rows = Rows(read.columns_stored, tuple(map(tuple, connection.execute(sa.text(read.statement)))))
    return task_failures.failing_tasks_of(RawSource(TASK_FAILURES, {TASK_FAILURES: rows}))


def read_waiting(connection: sa.Connection, catalogue: TableCatalogue, queues: Sequence[str]) -> list[WaitingThere]:
    """The jobs that wait at these queues, were never started, and may run elsewhere."""
    waiting: list[WaitingThere] = []
    tasks = catalogue.source("jedi_tasks", ("jeditaskid", "site"))
    values = {"queues": list(queues), "statuses": list(_NEVER_STARTED), "jedi": JEDI, "never": NEVER_MOVED}
    for table in ("jobsdefined4", "jobsactive4"):
        statement = _READ_WAITING.format(table=table, source=catalogue.source(table, _COLUMNS), tasks=tasks)
        waiting += [
            WaitingThere(WaitingJob(*row[:-1]), row[-1]) for row in connection.execute(sa.text(statement), values)
        ]
    return waiting
