"""Rows of jobs that begin to wait: put in order here, and copied, which costs the server less than to insert them."""

from __future__ import annotations

from typing import Any

import numpy as np
import psycopg
from psycopg import sql

from broker.domain.arrays import Ints
from broker.store.connection.integer_copy import copy_integers, integers_of, sizes_of

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
