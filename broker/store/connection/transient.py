"""Transient errors of the database, separate from :mod:`.errors`, which has to be quick to import."""

from __future__ import annotations

import psycopg
from sqlalchemy import exc as sa_exc

from broker.store.connection.errors import DatabaseUnavailable

TRANSIENT_ERRORS: tuple[type[Exception], ...] = (
    DatabaseUnavailable,
    sa_exc.OperationalError,
    sa_exc.TimeoutError,
    psycopg.OperationalError,
    psycopg.errors.IdleInTransactionSessionTimeout,
    psycopg.errors.TransactionTimeout,
)
"""Nothing of the transaction was kept, and the same work may succeed later: lost connections, restarts, deadlocks,
serialization failures, timeouts of locks, statements and transactions, full disks, a busy pool."""
