from __future__ import annotations

import numpy as np
import sqlalchemy as sa
from psycopg import sql

from broker.store.connection.array_transfer import copy_integers, integers_of, tables_of
from broker.store.connection.database import Database


def test_integers_of_any_type_and_number_arrive_unchanged(database: Database) -> None:
    limits = np.iinfo(np.int64)
    values = np.array([limits.min, -1, 0, 1, limits.max], dtype=np.int64)
    with database.begin() as connection:
        connection.execute(sa.text("CREATE TEMPORARY TABLE t (a bigint, b bigint, c bigint DEFAULT 7)"))
        raw = Database.raw(connection)
        copy_integers(raw, sql.Identifier("t"), {"b": values, "a": values > 0})
        copy_integers(raw, sql.Identifier("t"), {"a": values[:0], "b": values[:0]})
        rows = connection.execute(sa.text("SELECT a, b, c FROM t ORDER BY b")).all()
        assert [tuple(row) for row in rows] == [(int(value > 0), int(value), 7) for value in values]
        numbers = np.arange(200_001)
        copy_integers(raw, sql.Identifier("t"), {"a": numbers, "b": numbers})
        total = connection.execute(sa.text("SELECT count(*), sum(a) FROM t WHERE a = b AND c = 7")).one()
    assert tuple(total) == (200_001 + 2, 200_000 * 200_001 // 2 + 1)


def test_arrays_sent_by_the_server_are_decoded(database: Database) -> None:
    limits = np.iinfo(np.int64)
    query = "SELECT array_send(CAST(x AS bigint[])) FROM (VALUES (1, :a), (2, ARRAY[7])) AS t (n, x) ORDER BY n"
    with database.begin() as connection:
        arrays = connection.execute(sa.text(query), {"a": [limits.min, 0, limits.max]}).scalars()
        assert integers_of(bytes(data) for data in arrays).tolist() == [limits.min, 0, limits.max, 7]
    assert integers_of([]).tolist() == []


def test_tables_sent_by_the_server_are_decoded(database: Database) -> None:
    limits = np.iinfo(np.int64)
    query = """
        SELECT (SELECT array_send(array_agg(ARRAY[x, n, :low])) FROM unnest(CAST(given AS bigint[])) AS x)
        FROM (VALUES (1, :a), (2, NULL), (3, ARRAY[7])) AS t (n, given) ORDER BY n"""
    values = {"a": [limits.max, 0], "low": limits.min}
    with database.begin() as connection:
        arrays = connection.execute(sa.text(query), values).scalars().all()
    rows, sizes = tables_of(arrays, 3)
    assert rows.tolist() == [[limits.max, 1, limits.min], [0, 1, limits.min], [7, 3, limits.min]]
    assert sizes.tolist() == [2, 0, 1]


def test_no_tables_have_no_rows() -> None:
    for arrays in ([], [None]):
        rows, sizes = tables_of(arrays, 3)
        assert (rows.shape, sizes.tolist()) == ((0, 3), [0] * len(arrays))
