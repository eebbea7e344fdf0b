"""Write transactions that are committed only while a lease is in force. See ADR 31."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.store.service import leases
from broker.store.service.leases import Lease

LOCK_WITHIN_S = 5.0
"""Seconds that a statement waits for a lock; then the transaction ends, and the cycle is repeated."""
IDLE_WITHIN_S = 5.0
"""Seconds between two statements; then the server ends the transaction."""
_LONGEST_S = 86_400.0

# A process that is paused in the middle of its transaction must not keep the next leader waiting: between the closing
# fence and the commit a take-over waits for it.
SET_LOCK_TIMEOUTS = "SET LOCAL lock_timeout = {lock_ms}; SET LOCAL idle_in_transaction_session_timeout = {idle_ms}"


@contextlib.contextmanager
def writing(database: Database, lease: Lease, idle_within_s: float = IDLE_WITHIN_S) -> Iterator[sa.Connection]:
    """One transaction under ``lease``: fenced before the block, and again before the commit.

    Args:
        database: where to write.
        lease: that must be in force.
        idle_within_s: seconds that the block may work between two statements; between the closing fence and the
            commit it is never more than :data:`IDLE_WITHIN_S`.

    Raises:
        StaleLeaseError: the lease is not in force; nothing was written.
    """
    with database.begin() as connection:
        _limit(connection, idle_within_s)
        leases.fence(connection, lease)
        yield connection
        if idle_within_s > IDLE_WITHIN_S:
            _limit(connection, IDLE_WITHIN_S)
        leases.fence(connection, lease, closing=True)


def _limit(connection: sa.Connection, idle_within_s: float) -> None:
    limits = {"lock_ms": int(LOCK_WITHIN_S * 1000), "idle_ms": int(min(idle_within_s, _LONGEST_S) * 1000)}
    connection.exec_driver_sql(SET_LOCK_TIMEOUTS.format(**limits))
