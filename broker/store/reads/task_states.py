"""Small questions about tasks: whose there are, and in what state one is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from broker.store.connection.tables import TableCatalogue

_COLUMNS = ("jeditaskid", "status", "nucleus", "vo", "currentpriority")
_SHARE_COLUMNS = ("status", "vo", "gshare", "workqueue_id")


@dataclass(frozen=True)
class TaskState:
    """What decides whether a task is brokered at all."""

    jeditaskid: int
    status: str | None
    nucleus: str | None
    vo: str | None


@dataclass(frozen=True)
class ShareOfTasks:
    """A global share and a work queue that some tasks have; None where they have none."""

    gshare: str | None
    workqueue_id: int | None


def distinct_shares(
    connection: sa.Connection, catalogue: TableCatalogue, vo: str, statuses: Sequence[str]
) -> list[ShareOfTasks]:
    """The shares, with work queues, of the tasks of a VO in these statuses."""
    source = catalogue.source("jedi_tasks", _SHARE_COLUMNS)
    query = (
        f"SELECT DISTINCT gshare, CAST(workqueue_id AS bigint) AS workqueue_id FROM {source} AS t "  # noqa: S608 - names of columns
        "WHERE status = ANY(:statuses) AND vo = :vo"
    )
    rows = connection.execute(sa.text(query), {"statuses": list(statuses), "vo": vo})
    return [ShareOfTasks(**row._mapping) for row in rows]


def distinct_vos(connection: sa.Connection, catalogue: TableCatalogue, statuses: Sequence[str]) -> list[str]:
    """The VOs of the tasks in these statuses, that of the highest priority first; tasks without a VO belong to none."""
    source = catalogue.source("jedi_tasks", _COLUMNS)
    query = (
        f"SELECT vo FROM {source} AS t WHERE status = ANY(:statuses) AND vo IS NOT NULL "  # noqa: S608 - names of columns
        "GROUP BY vo ORDER BY max(currentpriority) DESC NULLS LAST, vo"
    )
    return list(connection.execute(sa.text(query), {"statuses": list(statuses)}).scalars())


def states_of(connection: sa.Connection, catalogue: TableCatalogue, task_ids: Sequence[int]) -> dict[int, TaskState]:
    """The states of those of the tasks that exist."""
    source = catalogue.source("jedi_tasks", _COLUMNS)
    query = f"SELECT jeditaskid, status, nucleus, vo FROM {source} AS t WHERE jeditaskid = ANY(:ids)"  # noqa: S608 - names of columns
    rows = connection.execute(sa.text(query), {"ids": list(task_ids)})
    return {row.jeditaskid: TaskState(**row._mapping) for row in rows}
