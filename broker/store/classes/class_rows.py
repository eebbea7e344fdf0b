"""Rows of PanDA's ``metrics`` and ``task_evaluation``: written for one instant, cleaned up, and read for display.

A row without a new value keeps its old time; its readers decide how long it is valid.
Source: PanDA analysis brokerage, storage of classes; PanDA data model, metrics and task_evaluation.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from broker.domain.classification import TASK_METRIC, MetricRow, TaskRow
from broker.domain.instants import naive
from broker.store.connection.tables import Names, TableCatalogue

#: Evaluations of ended tasks are removed when they are older than this.
ENDED_TASK_RETENTION = timedelta(minutes=120)
SHOWN_METRICS = ("gshare_preference", "analy_site_eval", "analy_pmerge_jobs_wait_time", "analy_user_eval")

# PanDA's table has a unique key that ours lacks: existing rows are updated, however many there are, and others added.
_WRITE_METRICS = """
WITH given AS MATERIALIZED (
    SELECT * FROM unnest(CAST(:sites AS text[]), CAST(:shares AS text[]), CAST(:metrics AS text[]),
                         CAST(:documents AS text[])) AS g (computingsite, gshare, metric, document)
), updated AS (
    UPDATE {panda}.metrics AS m SET value_json = CAST(g.document AS json), timestamp = :now
    FROM given AS g
    WHERE m.metric = g.metric AND coalesce(m.computingsite, 'NULL') = g.computingsite
      AND coalesce(m.gshare, 'NULL') = g.gshare
    RETURNING g.computingsite, g.gshare, g.metric
)
INSERT INTO {panda}.metrics (computingsite, gshare, metric, value_json, timestamp)
SELECT g.computingsite, g.gshare, g.metric, CAST(g.document AS json), :now FROM given AS g
WHERE NOT EXISTS (
    SELECT FROM updated AS u
    WHERE u.computingsite = g.computingsite AND u.gshare = g.gshare AND u.metric = g.metric)
ON CONFLICT DO NOTHING
"""
_INSERT_TASK_CLASSES = """
INSERT INTO {panda}.task_evaluation (jeditaskid, metric, value_json, timestamp)
SELECT g.jeditaskid, g.metric, g.document, :now
FROM unnest(CAST(:ids AS bigint[]), CAST(:metrics AS text[]), CAST(:documents AS text[]))
     AS g (jeditaskid, metric, document)
ON CONFLICT (jeditaskid, metric) DO UPDATE SET value_json = excluded.value_json, timestamp = excluded.timestamp
"""
_DELETE_CLASSES_OF_ENDED_TASKS = """
DELETE FROM {panda}.task_evaluation AS e USING {panda}.jedi_tasks AS t
WHERE t.jeditaskid = e.jeditaskid AND e.metric = :metric AND e.timestamp < :oldest
  AND t.status IN ('done', 'finished', 'failed', 'broken', 'aborted', 'exhausted')
"""


def write_metrics(connection: sa.Connection, names: Names, rows: Iterable[MetricRow], now: datetime) -> None:
    """Write rows of ``metrics`` for the instant ``now``; rows with the same keys are overwritten."""
    last = {(row.computingsite, row.gshare, row.metric): _text(row.document) for row in rows}
    if not last:
        return
    values = {
        "sites": [key[0] for key in last],
        "shares": [key[1] for key in last],
        "metrics": [key[2] for key in last],
        "documents": list(last.values()),
        "now": naive(now),
    }
    connection.execute(sa.text(names.sql(_WRITE_METRICS)), values)


def write_tasks(connection: sa.Connection, names: Names, rows: Sequence[TaskRow], now: datetime) -> None:
    """Write rows of ``task_evaluation`` for the instant ``now``; rows with the same keys are overwritten."""
    if not rows:
        return
    values = {
        "ids": [row.jeditaskid for row in rows],
        "metrics": [row.metric for row in rows],
        "documents": [_text(row.document) for row in rows],
        "now": naive(now),
    }
    connection.execute(sa.text(names.sql(_INSERT_TASK_CLASSES)), values)


def forget_ended_tasks(connection: sa.Connection, names: Names, now: datetime) -> int:
    """Remove old evaluations of ended tasks, and return their number."""
    values = {"metric": TASK_METRIC, "oldest": naive(now - ENDED_TASK_RETENTION)}
    return connection.execute(sa.text(names.sql(_DELETE_CLASSES_OF_ENDED_TASKS)), values).rowcount


def read_metric_rows(connection: sa.Connection, catalogue: TableCatalogue) -> list[dict[str, Any]]:
    """The rows of all metrics that classes are computed from, with their documents as text."""
    columns = ("metric", "computingsite", "gshare", "value_json", "timestamp")
    query = (
        "SELECT metric, computingsite, gshare, value_json::text AS value_json, timestamp "  # noqa: S608 - quoted names
        f"FROM {catalogue.source('metrics', columns)} AS m WHERE metric = ANY(:metrics) ORDER BY 1, 2, 3, 5"
    )
    return [dict(row._mapping) for row in connection.execute(sa.text(query), {"metrics": list(SHOWN_METRICS)})]


def read_task_rows(connection: sa.Connection, catalogue: TableCatalogue) -> list[dict[str, Any]]:
    """The evaluations of tasks, with their documents as text."""
    columns = ("jeditaskid", "metric", "value_json", "timestamp")
    query = (
        "SELECT jeditaskid, value_json::text AS value_json, timestamp "  # noqa: S608 - quoted names
        f"FROM {catalogue.source('task_evaluation', columns)} AS e WHERE metric = :metric ORDER BY jeditaskid"
    )
    return [dict(row._mapping) for row in connection.execute(sa.text(query), {"metric": TASK_METRIC})]


def _text(document: Any) -> str:
    return json.dumps(document, allow_nan=False)
