from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, example, given, settings, strategies as st

from broker.store.connection.array_transfer import array_of, array_of_nullable, array_of_texts
from broker.store.connection.database import Database

#: Any text that PostgreSQL stores, often with the delimiters of arrays.
TEXTS = st.lists(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
    | st.sampled_from(["", '"', '","', "\\", '\\"', "{", "}", ",", "NULL", "null", " a ", "mc16:a/", "%s", ":a"])
)


@example(values=['a","b'])
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=TEXTS)
def test_texts_arrive_unchanged(database: Database, values: list[str]) -> None:
    with database.begin() as connection:
        query = sa.text("SELECT CAST(:values AS text[])")
        assert connection.scalar(query, {"values": array_of_texts(values)}) == values


@pytest.mark.parametrize("values", [[], [0, -1, 2**63 - 1, -(2**63)]])
def test_numbers_arrive_unchanged(database: Database, values: list[int]) -> None:
    with database.begin() as connection:
        assert connection.scalar(sa.text("SELECT CAST(:values AS bigint[])"), {"values": array_of(values)}) == values


def test_booleans_arrive_unchanged(database: Database) -> None:
    with database.begin() as connection:
        query = sa.text("SELECT CAST(:values AS boolean[])")
        assert connection.scalar(query, {"values": array_of([True, False])}) == [True, False]


@pytest.mark.parametrize(
    ("kind", "values", "format_value"),
    [
        ("float8", [None, 1.5, float("inf"), -5e-324], repr),
        ("bigint", [2**63 - 1, None, None], str),
        ("bytea", [b"", b'\\"{', None], lambda data: f'"\\\\x{data.hex()}"'),
        ("text", [], str),
    ],
)
def test_nullable_values_arrive_unchanged(
    database: Database, kind: str, values: list[Any], format_value: Callable[[Any], str]
) -> None:
    with database.begin() as connection:
        query = sa.text(f"SELECT CAST(:values AS {kind}[])")
        assert connection.scalar(query, {"values": array_of_nullable(values, format_value)}) == values
