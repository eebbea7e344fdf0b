"""Which errors of the database pass by themselves."""

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
"""Lost connections, restarts, deadlocks, serialization failures, time-outs of locks, statements and transactions, full
disks, a busy pool:
nothing of the transaction was kept, and the same work may succeed later."""
