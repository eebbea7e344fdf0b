"""The amount of work waiting at a brokerage in a share, and how much of it precedes a chunk."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from broker.store.connection.tables import TableCatalogue

_COUNT = """
    WITH waiting AS (
        SELECT DISTINCT s.jeditaskid, coalesce(s.datasetid, 0) AS datasetid, coalesce(s.ramcount, 0) AS ramcount,
               coalesce(t.currentpriority, 0) AS priority
        FROM broker.chunk_states AS s JOIN {tasks} AS t ON t.jeditaskid = s.jeditaskid
        WHERE s.last_seen_at > :seen_since AND s.waiting_since IS NOT NULL AND s.outcome <> 'brokered'
          AND s.brokerage = :brokerage AND t.gshare IS NOT DISTINCT FROM CAST(:share AS text)
    )
    SELECT count(*) FILTER (WHERE priority > :priority OR (priority = :priority
               AND (jeditaskid, datasetid, ramcount) < (:jeditaskid, :datasetid, :ramcount))) AS ahead,
           count(*) FILTER (WHERE (jeditaskid, datasetid, ramcount) <> (:jeditaskid, :datasetid, :ramcount)) AS others
    FROM waiting"""


@dataclass(frozen=True)
class WorkInShare:
    """The work whose position in its share is requested.

    Attributes:
        brokerage: the brokerage at which it waits.
        share: the global share of its task; None if it has none.
        priority: priority of its task.
        jeditaskid: its task.
        datasetid: dataset of its input; 0 for a task.
        ramcount: ramcount of the chunk; 0 if it has none.
    """

    brokerage: str
    share: str | None
    priority: int
    jeditaskid: int
    datasetid: int
    ramcount: float


def count_waiting(
    connection: sa.Connection, catalogue: TableCatalogue, work: WorkInShare, seen_since: datetime
) -> tuple[int, int]:
    """Count the chunks seen by a cycle after an instant (aware): those that precede some work, and all others."""
    query = _COUNT.format(tasks=catalogue.source("jedi_tasks", ("jeditaskid", "gshare", "currentpriority")))
    row = connection.execute(sa.text(query), {**vars(work), "seen_since": seen_since}).one()
    return row.ahead, row.others
