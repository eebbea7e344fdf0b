from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from broker.store.scenarios.scenario_file import BadValue, from_column, parse_time, to_column


@pytest.mark.parametrize(
    ("sql_type", "value", "expected"),
    [
        ("smallint", 32767, 32767),
        ("smallint", -32768, -32768),
        ("integer", 2**31 - 1, 2**31 - 1),
        ("bigint", -(2**63), -(2**63)),
        ("bigint", 3.0, 3),
        ("numeric(9,2)", 2.5, 2.5),
        ("double precision", 7, 7),
        ("boolean", False, False),
        ("character varying(3)", "abc", "abc"),
        ("character varying(3)", "äöü", "äöü"),
        ("character(1)", "Y", "Y"),
        ("text", 5, "5"),
        ("text", {"a": [1, "ü"]}, '{"a":[1,"ü"]}'),
        ("text", "it's\n100%\t\\", "it's\n100%\t\\"),
        ("json", {"a": None}, '{"a":null}'),
        ("json", "\0", '"\\u0000"'),
        ("jsonb", [1.5], "[1.5]"),
        ("timestamp without time zone", "2026-08-01T12:00:00", datetime(2026, 8, 1, 12)),  # noqa: DTZ001
        ("timestamp without time zone", "2026-08-01T12:00:00Z", datetime(2026, 8, 1, 12)),  # noqa: DTZ001
        ("timestamp without time zone", "2026-08-01T12:00:00+02:00", datetime(2026, 8, 1, 10)),  # noqa: DTZ001
        ("timestamp with time zone", "2026-08-01T12:00:00", datetime(2026, 8, 1, 12, tzinfo=UTC)),
    ],
)
def test_valid_values_are_converted(sql_type: str, value: Any, expected: Any) -> None:
    converted = to_column(sql_type)(value)
    assert converted == expected
    assert type(converted) is type(expected)


@pytest.mark.parametrize(
    ("sql_type", "value", "reason"),
    [
        ("smallint", 32768, "16 bits"),
        ("integer", -(2**31) - 1, "32 bits"),
        ("bigint", 2**63, "64 bits"),
        ("bigint", 10**400, "64 bits"),
        ("bigint", 3.5, "whole number"),
        ("bigint", "3", "whole number"),
        ("bigint", True, "whole number"),
        ("numeric(9,2)", "x", "a number"),
        ("numeric(9,2)", False, "a number"),
        ("boolean", 1, "true or false"),
        ("character varying(3)", "abcd", "4 characters, the column takes 3"),
        ("character varying(4000)", "x" * 1_000_000, "1000000 characters, the column takes 4000"),
        ("text", True, "expected text"),
        ("text", "a\0b", "NUL"),
        ("text", "\ud800", "surrogate"),
        ("json", {"a": "\udfff"}, "surrogate"),
        ("jsonb", {"a": "\0"}, "NUL"),
        ("timestamp without time zone", "yesterday", "ISO 8601"),
        ("timestamp without time zone", 1754042400, "ISO 8601"),
        ("timestamp without time zone", "0001-01-01T00:00:00+01:00", "ISO 8601"),
    ],
)
def test_invalid_values_are_rejected(sql_type: str, value: Any, reason: str) -> None:
    with pytest.raises(BadValue, match=reason) as caught:
        to_column(sql_type)(value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("column", "sql_type", "value", "expected"),
    [
        ("data", "text", '{"a": 1}', {"a": 1}),
        ("data", "text", "[1]", [1]),
        ("data", "text", "5", "5"),
        ("data", "text", "not json", "not json"),
        ("other", "text", '{"a": 1}', '{"a": 1}'),
        ("other", "numeric(9,2)", Decimal("3.00"), 3),
        ("other", "numeric(9,2)", Decimal("3.25"), 3.25),
        ("other", "character(4)", "MB  ", "MB"),
        ("other", "character varying(4)", "MB  ", "MB  "),
        ("other", "timestamp without time zone", datetime(2026, 8, 1, 12), "2026-08-01T12:00:00"),  # noqa: DTZ001
        ("other", "timestamp with time zone", datetime(2026, 8, 1, 12, tzinfo=UTC), "2026-08-01T12:00:00+00:00"),
        ("other", "jsonb", {"a": 1}, {"a": 1}),
        ("other", "bigint", 7, 7),
    ],
)
def test_column_values_are_converted_back(column: str, sql_type: str, value: Any, expected: Any) -> None:
    converted = from_column("sw_tags", column, sql_type)(value)
    assert converted == expected
    assert type(converted) is type(expected)


def test_times_are_utc() -> None:
    assert parse_time("2026-08-01T12:00:00-01:00") == datetime(2026, 8, 1, 13, tzinfo=UTC)
    with pytest.raises(BadValue):
        parse_time(None)
