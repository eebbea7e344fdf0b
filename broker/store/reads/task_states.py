"""Small queries about tasks: their shares and VOs, their states, and why they were skipped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from broker.domain.decisions import RETRY_AFTER, Reason
from broker.domain.instants import naive
from broker.store.connection.panda_columns import PandaColumns
from broker.store.connection.tables import TableCatalogue
from broker.store.reads.task_reads import ASSIGNING, CLOUD, due_before

STATE_ROWS = PandaColumns("jedi_tasks", ("jeditaskid", "status", "nucleus", "vo", "currentpriority"))
SHARE_ROWS = PandaColumns("jedi_tasks", ("status", "vo", "gshare", "workqueue_id"))


@dataclass(frozen=True)
class TaskState:
    """The columns that determine whether a task is brokered at all."""

    status: str | None
    nucleus: str | None
    vo: str | None


@dataclass(frozen=True)
class ShareOfTasks:
    """A global share and a work queue of tasks; None if they have none."""

    gshare: str | None
    workqueue_id: int | None


def distinct_shares(
    connection: sa.Connection, catalogue: TableCatalogue, vo: str, statuses: Sequence[str]
) -> list[ShareOfTasks]:
    """The distinct shares and work queues of the tasks of a VO in these statuses."""
    source = catalogue.needed(SHARE_ROWS)
    query = (
        f"SELECT DISTINCT gshare, CAST(workqueue_id AS bigint) AS workqueue_id FROM {source} AS t "  # noqa: S608 - names of columns
        "WHERE status = ANY(:statuses) AND vo = :vo"
    )
    rows = connection.execute(sa.text(query), {"statuses": list(statuses), "vo": vo})
    return [ShareOfTasks(**row._mapping) for row in rows]


def distinct_vos(connection: sa.Connection, catalogue: TableCatalogue, statuses: Sequence[str]) -> list[str]:
    """The VOs of the tasks in these statuses, ordered by highest priority; tasks without a VO are ignored."""
    source = catalogue.needed(STATE_ROWS)
    query = (
        f"SELECT vo FROM {source} AS t WHERE status = ANY(:statuses) AND vo IS NOT NULL "  # noqa: S608 - names of columns
        "GROUP BY vo ORDER BY max(currentpriority) DESC NULLS LAST, vo"
    )
    return list(connection.execute(sa.text(query), {"statuses": list(statuses)}).scalars())


def states_of(connection: sa.Connection, catalogue: TableCatalogue, task_ids: Sequence[int]) -> dict[int, TaskState]:
    """The states of the existing tasks among ``task_ids``, by task."""
    source = catalogue.needed(STATE_ROWS)
    query = f"SELECT jeditaskid, status, nucleus, vo FROM {source} AS t WHERE jeditaskid = ANY(:ids)"  # noqa: S608 - names of columns
    rows = connection.execute(sa.text(query), {"ids": list(task_ids)})
    return {row.jeditaskid: TaskState(row.status, row.nucleus, row.vo) for row in rows}


NO_SUCH_TASK, TRIED_LATELY, NOTHING_TO_ASSIGN = "no_such_task", "tried_lately", "nothing_to_assign"
NOT_OF_THIS_BROKERAGE = "vo_or_label_of_another_brokerage"

#: STATUS and CLOUD at the end of a code stand for those of the task.
SKIP_REASONS = (
    Reason(
        code=NO_SUCH_TASK,
        title="there is no task of this number",
        who="you",
        cure="Correct the number of the task; `broker tasks` lists those that there are.",
    ),
    Reason(
        code="task_status_STATUS",
        title="the task is in a status in which it gets no nucleus",
        who="wait",
        cure=f"Wait: only tasks in status `{ASSIGNING}` get a nucleus.",
    ),
    Reason(
        code="task_cloud_CLOUD",
        title="the task is in a cloud in which tasks get no nucleus",
        who="ask",
        cure=f"Only tasks of the cloud `{CLOUD}` get a nucleus; operators correct the cloud of the task.",
    ),
    Reason(
        code=TRIED_LATELY,
        title="the task was tried a short while ago",
        who="wait",
        cure="Wait: `broker explain TASK` says when it is tried again.",
    ),
    Reason(
        code=NOTHING_TO_ASSIGN,
        title="the task has its nucleus already, and nothing is left to assign",
        who="wait",
        cure="Nothing is wrong: its jobs are brokered for that nucleus.",
    ),
    Reason(
        code=NOT_OF_THIS_BROKERAGE,
        title="the profile gives the task's VO and label to no brokerage of tasks, or to another one",
        who="ask",
        cure="Operators add the VO or the label to a brokerage of the profile.",
    ),
)

SKIPPED_ROWS = PandaColumns("jedi_tasks", ("jeditaskid", "status", "cloud", "nucleus", "modificationtime"))


@dataclass(frozen=True)
class SkippedTask:
    """A task with the reason, and when it is tried again if that is known (naive UTC, as in the table)."""

    jeditaskid: int
    reason: str
    until: datetime | None = None


def why_skipped(
    connection: sa.Connection,
    catalogue: TableCatalogue,
    task_ids: Sequence[int],
    now: datetime,
    *,
    due_only: bool = True,
) -> list[SkippedTask]:
    """Why tasks were skipped, in the order of ``task_ids``.

    Args:
        connection: a connection to the database.
        catalogue: its tables.
        task_ids: the tasks, none of which was read by :func:`broker.store.reads.task_reads.read_assigning`.
        now: the instant of the cycle (aware).
        due_only: whether the cycle reads only tasks that were not tried recently.
    """
    source = catalogue.needed(SKIPPED_ROWS)
    query = f"SELECT * FROM {source} AS t WHERE jeditaskid = ANY(:ids)"  # noqa: S608 - names of columns
    rows = {row.jeditaskid: row for row in connection.execute(sa.text(query), {"ids": list(task_ids)})}
    due = due_before(now) if due_only else naive(now)
    return [_skipped(task, rows.get(task), due) for task in task_ids]


def _skipped(task: int, row: sa.Row[tuple[object, ...]] | None, due: datetime) -> SkippedTask:
    if row is None:
        return SkippedTask(task, NO_SUCH_TASK)
    if row.status != ASSIGNING:
        return SkippedTask(task, f"task_status_{row.status}")
    if row.cloud != CLOUD:
        return SkippedTask(task, f"task_cloud_{row.cloud}")
    if row.modificationtime is not None and row.modificationtime >= due:
        return SkippedTask(task, TRIED_LATELY, row.modificationtime + RETRY_AFTER)
    return SkippedTask(task, NOTHING_TO_ASSIGN if row.nucleus is not None else NOT_OF_THIS_BROKERAGE)
