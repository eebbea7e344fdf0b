"""Registering SubmitPools: the pool, its queues, and the requirements of a task's jobs, in the caller's transaction."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from broker.domain.work import PlacementConstraints
from broker.errors import BrokerError
from broker.pools.model.eligibility import match_pools
from broker.pools.model.panda_queues import panda_queues
from broker.pools.model.requirement import SubmitPool, parse_canonical
from broker.pools.statements.resource_versions import ResourceVersion, current
from broker.store.connection.array_transfer import array_of
from broker.store.connection.tables import Names

#: Statuses of tasks that make no more jobs unless they are retried.
ENDED = ("finished", "done", "failed", "aborted", "broken", "passed")

_SAVE_POOL = sa.text("""
    INSERT INTO broker.submit_pools (pool_id, vo, canonical, created_at, last_used_at)
    VALUES (:pool_id, :vo, :canonical, :now, :now)
    ON CONFLICT (pool_id) DO UPDATE SET last_used_at = greatest(submit_pools.last_used_at, excluded.last_used_at)
    RETURNING number, canonical, refreshed_at, queue_count""")
_INSERT_QUEUES = sa.text("""
    INSERT INTO broker.resource_queues (site, ce, queue, panda_queue)
    SELECT * FROM unnest(CAST(:sites AS text[]), CAST(:ces AS text[]), CAST(:queues AS text[]), CAST(:panda AS text[]))
    ON CONFLICT (site, ce, queue) DO NOTHING""")
_INSERT_LINKS = sa.text("""
    INSERT INTO broker.submit_pool_links (pool, queue, first_seen_at)
    SELECT :pool, known.number, :now
    FROM unnest(CAST(:sites AS text[]), CAST(:ces AS text[]), CAST(:queues AS text[])) AS found (site, ce, queue)
    JOIN broker.resource_queues AS known USING (site, ce, queue)
    ON CONFLICT DO NOTHING""")
_SAVE_QUEUE_COUNT = sa.text("""
    UPDATE broker.submit_pools SET refreshed_at = :now, queue_count = :count WHERE number = :pool""")
_SAVE_REQUIREMENT = sa.text("""
    INSERT INTO broker.task_requirements
        (jeditaskid, pool_id, canonical, requirements, sites, banned_sites, platforms, cputime_s, specs)
    VALUES (:jeditaskid, :pool_id, :canonical, CAST(:requirements AS jsonb), CAST(:sites AS jsonb),
            CAST(:banned_sites AS jsonb), CAST(:platforms AS jsonb), :cputime_s, :specs)
    ON CONFLICT (jeditaskid) DO UPDATE SET
        pool_id = excluded.pool_id, canonical = excluded.canonical, requirements = excluded.requirements,
        sites = excluded.sites, banned_sites = excluded.banned_sites, platforms = excluded.platforms,
        cputime_s = excluded.cputime_s, specs = excluded.specs""")
_READ_MISSING = """
    SELECT DISTINCT asked.canonical FROM broker.task_requirements AS asked
    JOIN {panda}.jedi_tasks AS task ON task.jeditaskid = asked.jeditaskid AND task.status <> ALL(:ended)
    WHERE asked.pool_id IS NOT NULL
      AND NOT EXISTS (SELECT FROM broker.submit_pools AS pool WHERE pool.pool_id = asked.pool_id)
    ORDER BY 1"""
_READ_REQUIREMENTS = sa.text("""
    SELECT jeditaskid, pool_id, sites, banned_sites FROM broker.task_requirements
    WHERE jeditaskid = ANY(CAST(:tasks AS bigint[]))
      AND (pool_id IS NOT NULL OR sites <> '[]' OR banned_sites <> '[]')""")


class PoolCollision(BrokerError):
    """Two different sets of requirements have one identifier."""


@dataclass(frozen=True)
class RegisteredPool:
    """A pool that is on record.

    Attributes:
        pool_id: its identifier.
        number: its number in the broker's tables.
        queue_count: number of eligible queues; 0 also while there are no resources.
        evaluated: whether the pool was evaluated just now: it is new, or was created again.
    """

    pool_id: str
    number: int
    queue_count: int
    evaluated: bool


@dataclass(frozen=True)
class TaskRequirements:
    """What a task's jobs require besides the columns of the task.

    Attributes:
        section: the section ``Requirements`` as it was written.
        sites: names of sites of which a job needs one; empty: any.
        banned_sites: names of sites that a job must not use.
        platforms: platforms of which a job needs one; empty: any.
        cputime_s: normalised CPU seconds that a job needs; None: not stated.
        specs: canonical text of what a job requires of a node; None: nothing.
    """

    section: Mapping[str, Any] | None = None
    sites: Sequence[str] = ()
    banned_sites: Sequence[str] = ()
    platforms: Sequence[str] = ()
    cputime_s: int | None = None
    specs: str | None = None


def register(connection: sa.Connection, pool: SubmitPool, now: datetime) -> RegisteredPool:
    """Record a pool, or note that it is used again; a new pool is evaluated at once.

    Raises:
        PoolCollision: other requirements have the same identifier.
        BadResources: the resources in force cannot be read.
    """
    values = {"pool_id": pool.pool_id, "vo": pool.vo, "canonical": pool.canonical, "now": now}
    row = connection.execute(_SAVE_POOL, values).one()
    if row.canonical != pool.canonical:
        raise PoolCollision(
            f"{pool.pool_id} stands for {row.canonical[:200]}", "broker.submit_pools", "report both definitions"
        )
    if row.refreshed_at is not None:
        return RegisteredPool(pool.pool_id, row.number, row.queue_count, False)
    version = current(connection)
    if version is None:
        return RegisteredPool(pool.pool_id, row.number, 0, False)
    return RegisteredPool(pool.pool_id, row.number, _evaluate(connection, pool, row.number, version, now), True)


def attach(connection: sa.Connection, jeditaskid: int, pool: SubmitPool | None, required: TaskRequirements) -> None:
    """Attach requirements to the jobs of a task; call :func:`register` for the pool in the same transaction."""
    values = {
        "jeditaskid": jeditaskid,
        "pool_id": None if pool is None else pool.pool_id,
        "canonical": None if pool is None else pool.canonical,
        "requirements": None if required.section is None else json.dumps(dict(required.section)),
        "sites": json.dumps(sorted(set(required.sites))),
        "banned_sites": json.dumps(sorted(set(required.banned_sites))),
        "platforms": json.dumps(sorted(set(required.platforms))),
        "cputime_s": required.cputime_s,
        "specs": required.specs,
    }
    connection.execute(_SAVE_REQUIREMENT, values)


def restore_missing(connection: sa.Connection, names: Names, now: datetime) -> int:
    """Create removed pools again that open tasks still require; return how many."""
    missing = connection.execute(sa.text(names.sql(_READ_MISSING)), {"ended": list(ENDED)}).scalars().all()
    for canonical in missing:
        register(connection, parse_canonical(canonical), now)
    return len(missing)


def read_placement_constraints(connection: sa.Connection, tasks: Sequence[int]) -> dict[int, PlacementConstraints]:
    """The constraints of each of the tasks that requires a pool or restricts sites."""
    return {
        row.jeditaskid: PlacementConstraints(row.pool_id, tuple(row.sites), tuple(row.banned_sites))
        for row in connection.execute(_READ_REQUIREMENTS, {"tasks": array_of(tasks)})
    }


def _evaluate(connection: sa.Connection, pool: SubmitPool, number: int, version: ResourceVersion, now: datetime) -> int:
    queues = match_pools([pool], version.content.resources).eligible_queues(0)
    names = panda_queues(version.content.resources)
    columns: dict[str, list[str]] = {
        "sites": [queue.site for queue in queues],
        "ces": [queue.ce for queue in queues],
        "queues": [queue.queue for queue in queues],
    }
    connection.execute(_INSERT_QUEUES, columns | {"panda": [names[queue] for queue in queues]})
    connection.execute(_INSERT_LINKS, columns | {"pool": number, "now": now})
    connection.execute(_SAVE_QUEUE_COUNT, {"pool": number, "count": len(queues), "now": now})
    return len(queues)
