"""Rows of small statements read without SQLAlchemy have the same values as with it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.store.connection.plain_rows import mappings, scalar, tuples

AT = datetime(2026, 3, 4, 12, tzinfo=UTC)
CASES: list[tuple[str, dict[str, Any] | None]] = [
    ("SELECT 1 AS one, NULL AS none, 'a%b' AS text", None),
    ("SELECT 7 % 4 AS rest, CAST(:at AS timestamptz) AS at", {"at": AT}),
    ("SELECT :name AS name, :name || 'x' AS again, '{\"a\": [1]}'::jsonb AS document", {"name": "it's 5 %"}),
    ("SELECT x FROM unnest(CAST(:numbers AS bigint[])) AS x WHERE x > :least", {"numbers": [1, 2, 3], "least": 1}),
    ("SELECT 1.5::numeric AS exact, 2.5::float8 AS about, ARRAY['x', NULL] AS texts, interval '90 s' AS passed", None),
    ("SELECT 1 AS one WHERE false", None),
]  # fmt: skip


@pytest.mark.parametrize(("query", "values"), CASES, ids=[query[:30] for query, _ in CASES])
def test_the_values_equal_those_of_sqlalchemy(
    shared_database: Database, query: str, values: dict[str, Any] | None
) -> None:
    statement = sa.text(query)
    with shared_database.read_snapshot() as connection:
        expected = connection.execute(statement, values or {}).all()
        assert tuples(connection, statement, values) == [tuple(row) for row in expected]
        assert mappings(connection, statement, values) == [dict(row._mapping) for row in expected]
        assert scalar(connection, statement, values) == (expected[0][0] if expected else None)


def test_rows_are_read_in_the_transaction_of_the_connection(database: Database) -> None:
    with database.begin() as connection:
        connection.execute(sa.text("CREATE TEMP TABLE numbers (number int); INSERT INTO numbers VALUES (3)"))
        assert scalar(connection, sa.text("SELECT number FROM numbers")) == 3
    with database.read_snapshot() as connection:
        assert scalar(connection, sa.text("SHOW transaction_isolation")) == "repeatable read"
