"""Jobs that PanDA was asked to end and has: the history, and the memory of the brokerages.

PanDA's own tables are not touched: it has written them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC
from typing import Any

import sqlalchemy as sa

from broker.lifecycle.statements.actions import ActionContext, JobAction
from broker.store.connection.database import Database

_ACTION = """
INSERT INTO broker.job_actions (agent_run, agent, pandaid, jeditaskid, queue, old_status, new_status, rule, action,
    code, value_s, limit_s, detail, acted_at)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"""
_REMEMBER = """
INSERT INTO broker.rebrokered_from AS known (jeditaskid, datasetid, queue, rebrokered_at)
SELECT DISTINCT one.jeditaskid, file.datasetid, one.queue, %(now)s
FROM unnest(%(pandaids)s::bigint[], %(tasks)s::bigint[], %(queues)s::text[]) AS one (pandaid, jeditaskid, queue)
JOIN {files} AS file ON file.pandaid = one.pandaid
JOIN {datasets} AS dataset
  ON dataset.jeditaskid = one.jeditaskid AND dataset.datasetid = file.datasetid AND dataset.masterid IS NULL
WHERE file.type IN ('input', 'pseudo_input')
ON CONFLICT (jeditaskid, datasetid, queue)
    DO UPDATE SET rebrokered_at = greatest(known.rebrokered_at, excluded.rebrokered_at)"""


def record(connection: sa.Connection, moves: Sequence[JobAction], by: ActionContext) -> None:
    """Keep what PanDA did. The caller fences the transaction and commits it."""
    raw, now = Database.raw(connection), by.now.astimezone(UTC)
    with raw.cursor() as cursor:
        cursor.executemany(_ACTION, [_row(move, by) for move in moves])
    freed = [one for one in moves if not one.only_told and one.queue is not None and one.jeditaskid is not None]
    query = _REMEMBER.format(
        files=by.catalogue.source("filestable4", ("pandaid", "datasetid", "type")),
        datasets=by.catalogue.source("jedi_datasets", ("jeditaskid", "datasetid", "masterid")),
    )
    values: dict[str, Any] = {
        "now": now,
        "pandaids": [one.pandaid for one in freed],
        "tasks": [one.jeditaskid for one in freed],
        "queues": [one.queue for one in freed],
    }
    raw.execute(query.encode(), values)


def _row(move: JobAction, by: ActionContext) -> tuple[object, ...]:
    detail = {**(move.detail or {}), "through": "panda_api"}
    new_status = move.old_status if move.only_told else "closed"
    return (
        by.run_id, by.agent, move.pandaid, move.jeditaskid, move.queue, move.old_status, new_status, move.rule,
        move.action, move.code, move.value_s, move.limit_s, json.dumps(detail), by.now.astimezone(UTC),
    )  # fmt: skip
