"""The initial rows of ``resource_types`` in a standalone installation."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from broker.store.connection.tables import Names

Bounds = tuple[int | None, int | None]


def add_missing(connection: sa.Connection, names: Names, types: Sequence[tuple[str, Bounds, Bounds]]) -> list[str]:
    """Insert resource types; existing ones of the same name stay unchanged.

    Args:
        connection: connection in a transaction that can write.
        names: schema names of the database.
        types: name, cores of a job, and MB of memory per core; bounds are inclusive, None is open.

    Returns:
        The names of the types added.
    """
    statement = sa.text(f"""
        INSERT INTO {names.table("resource_types")} (resource_name, mincore, maxcore, minrampercore, maxrampercore)
        VALUES (:name, :mincore, :maxcore, :minram, :maxram) ON CONFLICT (resource_name) DO NOTHING""")  # noqa: S608
    added = []
    for name, cores, memory in types:
        values = {"name": name, "mincore": cores[0], "maxcore": cores[1], "minram": memory[0], "maxram": memory[1]}
        if connection.execute(statement, values).rowcount:
            added.append(name)
    return added
