"""The share of tasks that name none."""

from __future__ import annotations

import sqlalchemy as sa

from broker.domain.classification import DEFAULT_SHARE
from broker.store.connection.tables import Names


def default_share(connection: sa.Connection, names: Names) -> str | None:
    """``default`` if that share is on record, else None: the task then has no share."""
    query = f"SELECT name FROM {names.table('global_shares')} WHERE name = :name"  # noqa: S608 - a quoted name
    name = connection.scalar(sa.text(query), {"name": DEFAULT_SHARE})
    return None if name is None else str(name)
