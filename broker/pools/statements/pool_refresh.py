"""Refreshing the mapping of SubmitPools to queues: all of it in one transaction, or none of it.

Only the differences are written: pairs that are new or gone, and for each pool when it was evaluated.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import sqlalchemy as sa
from psycopg import sql

from broker.domain.arrays import Bools, Ints
from broker.pools.model.description import RequirementRefused
from broker.pools.model.eligibility import evaluate
from broker.pools.model.panda_queues import panda_queues, tags_of_places
from broker.pools.model.requirement import SubmitPool, parse_canonical
from broker.pools.model.resources import QueueName, Resources
from broker.store.connection.array_transfer import copy_integers, integers_of
from broker.store.connection.database import Database

#: Bits of a pool's number in a pair; the higher bits are the queue's number.
POOL_BITS = 32

_READ_POOLS = sa.text("SELECT number, pool_id, canonical, queue_count FROM broker.submit_pools ORDER BY number")
_READ_LAST_REFRESH = sa.text("""
    SELECT last.resources, last.refreshed_at,
           (SELECT max(id) FROM broker.resource_versions) AS newest,
           EXISTS (SELECT FROM broker.submit_pools WHERE refreshed_at IS NULL) AS unevaluated,
           (SELECT min(coalesce(refreshed_at, created_at)) FROM broker.submit_pools) AS oldest
    FROM (SELECT 1) AS one LEFT JOIN broker.submit_pool_refreshes AS last ON true""")
# The lock makes a clean-up wait; the clean-up then checks again whether the pool is in use.
_LOCK_POOLS = sa.text("""
    SELECT number FROM broker.submit_pools WHERE number = ANY(:pools) ORDER BY number FOR NO KEY UPDATE""")
_STAGE = sa.text("""
    CREATE TEMPORARY TABLE staged_links (queue bigint, pool bigint) ON COMMIT DROP;
    CREATE TEMPORARY TABLE staged_queues (site text, ce text, queue text, panda_queue text, tags jsonb) ON COMMIT DROP;
    SET LOCAL work_mem = '64MB'""")
_STAGE_QUEUES = sa.text("""
    INSERT INTO staged_queues
    SELECT * FROM unnest(CAST(:sites AS text[]), CAST(:ces AS text[]), CAST(:queues AS text[]),
                         CAST(:panda AS text[]), CAST(:tags AS jsonb[]))""")
_GONE_QUEUES = sa.text("""
    DELETE FROM broker.resource_queues AS known
    WHERE NOT EXISTS (SELECT FROM staged_queues AS found WHERE (found.site, found.ce, found.queue)
        = (known.site, known.ce, known.queue))""")
_WRITE_QUEUES = sa.text("""
    INSERT INTO broker.resource_queues AS known (site, ce, queue, panda_queue, tags)
    SELECT site, ce, queue, panda_queue, tags FROM staged_queues
    ON CONFLICT (site, ce, queue) DO UPDATE SET panda_queue = excluded.panda_queue, tags = excluded.tags
    WHERE (known.panda_queue, known.tags) IS DISTINCT FROM (excluded.panda_queue, excluded.tags)""")
_READ_NUMBERS_OF_QUEUES = sa.text("SELECT site, ce, queue, number FROM broker.resource_queues")
# A pair as one number, so that a million of them are compared as one array.
_READ_LINKS = sa.text(f"""
    SELECT array_send(array_agg((queue << {POOL_BITS}) + pool)) FROM broker.submit_pool_links
    GROUP BY queue""")  # noqa: S608 - constants
_GONE_LINKS = sa.text("""
    DELETE FROM broker.submit_pool_links AS link USING staged_links AS gone
    WHERE link.queue = gone.queue AND link.pool = gone.pool""")
_NEW_LINKS = sa.text("""
    INSERT INTO broker.submit_pool_links (queue, pool, first_seen_at)
    SELECT queue, pool, CAST(:now AS timestamptz) FROM staged_links ORDER BY queue, pool
    ON CONFLICT DO NOTHING""")
_UNSTAGE = sa.text("TRUNCATE staged_links")
_ANALYSE = sa.text("ANALYZE staged_links")
_GONE_PAIRS = sa.text("""
    DELETE FROM broker.submit_pool_links AS link
    WHERE NOT EXISTS (SELECT FROM broker.resource_queues AS known WHERE known.number = link.queue)""")
_SAVE_QUEUE_COUNTS = sa.text("""
    UPDATE broker.submit_pools AS pool SET refreshed_at = :now, queue_count = found.queues
    FROM unnest(CAST(:pools AS integer[]), CAST(:counts AS integer[])) AS found (number, queues)
    WHERE pool.number = found.number""")
_SAVE_REFRESH = sa.text("""
    INSERT INTO broker.submit_pool_refreshes (resources, refreshed_at) VALUES (:resources, :now)
    ON CONFLICT (only_row) DO UPDATE SET resources = excluded.resources, refreshed_at = excluded.refreshed_at""")


@dataclass(frozen=True)
class RefreshState:
    """How current the mapping is.

    Attributes:
        resources: the version of the resources that it was made from; None before the first refresh.
        refreshed_at: time of the last successful refresh.
        newest: the newest version of the resources; None if there is none.
        unevaluated: whether there are pools that were never evaluated.
        oldest: when the pool with the oldest evaluation was evaluated; None without pools.
    """

    resources: int | None
    refreshed_at: datetime | None
    newest: int | None
    unevaluated: bool
    oldest: datetime | None

    def is_due(self, now: datetime, every_s: float) -> bool:
        """Whether to refresh the mapping: other resources, a waiting pool, or a refresh long enough ago."""
        if self.refreshed_at is None or self.resources != self.newest or self.unevaluated:
            return True
        return (now - self.refreshed_at).total_seconds() >= every_s

    def unrefreshed_s(self, now: datetime) -> float | None:
        """Seconds without a successful refresh of the pools; None without pools."""
        since = self.refreshed_at or self.oldest
        return None if since is None or self.oldest is None else (now - since).total_seconds()


@dataclass(frozen=True)
class Mapping:
    """Which queues are eligible for which pools.

    Attributes:
        pools: numbers of the pools.
        names: their identifiers.
        before: number of queues that each had before.
        eligible: shape (pools, queues).
        unreadable: identifiers of pools whose definition cannot be read; they keep their queues.
    """

    pools: Ints
    names: tuple[str, ...]
    before: Ints
    eligible: Bools
    unreadable: tuple[str, ...]

    @property
    def counts(self) -> Ints:
        """Number of queues of each pool."""
        return np.asarray(self.eligible.sum(axis=1), dtype=np.int64)


def refresh_state(connection: sa.Connection) -> RefreshState:
    """How current the mapping is."""
    return RefreshState(**connection.execute(_READ_LAST_REFRESH).one()._mapping)


def new_mapping(connection: sa.Connection, resources: Resources) -> Mapping:
    """All pools on record, evaluated on ``resources``; nothing is written."""
    pools: list[SubmitPool] = []
    rows, unreadable = [], []
    for row in connection.execute(_READ_POOLS):
        try:
            pools.append(parse_canonical(row.canonical))
            rows.append(row)
        except RequirementRefused:
            unreadable.append(row.pool_id)
    return Mapping(
        np.array([row.number for row in rows], dtype=np.int64),
        tuple(row.pool_id for row in rows),
        np.array([row.queue_count for row in rows], dtype=np.int64),
        evaluate(pools, resources),
        tuple(unreadable),
    )


def write_mapping(
    connection: sa.Connection, mapping: Mapping, resources: Resources, version: int, now: datetime
) -> dict[str, int]:
    """Write the differences in the caller's transaction; return the counts of what was written.

    A pool removed in the meantime is skipped; a pool registered in the meantime stays as it was registered.
    """
    connection.execute(_STAGE)
    locked = set(connection.execute(_LOCK_POOLS, {"pools": mapping.pools.tolist()}).scalars())
    is_locked = np.array([number in locked for number in mapping.pools.tolist()], dtype=np.bool_)
    numbers = _write_queues(connection, resources)
    rows, columns = np.nonzero(mapping.eligible & is_locked[:, None])
    wanted = np.sort((numbers[columns] << POOL_BITS) + mapping.pools[rows])
    recorded = np.sort(integers_of(bytes(pairs) for pairs in connection.execute(_READ_LINKS).scalars()))
    recorded_here = recorded[np.isin(recorded & (2**POOL_BITS - 1), mapping.pools[is_locked])]
    removed = _apply(connection, _GONE_LINKS, np.setdiff1d(recorded_here, wanted, assume_unique=True))
    added = _apply(connection, _NEW_LINKS, np.setdiff1d(wanted, recorded, assume_unique=True), now=now)
    if connection.execute(_GONE_QUEUES).rowcount:
        connection.execute(_GONE_PAIRS)
    evaluated = {"pools": mapping.pools[is_locked].tolist(), "counts": mapping.counts[is_locked].tolist(), "now": now}
    connection.execute(_SAVE_QUEUE_COUNTS, evaluated)
    connection.execute(_SAVE_REFRESH, {"resources": version, "now": now})
    return {"pools": int(is_locked.sum()), "queues": len(numbers), "added": added, "removed": removed}


def _apply(connection: sa.Connection, statement: sa.TextClause, pairs: Ints, **values: Any) -> int:
    """Run a statement on the pairs that differ; return how many rows it wrote."""
    if not len(pairs):
        return 0
    connection.execute(_UNSTAGE)
    staged = {"queue": pairs >> POOL_BITS, "pool": pairs & (2**POOL_BITS - 1)}
    copy_integers(Database.raw(connection), sql.Identifier("staged_links"), staged)
    connection.execute(_ANALYSE)
    return connection.execute(statement, values).rowcount


def _write_queues(connection: sa.Connection, resources: Resources) -> Ints:
    """Update the queues on record; return the number of each, in the order of the resources."""
    names: Sequence[QueueName] = resources.queues
    panda, tags = panda_queues(resources), tags_of_places(resources)
    columns: dict[str, list[Any]] = {"tags": [json.dumps(tags[name]) for name in names]}
    columns |= {"sites": [name.site for name in names], "ces": [name.ce for name in names]}
    values = columns | {"queues": [name.queue for name in names], "panda": [panda[name] for name in names]}
    connection.execute(_STAGE_QUEUES, values)
    connection.execute(_WRITE_QUEUES)
    numbers = {
        QueueName(site, ce, queue): number for site, ce, queue, number in connection.execute(_READ_NUMBERS_OF_QUEUES)
    }
    return np.array([numbers[name] for name in names], dtype=np.int64)
