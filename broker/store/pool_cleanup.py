"""Removing SubmitPools that nobody uses any more.

The conditions stand in the statement that deletes. A registration at the same moment either comes first, and its new
time of use is seen when the statement gets the row, or it waits for the deletion and makes the pool again.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import sqlalchemy as sa

from broker.store.names import Names
from broker.store.pool_registration import ENDED

_UNUSED = """
    pool.last_used_at <= :idle_since
    AND NOT EXISTS (SELECT FROM broker.task_queues AS queue JOIN broker.waiting_jobs AS job ON job.task_queue = queue.id
                    WHERE queue.pool_id = pool.pool_id)
    AND NOT EXISTS (SELECT FROM broker.task_requirements AS asked
                    JOIN {panda}.jedi_tasks AS task ON task.jeditaskid = asked.jeditaskid
                    WHERE asked.pool_id = pool.pool_id AND task.status <> ALL(:ended))"""
_DELETE = f"""
    WITH gone AS (DELETE FROM broker.submit_pools AS pool WHERE {_UNUSED} RETURNING pool.pool_id, pool.number),
         links AS (DELETE FROM broker.submit_pool_links AS link USING gone WHERE link.pool = gone.number)
    SELECT pool_id FROM gone"""  # noqa: S608 - constants
_COUNT = "SELECT pool.pool_id FROM broker.submit_pools AS pool WHERE" + _UNUSED  # noqa: S608 - constants

_FORGET = """
    DELETE FROM broker.task_requirements AS asked
    WHERE NOT EXISTS (SELECT FROM {panda}.jedi_tasks AS task WHERE task.jeditaskid = asked.jeditaskid)"""


def remove_unused(connection: sa.Connection, names: Names, now: datetime, grace: timedelta) -> list[str]:
    """Remove pools that no job waits for and no task that goes on asks for, unused for ``grace`` or longer; which."""
    return sorted(connection.execute(sa.text(names.sql(_DELETE)), _values(now, grace)).scalars())


def unused(connection: sa.Connection, names: Names, now: datetime, grace: timedelta) -> list[str]:
    """The pools that :func:`remove_unused` would remove."""
    return sorted(connection.execute(sa.text(names.sql(_COUNT)), _values(now, grace)).scalars())


def forget_requirements(connection: sa.Connection, names: Names) -> int:
    """Remove what tasks asked for that are not on record any more; of how many tasks."""
    return connection.execute(sa.text(names.sql(_FORGET))).rowcount


def _values(now: datetime, grace: timedelta) -> dict[str, object]:
    return {"idle_since": now - grace, "ended": list(ENDED)}
