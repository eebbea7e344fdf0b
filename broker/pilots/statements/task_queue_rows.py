"""Task queues: activated jobs that wait for a pilot, grouped by what they require, and copied in order.

Jobs that our own activation moves wait from the same commit on. Changes by other programs are found in cycles: jobs
that they activate by a trigger, which notes them, and all that a trigger does not see by comparison.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import psycopg
import sqlalchemy as sa
from psycopg import sql

from broker.domain.arrays import Floats, Ints
from broker.pilots.model.match_order import LAST_TIER
from broker.pilots.model.matcher import CPUTIME_CLASSES_S
from broker.pilots.model.task_queue_shares import Claim, real_priorities, task_queue_weights
from broker.pilots.statements.running_limits import JOB_TYPE
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
_ADD_TO_LEVELS = """
INSERT INTO broker.task_queue_levels AS known (task_queue, priority, jobs, first_position)
SELECT * FROM unnest(%s::bigint[], %s::integer[], %s::bigint[], %s::bigint[])
ON CONFLICT (task_queue, priority) DO UPDATE
SET jobs = known.jobs + excluded.jobs, first_position = least(known.first_position, excluded.first_position)"""


def add_fresh_jobs(connection: psycopg.Connection[Any]) -> int:
    """Add the jobs of ``fresh_jobs`` to their task queues; return how many there are.

    Positions are compared within a task queue and a priority only, and rise there with the number of the job. Rows are
    written in the order in which matchers look for them, so that jobs that are looked for together lie together.
    """
    with connection.cursor(binary=True) as cursor:
        groups = cursor.execute(_READ_GROUPS).fetchall()
    if not groups:
        return 0
    queues, priorities, cputimes = (np.array([group[place] for group in groups], dtype=np.int64) for place in range(3))
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
    first = np.flatnonzero(np.r_[True, (np.diff(queues[group]) != 0) | (np.diff(priorities[group]) != 0)])
    levels = (queues[group][first], priorities[group][first], np.diff(np.r_[first, count]), columns["position"][first])
    connection.execute(_ADD_TO_LEVELS, [level.tolist() for level in levels])
    return count


def in_order(queues: Ints, priorities: Ints, sizes: Ints, jobs: Ints) -> Ints:
    """(J,) the order of the jobs by task queue, priority and number; the first three arguments are of groups, (G,)."""
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


FIRST_JOB, LAST_JOB = -1, 2**62
#: An empty task queue is dropped after the first; its last use is written no more often than the second.
DROP_AFTER, TOUCHED_AFTER = timedelta(seconds=300), timedelta(seconds=60)
JOBS_OF_A_PART = 100_000
"""If more jobs wait, they are compared with the actual jobs in parts of about this size, one per cycle."""
MOST_PARTS = 60
"""Most parts into which the waiting jobs are divided: a cycle compares at least one."""
CHANNEL = "gridbroker_task_queues"
"""Where matchers are notified of task queues with new jobs: a JSON list of numbers; anything else means any."""
_LONGEST_PAYLOAD = 8000

ShareValues = Callable[[Sequence[str | None]], Floats]
"""The value of each of these global shares."""
TypeOrder = Callable[[Sequence[str]], tuple[Ints, Floats]]
"""The tier and the weight of each of these types of jobs."""
SetOrder = Callable[[sa.Connection], None]
"""Writes what decides the order of matches, in a transaction in which task queues were made."""

# The columns that group jobs, as the identity has them: any difference makes another task queue.
_GROUPING = (
    "vo, owner, owner_group, share, panda_queue, resource_type, sites, banned_sites, platforms, cputime_class_s, "
    "pool_id, specs, job_type"
)
_IDENTITY = f"md5(jsonb_build_array({_GROUPING})::text)"

# Jobs that do not wait yet, in groups: the requirements of a task are worked out once per group, not once per job.
_FRESH = f"""
CREATE TEMPORARY TABLE fresh_jobs ON COMMIT DROP AS
SELECT *, {_IDENTITY} AS identity
FROM (
    SELECT job.vo, job.owner, job.owner_group, job.share, job.panda_queue, job.resource_type, job.priority, job.jobs,
        job.job_type,
        coalesce(asked.sites, '[]') AS sites, coalesce(asked.banned_sites, '[]') AS banned_sites,
        coalesce(asked.platforms, '[]') AS platforms, asked.pool_id, asked.specs,
        greatest(coalesce(asked.cputime_s, 0), 0) AS cputime_s,
        CASE WHEN coalesce(asked.cputime_s, 0) <= 0 THEN 0
             ELSE coalesce((SELECT min(bound) FROM unnest(CAST(:classes AS bigint[])) AS bound
                            WHERE bound >= asked.cputime_s), :last_class) END AS cputime_class_s
    FROM (SELECT jeditaskid, vo, produsername AS owner, workinggroup AS owner_group, gshare AS share,
              computingsite AS panda_queue, resource_type, {JOB_TYPE} AS job_type,
              coalesce(currentpriority, 0) AS priority, array_agg(pandaid) AS jobs
          FROM {{panda}}.jobsactive4 AS job
          WHERE jobstatus = 'activated' AND WHICH
          GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9) AS job
    LEFT JOIN broker.task_requirements AS asked ON asked.jeditaskid = job.jeditaskid
) AS found"""  # noqa: S608 - constants
_ALL_THAT_DO_NOT_WAIT = "NOT EXISTS (SELECT FROM broker.waiting_jobs AS known WHERE known.pandaid = job.pandaid)"
_THESE = "pandaid = ANY(CAST(:jobs AS bigint[]))"
# Jobs whose numbers are in a range, and those that others activated, which are between two numbers.
_SOME_THAT_DO_NOT_WAIT = """(pandaid > :after AND pandaid <= :up_to OR pandaid = ANY(CAST(:jobs AS bigint[])))
            AND NOT EXISTS (
                SELECT FROM broker.waiting_jobs AS known
                WHERE known.pandaid = job.pandaid
                  AND (known.pandaid > :after AND known.pandaid <= :up_to
                       OR known.pandaid >= :least AND known.pandaid <= :most))"""
_NEW_QUEUES = f"""
INSERT INTO broker.task_queues (identity, {_GROUPING}, used_at)
SELECT DISTINCT ON (identity) identity, {_GROUPING}, CAST(:now AS timestamptz) FROM fresh_jobs
ON CONFLICT (identity) DO NOTHING"""  # noqa: S608 - constants
# A job that moved to another PanDA queue does not wait at its old one. Task queues of an earlier release hold jobs of
# all types: their jobs are divided, in this transaction.
_DELETE_GONE_JOBS = """
DELETE FROM broker.waiting_jobs AS waiting
WHERE waiting.pandaid > :after AND waiting.pandaid <= :up_to AND NOT EXISTS (
    SELECT FROM {panda}.jobsactive4 AS job JOIN broker.task_queues AS queue
        ON job.computingsite IS NOT DISTINCT FROM queue.panda_queue
    WHERE job.pandaid = waiting.pandaid AND job.pandaid > :after AND job.pandaid <= :up_to
      AND job.jobstatus = 'activated' AND queue.id = waiting.task_queue)
RETURNING waiting.task_queue, waiting.priority"""
_DELETE_UNDIVIDED = """
DELETE FROM broker.waiting_jobs AS waiting USING broker.task_queues AS queue
WHERE waiting.pandaid > :after AND waiting.pandaid <= :up_to
  AND queue.id = waiting.task_queue AND queue.job_type IS NULL"""
# Another process that follows the jobs at the same time waits, and finds nothing left to do; matchers do not wait.
_ONE_AT_A_TIME = "LOCK TABLE broker.task_queue_levels IN SHARE ROW EXCLUSIVE MODE"
# For this transaction: a million jobs are grouped without files on disk, and put in order by this process, for which
# the server waits: tenths of a second for a million, and nothing would be kept if it cut the transaction off meanwhile.
_ROOM = "SET LOCAL work_mem = '128MB'; SET LOCAL idle_in_transaction_session_timeout = '60s'"
# All activated jobs are read once, in storage order, and grouped by hashes. For a table that was filled recently the
# server's estimates make it read the rows one by one in the order of some index, and sort them: twice the work; or
# compare every job with every one that waits. It assumes 8 kB for a group, which is a hundred times what it needs.
_AS_THEY_LIE = (
    "SET LOCAL enable_indexscan = off; SET LOCAL enable_sort = off; SET LOCAL enable_nestloop = off; "
    "SET LOCAL hash_mem_multiplier = 8"
)
_AS_IT_WAS = (
    "SET LOCAL enable_indexscan TO DEFAULT; SET LOCAL enable_sort TO DEFAULT; SET LOCAL enable_nestloop TO DEFAULT; "
    "SET LOCAL hash_mem_multiplier TO DEFAULT"
)
# The server does not know that jobs with near numbers lie together, and would read all waiting jobs for a part of them.
_BY_NUMBER, _AS_WAS_BY_NUMBER = "SET LOCAL enable_seqscan = off", "SET LOCAL enable_seqscan TO DEFAULT"
_USED_POOLS = """
UPDATE broker.submit_pools SET last_used_at = greatest(last_used_at, :now)
WHERE pool_id IN (SELECT pool_id FROM fresh_jobs UNION
                  SELECT pool_id FROM broker.task_queues WHERE id = ANY(:left))"""
# Each cycle recounts some levels, all of them in as many cycles as there are parts; to the others new jobs are added.
_FORGET_LEVELS = """
DELETE FROM broker.task_queue_levels WHERE CAST(:queues AS bigint[]) IS NULL OR task_queue = ANY(:queues)"""
_COUNT_LEVELS = """
INSERT INTO broker.task_queue_levels (task_queue, priority, jobs, first_position)
SELECT task_queue, priority, count(*), min(position) FROM broker.waiting_jobs
WHERE CAST(:queues AS bigint[]) IS NULL OR task_queue = ANY(:queues)
GROUP BY 1, 2"""
# A level with a wrong count is kept: it is recounted before long.
_TAKE_FROM_LEVELS = """
UPDATE broker.task_queue_levels AS known SET jobs = greatest(known.jobs - gone.jobs, 1)
FROM unnest(CAST(:queues AS bigint[]), CAST(:priorities AS integer[]), CAST(:jobs AS bigint[]))
    AS gone (task_queue, priority, jobs)
WHERE known.task_queue = gone.task_queue AND known.priority = gone.priority"""
_READ_INBOX = """
DELETE FROM broker.activated_jobs WHERE ctid = ANY(ARRAY(SELECT ctid FROM broker.activated_jobs LIMIT :most))
RETURNING pandaid"""
_TOUCH_QUEUES = """
UPDATE broker.task_queues AS queue SET used_at = :now
WHERE used_at < :touched_before
  AND EXISTS (SELECT FROM broker.task_queue_levels AS level WHERE level.task_queue = queue.id)"""
_DELETE_UNUSED_QUEUES = """
DELETE FROM broker.task_queues AS queue
WHERE used_at <= :before AND NOT EXISTS (SELECT FROM broker.waiting_jobs AS job WHERE job.task_queue = queue.id)"""
_READ_CLAIMS = """
SELECT queue.id, queue.vo, queue.owner, queue.owner_group, queue.share, queue.resource_type, queue.platforms::text,
    queue.cputime_class_s, coalesce(queue.job_type, '') AS job_type, queue.weight, level.priority, level.jobs
FROM broker.task_queues AS queue JOIN broker.task_queue_levels AS level ON level.task_queue = queue.id
ORDER BY queue.id"""
_SAVE_WEIGHTS = """
UPDATE broker.task_queues AS queue SET weight = found.weight, tier = found.tier, type_weight = found.type_weight
FROM unnest(CAST(:ids AS bigint[]), CAST(:weights AS float8[]), CAST(:tiers AS integer[]),
            CAST(:type_weights AS float8[])) AS found (id, weight, tier, type_weight)
WHERE queue.id = found.id AND (queue.weight, queue.tier, queue.type_weight)
    IS DISTINCT FROM (found.weight, found.tier, found.type_weight)"""
_READ_PLAN = """
SELECT plan.next_part, plan.compared_to,
    (SELECT coalesce(sum(jobs), 0)::bigint FROM broker.task_queue_levels) AS jobs,
    (SELECT count(*) FROM (SELECT FROM broker.activated_jobs LIMIT :most) AS found) AS told
FROM broker.task_queue_plan AS plan"""
_SAVE_PLAN = "UPDATE broker.task_queue_plan SET next_part = :next_part, compared_to = :compared_to, followed_at = :now"
_READ_END = """
SELECT pandaid FROM {panda}.jobsactive4 WHERE pandaid > :after ORDER BY pandaid OFFSET :jobs - 1 LIMIT 1"""
_READ_QUEUES = "SELECT id FROM broker.task_queues ORDER BY id"
_READ_FRESH_QUEUES = "SELECT DISTINCT queue.id FROM fresh_jobs JOIN broker.task_queues AS queue USING (identity)"
_TELL = "SELECT pg_notify(:channel, :payload)"


def follow_jobs(
    connection: sa.Connection,
    names: Names,
    now: datetime,
    set_order: SetOrder | None = None,
    most_at_once: int = JOBS_OF_A_PART,
) -> dict[str, int]:
    """Make the task queues hold exactly the activated jobs, in the caller's transaction; return counts of the changes.

    If more than ``most_at_once`` jobs wait, that many are compared, and the next ones at the next call; jobs that other
    programs activated come in addition. The transaction is READ COMMITTED: it sees what another one did before.
    ``set_order`` writes weights and limits.
    """
    run = _runner(connection, names)
    run(_ONE_AT_A_TIME)
    run(_ROOM)
    part = _next_part(run, now, most_at_once)
    inbox = run(_READ_INBOX, most=part.size).scalars().all()
    if part.queues is not None:
        run(_BY_NUMBER)
    left = Counter((row.task_queue, row.priority) for row in run(_DELETE_GONE_JOBS, **part.jobs))
    queues, priorities = [queue for queue, _ in left], [priority for _, priority in left]
    run(_TAKE_FROM_LEVELS, queues=queues, priorities=priorities, jobs=list(left.values()))
    run(_DELETE_UNDIVIDED, **part.jobs)
    if part.queues is None:
        run(_AS_THEY_LIE)
        _gather(run, _ALL_THAT_DO_NOT_WAIT)
        run(_AS_IT_WAS)
    else:
        between = {"least": min(inbox, default=0), "most": max(inbox, default=-1)}
        _gather(run, _SOME_THAT_DO_NOT_WAIT, jobs=inbox, **part.jobs, **between)
        run(_AS_WAS_BY_NUMBER)
    new_queues = run(_NEW_QUEUES, now=now).rowcount
    queued = add_fresh_jobs(Database.raw(connection))
    run(_FORGET_LEVELS, queues=part.queues)
    run(_COUNT_LEVELS, queues=part.queues)
    run(_TOUCH_QUEUES, now=now, touched_before=now - TOUCHED_AFTER)
    dropped = run(_DELETE_UNUSED_QUEUES, before=now - DROP_AFTER).rowcount
    if set_order is not None:
        set_order(connection)
    _tell_matchers(run)
    # last, as matchers note the use of pools too and would wait for this transaction
    run(_USED_POOLS, now=now, left=sorted(set(queues)))
    return {"queued": queued, "left": left.total(), "new_queues": new_queues, "dropped_queues": dropped}


def add_activated(
    connection: sa.Connection, names: Names, jobs: Sequence[int], now: datetime, set_order: SetOrder
) -> dict[str, int]:
    """Let jobs wait that the caller's transaction activated: pilots find them without a cycle that looks for them.

    ``set_order`` writes weights and limits where there are new task queues.

    Returns:
        Counts of ``queued`` jobs and ``new_queues``.
    """
    run = _runner(connection, names)
    run(_ONE_AT_A_TIME)
    _gather(run, _THESE, jobs=list(jobs))
    new_queues = run(_NEW_QUEUES, now=now).rowcount
    queued = add_fresh_jobs(Database.raw(connection))
    if new_queues:
        set_order(connection)
    _tell_matchers(run)
    run(_USED_POOLS, now=now, left=[])
    run("DROP TABLE fresh_jobs")
    return {"queued": queued, "new_queues": new_queues}


_Run = Callable[..., sa.CursorResult[Any]]


def _runner(connection: sa.Connection, names: Names) -> _Run:
    def run(statement: str, **values: Any) -> sa.CursorResult[Any]:
        return connection.execute(sa.text(names.sql(statement)), values)

    return run


def _gather(run: _Run, which: str, **values: Any) -> None:
    """Create the table of fresh jobs, from those that meet a condition."""
    run(_FRESH.replace("WHICH", which), classes=list(CPUTIME_CLASSES_S), last_class=CPUTIME_CLASSES_S[-1], **values)


@dataclass(frozen=True)
class _Part:
    """The part of the jobs that a cycle compares.

    Attributes:
        jobs: bounds of the job numbers: above ``after``, at most ``up_to``.
        queues: task queues whose levels are counted; None: all, as the jobs are.
        size: number of jobs.
    """

    jobs: dict[str, int]
    queues: list[int] | None
    size: int


def _next_part(run: _Run, now: datetime, most_at_once: int) -> _Part:
    """The part to compare now: everything where few jobs wait, or fewer than others activated meanwhile."""
    plan = run(_READ_PLAN, most=LAST_JOB).one()
    parts = min(MOST_PARTS, -(-plan.jobs // most_at_once))
    if parts < 2 or plan.told > plan.jobs:
        run(_SAVE_PLAN, next_part=plan.next_part + 1, compared_to=FIRST_JOB, now=now)
        return _Part({"after": FIRST_JOB, "up_to": LAST_JOB}, None, LAST_JOB)
    size = max(most_at_once, -(-plan.jobs // parts)) + 1
    end = run(_READ_END, after=plan.compared_to, jobs=size).scalar()
    run(_SAVE_PLAN, next_part=plan.next_part + 1, compared_to=FIRST_JOB if end is None else end, now=now)
    queues = list(run(_READ_QUEUES).scalars())
    jobs = {"after": plan.compared_to, "up_to": LAST_JOB if end is None else end}
    return _Part(jobs, queues[plan.next_part % parts :: parts], size)


def _tell_matchers(run: _Run) -> None:
    """Notify matchers at the commit of task queues with new jobs; those that miss it read again after a while."""
    queues = sorted(run(_READ_FRESH_QUEUES).scalars())
    if queues:
        payload = json.dumps(queues, separators=(",", ":"))
        run(_TELL, channel=CHANNEL, payload=payload if len(payload.encode()) < _LONGEST_PAYLOAD else "")


def weigh(
    connection: sa.Connection, share_values: ShareValues, type_order: TypeOrder | None = None, *, background: bool
) -> int:
    """Write weights and tiers of the task queues that hold jobs, where they differ; return how many task queues."""
    rows = connection.execute(sa.text(_READ_CLAIMS)).all()
    if not rows:
        return 0
    ids, first = np.unique(np.array([row.id for row in rows], dtype=np.int64), return_index=True)
    of_queue = np.searchsorted(ids, [row.id for row in rows])
    jobs = np.array([row.jobs for row in rows], dtype=np.float64)
    real = real_priorities(np.array([row.priority for row in rows], dtype=np.int64))
    mean = np.bincount(of_queue, jobs * real) / np.bincount(of_queue, jobs)
    types = [str(rows[row].job_type) for row in first.tolist()]
    tiers, type_weights = (type_order or _no_order)(types)
    kinds = [kind if tier < LAST_TIER else "" for kind, tier in zip(types, tiers.tolist(), strict=True)]
    claims = [
        _claim(rows[row], kind, float(priority))
        for row, kind, priority in zip(first.tolist(), kinds, mean, strict=True)
    ]
    weights = task_queue_weights(claims, share_values([claim.share for claim in claims]), background=background)
    values = {"ids": ids, "weights": weights, "tiers": tiers, "type_weights": type_weights}
    connection.execute(sa.text(_SAVE_WEIGHTS), {name: column.tolist() for name, column in values.items()})
    return len(ids)


def _no_order(types: Sequence[str]) -> tuple[Ints, Floats]:
    return np.full(len(types), LAST_TIER, dtype=np.int64), np.ones(len(types))


def _claim(row: sa.Row[Any], kind: str, priority: float) -> Claim:
    rest = (row.vo, row.resource_type, row.platforms, row.cputime_class_s)
    return Claim(row.share, row.owner_group, row.owner, rest, priority, kind)
