"""The names of sites, endpoints and queues on record."""

from __future__ import annotations

import sqlalchemy as sa

from broker.store.connection.tables import Names


def site_names(connection: sa.Connection, names: Names) -> frozenset[str]:
    """The names of the known sites."""
    return _texts(connection, f"SELECT site_name FROM {names.table('site')}")  # noqa: S608 - quoted name


def endpoint_names(connection: sa.Connection, names: Names) -> frozenset[str]:
    """The names of the known endpoints."""
    return _texts(connection, f"SELECT ddm_endpoint_name FROM {names.table('ddm_endpoint')}")  # noqa: S608


def queue_is_known(connection: sa.Connection, names: Names, queue: str) -> bool:
    """Whether there is a queue of exactly this name."""
    return queue in queue_names(connection, names)


def queue_names(connection: sa.Connection, names: Names) -> frozenset[str]:
    """The names of all queues."""
    table = names.table("schedconfig_json")
    return _texts(connection, f"SELECT coalesce(data->>'nickname', panda_queue) FROM {table}")  # noqa: S608


def endpoint_sites(connection: sa.Connection, names: Names) -> dict[str, str]:
    """The site of each known endpoint."""
    query = f"SELECT ddm_endpoint_name, site_name FROM {names.table('ddm_endpoint')} WHERE site_name IS NOT NULL"  # noqa: S608
    return {str(row[0]): str(row[1]) for row in connection.execute(sa.text(query))}


def _texts(connection: sa.Connection, query: str) -> frozenset[str]:
    return frozenset(str(row[0]) for row in connection.execute(sa.text(query)))
