"""Activated jobs that are held from the pilots of a node for a while, because their input failed there."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import psycopg
import sqlalchemy as sa
from pydantic import BaseModel

from broker.gdpconfig.tuning import Tuning
from broker.store.connection.tables import Names
from broker.store.query_context import QueryContext

# A node has the same name at all queues of its site, so the queue at which the input failed is not compared. Where jobs
# ended at no other node of the queue, no other pilot would come for the job.
_HOLD = """
INSERT INTO broker.held_jobs AS known (pandaid, node, queue, held_until)
SELECT job.pandaid, failed.node, coalesce(job.computingsite, ''), max(failed.failed_at) + :within
FROM {broker}.failed_inputs AS failed
JOIN {panda}.jedi_dataset_contents AS file USING (jeditaskid, datasetid, fileid)
JOIN {panda}.jobsactive4 AS job ON job.pandaid = file.pandaid
WHERE failed.node <> '' AND failed.failed_at > :now - :within AND job.jobstatus = 'activated'
  AND (job.computingsite IS NULL
       OR EXISTS (SELECT FROM broker.queue_health AS other
                  WHERE other.queue = job.computingsite AND other.node NOT IN ('', failed.node)))
GROUP BY 1, 2, 3 ORDER BY 1, 2
ON CONFLICT (pandaid, node) DO UPDATE SET queue = excluded.queue, held_until = excluded.held_until
WHERE (known.queue, known.held_until) IS DISTINCT FROM (excluded.queue, excluded.held_until)"""
_THESE = "  AND job.pandaid = ANY(CAST(:jobs AS bigint[]))"
# Also releases jobs that a pilot has got meanwhile, and jobs that moved or ended.
_RELEASE = """
DELETE FROM broker.held_jobs AS held WHERE NOT :holding OR held_until <= :now OR NOT EXISTS (
    SELECT FROM {panda}.jobsactive4 AS job WHERE job.pandaid = held.pandaid AND job.jobstatus = 'activated')"""
# A row outlives its job until the next cycle of the agent.
_RELEASED_AT = """
SELECT min(held.held_until), count(*) FROM broker.held_jobs AS held JOIN {panda}.jobsactive4 AS job USING (pandaid)
WHERE held.queue IN (%(queue)s, '') AND held.node = %(node)s AND held.held_until > %(now)s
  AND job.jobstatus = 'activated'"""
_READ = """
SELECT held.node, held.held_until FROM broker.held_jobs AS held JOIN {panda}.jobsactive4 AS job USING (pandaid)
WHERE held.pandaid = :job AND held.held_until > :now AND job.jobstatus = 'activated' ORDER BY held.node"""
SWITCH, WITHIN = "LEARNED_RETRY_OTHER_NODE", "LEARNED_RETRY_OTHER_NODE_WITHIN"


class HeldFrom(BaseModel):
    """A node whose pilots do not get the job for a while, because its input failed there.

    Attributes:
        node: name of the node, without a slot.
        held_until: when the job may be given there again.
    """

    node: str
    held_until: datetime


class HeldHere(BaseModel):
    """Jobs of a queue that the pilots of a node do not get for a while, because their input failed there.

    Attributes:
        node: node of the pilot.
        jobs: number of jobs.
        held_until: when the first of them may be given there again.
    """

    node: str
    jobs: int
    held_until: datetime


def held_for(tuning: Tuning) -> timedelta | None:
    """How long after a failure jobs are held from its node; None: not at all."""
    return timedelta(hours=tuning.number(WITHIN)) if tuning.flag(SWITCH) else None


def hold_jobs(
    connection: sa.Connection, names: Names, now: datetime, within: timedelta, jobs: Sequence[int] | None = None
) -> int:
    """Hold activated jobs from the nodes where their input failed; return how many such pairs were added or changed.

    A job is held from a node until ``within`` after the last of these failures, and only where jobs ended recently at
    another node of its queue.

    Args:
        connection: connection in a transaction.
        names: names of the schemas.
        now: the instant (aware).
        within: length of a hold; at most as long as failures are remembered.
        jobs: only these jobs; None: all.
    """
    values = {"now": now, "within": within}
    if jobs is None:
        return connection.execute(sa.text(names.sql(_HOLD)), values).rowcount
    statement = _HOLD.replace("GROUP BY", f"{_THESE}\nGROUP BY")
    return connection.execute(sa.text(names.sql(statement)), {**values, "jobs": list(jobs)}).rowcount


def release_jobs(connection: sa.Connection, names: Names, now: datetime, *, holding: bool) -> int:
    """Release jobs whose hold is over at ``now`` (aware) or that no longer wait; return how many are still held.

    Without ``holding`` all are released.
    """
    connection.execute(sa.text(names.sql(_RELEASE)), {"now": now, "holding": holding})
    return int(connection.scalar(sa.text("SELECT count(DISTINCT pandaid) FROM broker.held_jobs")) or 0)


def held_here(cursor: psycopg.Cursor[Any], names: Names, node: str, queue: str, now: datetime) -> HeldHere | None:
    """The jobs at a queue that are held from a node; None if there are none.

    Args:
        cursor: cursor with tuple rows.
        names: names of the schemas.
        node: node name without a slot.
        queue: PanDA queue; jobs that wait at any queue count, too.
        now: the instant (aware).
    """
    row = cursor.execute(names.sql(_RELEASED_AT), {"node": node, "queue": queue, "now": now}).fetchone()
    return None if row is None or row[0] is None else HeldHere(node=node, held_until=row[0], jobs=row[1])


def read_held_from(query: QueryContext, pandaid: int) -> list[HeldFrom]:
    """The nodes whose pilots are not given a job that waits."""
    values = {"job": pandaid, "now": query.now}
    rows = query.connection.execute(sa.text(query.names.sql(_READ)), values)
    return [HeldFrom(node=node, held_until=until) for node, until in rows]
