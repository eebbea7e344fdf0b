"""Selects tasks by their last decision; lists with such a filter count and order the result.

The brokerage that decided last counts. A task is represented by its chunk that has waited longest; if none waits, by
the first chunk that the brokerage's last cycle decided about.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from broker.history.statements.task_facts import COLUMNS, SELECTED, TaskSelection, selected_values
from broker.store.connection.tables import TableCatalogue

# A window over the chunks of a task at a brokerage, in index order, so that nothing is joined with itself.
_READ = """
    WITH selected AS (SELECT jeditaskid, status FROM {tasks} AS t {selected}),
    listed AS (
        SELECT jeditaskid, brokerage, datasetid, ramcount, outcome, reason, main_reason, waiting_since, last_seen_at,
               max(last_seen_at) OVER own AS last_at,
               min(waiting_since) FILTER (WHERE outcome <> 'brokered') OVER own AS first_waiting
        FROM broker.chunk_states WHERE last_seen_at > :seen_since
        WINDOW own AS (PARTITION BY jeditaskid, brokerage)
    ), shown AS (
        SELECT DISTINCT ON (jeditaskid) jeditaskid, brokerage, last_at, first_waiting AS waiting_since, outcome, reason,
               CASE WHEN outcome <> 'brokered' THEN main_reason END AS main_reason
        FROM listed WHERE outcome <> 'brokered' OR last_seen_at = last_at
        ORDER BY jeditaskid, last_at DESC, brokerage COLLATE "C", outcome = 'brokered',
            CASE WHEN outcome <> 'brokered' THEN coalesce(listed.waiting_since, last_seen_at) END,
            coalesce(datasetid, -1), coalesce(ramcount, -1)
    )
    SELECT jeditaskid, waiting_since FROM selected LEFT JOIN shown USING (jeditaskid)
    WHERE (CAST(:outcome AS text) IS NULL OR outcome = :outcome OR status = :outcome)
      AND (CAST(:reason AS text) IS NULL OR :reason IN (reason, main_reason))
      AND (CAST(:since AS timestamptz) IS NULL OR last_at >= :since)
      AND (CAST(:queue AS text) IS NULL OR EXISTS (
        SELECT FROM broker.chunk_states AS placed, jsonb_object_keys(placed.assigned) AS place
        WHERE placed.jeditaskid = shown.jeditaskid AND placed.brokerage = shown.brokerage
          AND placed.last_seen_at > :seen_since AND lower(split_part(place, '/', 1)) = lower(:queue)))
    ORDER BY jeditaskid"""


@dataclass(frozen=True)
class DecisionFilters:
    """Filters of the last decision; None: any.

    Attributes:
        outcome: its outcome, or the status of the task.
        reason: its reason or main reason.
        queue: queue at which jobs were placed, case-insensitive.
        since: decided at this instant (aware) or later.
    """

    outcome: str | None = None
    reason: str | None = None
    queue: str | None = None
    since: datetime | None = None


def filtered_tasks(
    connection: sa.Connection,
    catalogue: TableCatalogue,
    selection: TaskSelection,
    filters: DecisionFilters,
    seen_since: datetime,
) -> dict[int, datetime | None]:
    """Return since when each matching task waits; None if it does not.

    Args:
        connection: connection to read from.
        catalogue: PanDA's tables.
        selection: selection of tasks.
        filters: filters of their last decision.
        seen_since: decisions that no cycle confirmed after this instant (aware) are ignored.
    """
    query = _READ.format(tasks=catalogue.source("jedi_tasks", COLUMNS), selected=SELECTED)
    values = {**selected_values(selection), **vars(filters), "seen_since": seen_since}
    return {int(task): since for task, since in connection.execute(sa.text(query), values)}
