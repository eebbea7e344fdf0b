"""Tasks whose last decision is of some kind: what a list with such a filter counts and orders.

The brokerage that decided last counts. Its chunk that has waited longest speaks for the task; where none waits, the
first that its last cycle decided about.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from broker.history.statements.task_facts import COLUMNS, SELECTED, TaskSelection, selected_values
from broker.store.connection.tables import TableCatalogue

# A window over the chunks of a task at a brokerage, in the order of an index, so that nothing is joined with itself.
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
    """Of the last decision; None: any.

    Attributes:
        outcome: of it, or the status of the task.
        reason: of it, or its main reason.
        queue: at which jobs were placed, whatever its case.
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
    """Since when each of these tasks waits; None where it does not.

    Args:
        connection: to read from.
        catalogue: of PanDA's tables.
        selection: of tasks.
        filters: of their last decision.
        seen_since: decisions that no cycle after it (aware) came to do not count.
    """
    query = _READ.format(tasks=catalogue.source("jedi_tasks", COLUMNS), selected=SELECTED)
    values = {**selected_values(selection), **vars(filters), "seen_since": seen_since}
    return {int(task): since for task, since in connection.execute(sa.text(query), values)}
