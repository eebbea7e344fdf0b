"""Task queues: activated jobs that wait for a pilot, grouped by what they ask for, and copied in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import psycopg
import sqlalchemy as sa
from psycopg import sql

from broker.domain.arrays import Floats, Ints
from broker.pilots.model.matcher import CPUTIME_CLASSES_S
from broker.pilots.model.task_queue_shares import Claim, real_priorities, task_queue_weights
from broker.store.connection.array_transfer import copy_integers, integers_of, sizes_of
from broker.store.connection.database import Database
from broker.store.connection.tables import Names

# The jobs of one group of fresh jobs have everything in common but their numbers.
_READ_GROUPS = """
SELECT queue.id, fresh.priority, fresh.cputime_s, array_send(fresh.jobs)
FROM fresh_jobs AS fresh JOIN broker.task_queues AS queue USING (identity)"""
# One process at a time adds rows, so that nobody else takes a position meanwhile; gaps do not matter.
_RESERVE_POSITIONS = """
SELECT setval(sequence, nextval(sequence) + %s)
FROM (SELECT pg_get_serial_sequence('broker.waiting_jobs', 'position')::regclass AS sequence) AS found"""
_ROWS = sql.Identifier("broker", "waiting_jobs")


def add_fresh_jobs(connection: psycopg.Connection[Any]) -> int:
    """Let the jobs of ``fresh_jobs`` wait in their task queues; how many there are.

    Positions are compared within a task queue and a priority only, and rise there with the number of the job. Rows are
    written in the order in which matchers look for them, so that jobs that are looked for together lie together.
    """
    with connection.cursor(binary=True) as cursor:
        groups = cursor.execute(_READ_GROUPS).fetchall()
    if not groups:
        return 0
    queues, priorities, cputimes = (np.array([group[at] for group in groups], dtype=np.int64) for at in range(3))
    arrays = [group[3] for group in groups]
    jobs, sizes = integers_of(arrays), sizes_of(arrays)
    order = in_order(queues, priorities, sizes, jobs)
    group = np.repeat(np.arange(len(groups)), sizes)[order]
    count = len(jobs)
    ((last,),) = connection.execute(_RESERVE_POSITIONS, [count - 1]).fetchall()
    columns: dict[str, Ints] = {
        "pandaid": jobs[order],
        "task_queue": queues[group],
        "priority": priorities[group].astype(np.int32),
        "cputime_s": cputimes[group],
        "position": np.arange(last - count + 1, last + 1),
    }
    copy_integers(connection, _ROWS, columns)
    return count


def in_order(queues: Ints, priorities: Ints, sizes: Ints, jobs: Ints) -> Ints:
    """(J,) the jobs by task queue, priority and number; the first three are of groups, (G,)."""
    by_level = np.lexsort((priorities, queues))
    changes = (np.diff(queues[by_level]) != 0) | (np.diff(priorities[by_level]) != 0)
    level = np.empty(len(queues), dtype=np.int64)
    level[by_level] = np.concatenate(([0], np.cumsum(changes)))
    least, of_job = int(jobs.min()), np.repeat(level, sizes)
    span = int(jobs.max()) - least + 1
    if span * (int(level.max()) + 1) > np.iinfo(np.int64).max:
        return np.lexsort((jobs, of_job))
    # one sort of one column is several times as fast
    return np.argsort(of_job * span + (jobs - least))


#: An empty task queue is dropped after this time.
DROP_AFTER = timedelta(seconds=300)

ShareValues = Callable[[Sequence[str | None]], Floats]
"""The value of each of these global shares."""

# The columns that group jobs, as the identity has them: any difference makes another task queue.
_GROUPING = (
    "vo, owner, owner_group, share, panda_queue, resource_type, sites, banned_sites, platforms, cputime_class_s, "
    "pool_id, specs"
)
# What was there before jobs could ask something of a node keeps the identity that it has.
_IDENTITY = """md5(jsonb_build_array(
    vo, owner, owner_group, share, panda_queue, resource_type, sites, banned_sites, platforms, cputime_class_s, pool_id
)::text || coalesce(specs, ''))"""

# Jobs that do not wait yet, in groups: what a task asks for is worked out once a group, not once a job.
_FRESH = f"""
CREATE TEMPORARY TABLE fresh_jobs ON COMMIT DROP AS
SELECT *, {_IDENTITY} AS identity
FROM (
    SELECT job.vo, job.owner, job.owner_group, job.share, job.panda_queue, job.resource_type, job.priority, job.jobs,
        coalesce(asked.sites, '[]') AS sites, coalesce(asked.banned_sites, '[]') AS banned_sites,
        coalesce(asked.platforms, '[]') AS platforms, asked.pool_id, asked.specs,
        greatest(coalesce(asked.cputime_s, 0), 0) AS cputime_s,
        CASE WHEN coalesce(asked.cputime_s, 0) <= 0 THEN 0
             ELSE coalesce((SELECT min(bound) FROM unnest(CAST(:classes AS bigint[])) AS bound
                            WHERE bound >= asked.cputime_s), :last_class) END AS cputime_class_s
    FROM (SELECT jeditaskid, vo, produsername AS owner, workinggroup AS owner_group, gshare AS share,
              computingsite AS panda_queue, resource_type, coalesce(currentpriority, 0) AS priority,
              array_agg(pandaid) AS jobs
          FROM {{panda}}.jobsactive4 AS active
          WHERE jobstatus = 'activated'
            AND NOT EXISTS (SELECT FROM broker.waiting_jobs AS known WHERE known.pandaid = active.pandaid)
          GROUP BY 1, 2, 3, 4, 5, 6, 7, 8) AS job
    LEFT JOIN broker.task_requirements AS asked ON asked.jeditaskid = job.jeditaskid
) AS found"""  # noqa: S608 - constants
_NEW_QUEUES = f"""
INSERT INTO broker.task_queues (identity, {_GROUPING}, used_at)
SELECT DISTINCT ON (identity) identity, {_GROUPING}, CAST(:now AS timestamptz) FROM fresh_jobs
ON CONFLICT (identity) DO NOTHING"""  # noqa: S608 - constants
_DELETE_GONE_JOBS = """
DELETE FROM broker.waiting_jobs AS waiting
WHERE NOT EXISTS (SELECT FROM {panda}.jobsactive4 AS job WHERE job.pandaid = waiting.pandaid
    AND job.jobstatus = 'activated')
RETURNING waiting.task_queue"""
# Another process that follows the jobs at the same time waits, and finds nothing left to do; matchers do not wait.
_ONE_AT_A_TIME = "LOCK TABLE broker.task_queue_levels IN SHARE ROW EXCLUSIVE MODE"
# For this transaction: a million jobs are grouped without files on disk, and put in order by this process, for which
# the server waits: tenths of a second for a million, and nothing would be kept if it cut the transaction off meanwhile.
_ROOM = "SET LOCAL work_mem = '128MB'; SET LOCAL idle_in_transaction_session_timeout = '60s'"
# All activated jobs are read once, as they lie, and grouped by hashes. What the server guesses of a table that was
# filled lately makes it read the rows one by one in the order of some index, and sort them: twice the work; or compare
# every job with every one that waits. It takes a group for 8 kB, which is a hundred times what it needs.
_AS_THEY_LIE = (
    "SET LOCAL enable_indexscan = off; SET LOCAL enable_sort = off; SET LOCAL enable_nestloop = off; "
    "SET LOCAL hash_mem_multiplier = 8"
)
_AS_IT_WAS = (
    "SET LOCAL enable_indexscan TO DEFAULT; SET LOCAL enable_sort TO DEFAULT; SET LOCAL enable_nestloop TO DEFAULT; "
    "SET LOCAL hash_mem_multiplier TO DEFAULT"
)
_USED_POOLS = """
UPDATE broker.submit_pools SET last_used_at = greatest(last_used_at, :now)
WHERE pool_id IN (SELECT pool_id FROM fresh_jobs UNION
                  SELECT pool_id FROM broker.task_queues WHERE id = ANY(:left))"""
_COUNT_LEVELS = """
DELETE FROM broker.task_queue_levels;
INSERT INTO broker.task_queue_levels (task_queue, priority, jobs, first_position)
SELECT task_queue, priority, count(*), min(position) FROM broker.waiting_jobs GROUP BY 1, 2"""
_TOUCH_QUEUES = """
UPDATE broker.task_queues AS queue SET used_at = :now
WHERE used_at <> :now AND EXISTS (SELECT FROM broker.task_queue_levels AS level WHERE level.task_queue = queue.id)"""
_DELETE_UNUSED_QUEUES = """
DELETE FROM broker.task_queues AS queue
WHERE used_at <= :before AND NOT EXISTS (SELECT FROM broker.waiting_jobs AS job WHERE job.task_queue = queue.id)"""
_READ_CLAIMS = """
SELECT queue.id, queue.vo, queue.owner, queue.owner_group, queue.share, queue.resource_type, queue.platforms::text,
    queue.cputime_class_s, queue.weight, level.priority, level.jobs
FROM broker.task_queues AS queue JOIN broker.task_queue_levels AS level ON level.task_queue = queue.id
ORDER BY queue.id"""
_SAVE_WEIGHTS = """
UPDATE broker.task_queues AS queue SET weight = found.weight
FROM unnest(CAST(:ids AS bigint[]), CAST(:weights AS float8[])) AS found (id, weight)
WHERE queue.id = found.id AND queue.weight <> found.weight"""


def follow_jobs(connection: sa.Connection, names: Names, now: datetime) -> dict[str, int]:
    """Let the task queues hold exactly the activated jobs, in the caller's transaction; counts of what changed.

    The transaction is READ COMMITTED: what another one did before it is seen.
    """

    def run(statement: str, **values: Any) -> sa.CursorResult[Any]:
        return connection.execute(sa.text(names.sql(statement)), values)

    run(_ONE_AT_A_TIME)
    run(_ROOM)
    left = run(_DELETE_GONE_JOBS).scalars().all()
    run(_AS_THEY_LIE)
    run(_FRESH, classes=list(CPUTIME_CLASSES_S), last_class=CPUTIME_CLASSES_S[-1])
    run(_AS_IT_WAS)
    new_queues = run(_NEW_QUEUES, now=now).rowcount
    queued = add_fresh_jobs(Database.raw(connection))
    run(_COUNT_LEVELS)
    run(_TOUCH_QUEUES, now=now)
    dropped = run(_DELETE_UNUSED_QUEUES, before=now - DROP_AFTER).rowcount
    # last, as matchers note the use of pools too and would wait for this transaction
    run(_USED_POOLS, now=now, left=sorted(set(left)))
    return {"queued": queued, "left": len(left), "new_queues": new_queues, "dropped_queues": dropped}


def weigh(connection: sa.Connection, share_values: ShareValues, *, background: bool) -> int:
    """Write the weights of the task queues that hold jobs, where they differ; how many task queues there are."""
    rows = connection.execute(sa.text(_READ_CLAIMS)).all()
    if not rows:
        return 0
    ids, first = np.unique(np.array([row.id for row in rows], dtype=np.int64), return_index=True)
    of_queue = np.searchsorted(ids, [row.id for row in rows])
    jobs = np.array([row.jobs for row in rows], dtype=np.float64)
    real = real_priorities(np.array([row.priority for row in rows], dtype=np.int64))
    mean = np.bincount(of_queue, jobs * real) / np.bincount(of_queue, jobs)
    claims = [_claim(rows[row], float(priority)) for row, priority in zip(first.tolist(), mean, strict=True)]
    weights = task_queue_weights(claims, share_values([claim.share for claim in claims]), background=background)
    connection.execute(sa.text(_SAVE_WEIGHTS), {"ids": ids.tolist(), "weights": weights.tolist()})
    return len(ids)


def _claim(row: sa.Row[Any], priority: float) -> Claim:
    rest = (row.vo, row.resource_type, row.platforms, row.cputime_class_s)
    return Claim(row.share, row.owner_group, row.owner, rest, priority)
