"""Why a task that was asked for by hand is not among those that the task brokerage looks at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from broker.domain.reason import Reason
from broker.domain.retry import RETRY_AFTER
from broker.store.connection.tables import TableCatalogue
from broker.store.reads.task_reads import ASSIGNING, CLOUD, due_before, stored_time

NO_SUCH_TASK, TRIED_LATELY, NOTHING_TO_ASSIGN = "no_such_task", "tried_lately", "nothing_to_assign"
NOT_OF_THIS_BROKERAGE = "vo_or_label_of_another_brokerage"

#: A status and a cloud of the task stand at the end of the code.
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

_COLUMNS = ("jeditaskid", "status", "cloud", "nucleus", "modificationtime")


@dataclass(frozen=True)
class Skipped:
    """A task with the reason, and when it is looked at again if that is known (naive UTC, as the table has it)."""

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
) -> list[Skipped]:
    """The reasons, in the order of ``task_ids``.

    Args:
        connection: to the database.
        catalogue: its tables.
        task_ids: the tasks, none of which was read by :func:`broker.store.reads.task_reads.read_assigning`.
        now: the instant of the cycle (aware).
        due_only: only tasks that were not tried lately are read.
    """
    source = catalogue.source("jedi_tasks", _COLUMNS)
    query = f"SELECT * FROM {source} AS t WHERE jeditaskid = ANY(:ids)"  # noqa: S608 - names of columns
    rows = {row.jeditaskid: row for row in connection.execute(sa.text(query), {"ids": list(task_ids)})}
    due = due_before(now) if due_only else stored_time(now)
    return [_skipped(task, rows.get(task), due) for task in task_ids]


def _skipped(task: int, row: sa.Row[tuple[object, ...]] | None, due: datetime) -> Skipped:
    if row is None:
        return Skipped(task, NO_SUCH_TASK)
    if row.status != ASSIGNING:
        return Skipped(task, f"task_status_{row.status}")
    if row.cloud != CLOUD:
        return Skipped(task, f"task_cloud_{row.cloud}")
    if row.modificationtime is not None and row.modificationtime >= due:
        return Skipped(task, TRIED_LATELY, row.modificationtime + RETRY_AFTER)
    return Skipped(task, NOTHING_TO_ASSIGN if row.nucleus is not None else NOT_OF_THIS_BROKERAGE)
