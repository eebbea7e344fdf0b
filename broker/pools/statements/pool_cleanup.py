"""Removal of unused SubmitPools.

The conditions are part of the statement that deletes. A concurrent registration either comes first, and the statement
sees its new time of use when it gets the row, or it waits for the deletion and creates the pool again.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa

from broker.pools.statements.pool_registration import ENDED
from broker.store.connection.tables import Names

_UNUSED = """
    pool.last_used_at <= :idle_since
    AND NOT EXISTS (SELECT FROM broker.task_queues AS queue JOIN broker.waiting_jobs AS job ON job.task_queue = queue.id
                    WHERE queue.pool_id = pool.pool_id)
    AND NOT EXISTS (SELECT FROM broker.task_requirements AS asked
                    JOIN {panda}.jedi_tasks AS task ON task.jeditaskid = asked.jeditaskid
                    WHERE asked.pool_id = pool.pool_id AND task.status <> ALL(:ended))"""
_DELETE_POOLS = f"""
    WITH due AS (SELECT pool.number FROM broker.submit_pools AS pool WHERE {_UNUSED}
                 ORDER BY pool.last_used_at, pool.pool_id LIMIT :most),
         gone AS (DELETE FROM broker.submit_pools AS pool USING due WHERE pool.number = due.number AND {_UNUSED}
                  RETURNING pool.pool_id, pool.number),
         links AS (DELETE FROM broker.submit_pool_links AS link USING gone WHERE link.pool = gone.number)
    SELECT pool_id FROM gone"""  # noqa: S608 - constants
_READ_UNUSED_POOLS = "SELECT pool.pool_id FROM broker.submit_pools AS pool WHERE" + _UNUSED  # noqa: S608 - constants

_GONE = "NOT EXISTS (SELECT FROM {panda}.jedi_tasks AS task WHERE task.jeditaskid = asked.jeditaskid)"
_DELETE_REQUIREMENTS = f"""
    DELETE FROM broker.task_requirements AS asked USING (
        SELECT asked.jeditaskid FROM broker.task_requirements AS asked WHERE {_GONE} ORDER BY 1 LIMIT :most
    ) AS due WHERE asked.jeditaskid = due.jeditaskid AND {_GONE}"""  # noqa: S608 - constants
_COUNT_ALL = f"""
    SELECT (SELECT count(*) FROM broker.submit_pools),
           (SELECT count(*) FROM broker.task_requirements),
           (SELECT count(*) FROM broker.task_requirements AS asked WHERE {_GONE})"""  # noqa: S608 - constants


@dataclass(frozen=True)
class PoolTotals:
    """The number of stored pools and requirements.

    Attributes:
        pools: SubmitPools.
        requirements: requirements of tasks.
        requirements_gone: requirements whose task is no longer on record.
    """

    pools: int
    requirements: int
    requirements_gone: int


def pool_totals(connection: sa.Connection, names: Names) -> PoolTotals:
    """How many pools and requirements there are."""
    return PoolTotals(*connection.execute(sa.text(names.sql(_COUNT_ALL))).one())


def remove_unused(
    connection: sa.Connection, names: Names, now: datetime, grace: timedelta, most: int | None = None
) -> list[str]:
    """Remove pools unused for ``grace`` or longer that no waiting job and no open task requires; return them.

    ``most``: maximum number of pools, the longest unused first; None for all.
    """
    values = _values(now, grace) | {"most": most}
    return sorted(connection.execute(sa.text(names.sql(_DELETE_POOLS)), values).scalars())


def unused(connection: sa.Connection, names: Names, now: datetime, grace: timedelta) -> list[str]:
    """The pools that :func:`remove_unused` would remove."""
    return sorted(connection.execute(sa.text(names.sql(_READ_UNUSED_POOLS)), _values(now, grace)).scalars())


def forget_requirements(connection: sa.Connection, names: Names, most: int | None = None) -> int:
    """Remove the requirements of deleted tasks, of at most ``most`` tasks or of all; returns the number of rows."""
    return connection.execute(sa.text(names.sql(_DELETE_REQUIREMENTS)), {"most": most}).rowcount


def _values(now: datetime, grace: timedelta) -> dict[str, object]:
    return {"idle_since": now - grace, "ended": list(ENDED)}
