"""Single values: the parsed value, or the code of the error."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, strategies as st

from broker.snapshot.raw import (
    MAX_JSON_CHARACTERS,
    MAX_NAME_CHARACTERS,
    BadValueError,
    json_object,
    lenient_number,
    name,
    not_negative,
    number,
    seconds,
    text,
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(3, 3.0), (-1, -1.0), ("12", 12.0), (" 1.5 ", 1.5), ("1e3", 1000.0), (Decimal("2.50"), 2.5), (0, 0.0)],
)
def test_numbers(value: Any, expected: float) -> None:
    assert number(value, "f") == expected


@pytest.mark.parametrize("value", [None, ""])
def test_null_is_the_default(value: Any) -> None:
    assert math.isnan(number(value, "f"))
    assert number(value, "f", 7.0) == 7.0


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (True, "wrong_type"),
        ([1], "wrong_type"),
        ({}, "wrong_type"),
        ("many", "wrong_type"),
        ("1_000", "wrong_type"),
        ("0x10", "wrong_type"),
        (10**400, "wrong_type"),
        (math.nan, "not_finite"),
        (math.inf, "not_finite"),
        ("nan", "not_finite"),
        ("-Infinity", "not_finite"),
        (Decimal("NaN"), "not_finite"),
        ("1e400", "not_finite"),
    ],
)
def test_invalid_numbers(value: Any, code: str) -> None:
    with pytest.raises(BadValueError) as exc_info:
        number(value, "maxrss")
    assert (exc_info.value.code, exc_info.value.field) == (code, "maxrss")
    faults: list[str] = []
    assert lenient_number(value, "maxrss", 5.0, faults) == 5.0
    assert faults == [str(exc_info.value)]


def test_negative_numbers_are_refused() -> None:
    assert not_negative(0, "f") == 0.0
    assert math.isnan(not_negative(None, "f"))
    with pytest.raises(BadValueError, match="negative"):
        not_negative(-1, "f")


@pytest.mark.parametrize(("value", "code"), [(3, "wrong_type"), ("a\0b", "not_text"), ("\ud800", "not_text")])
def test_texts(value: Any, code: str) -> None:
    assert text(None, "f") is None
    assert text("Zürich 大 \U0001f600 '%s\n", "f") == "Zürich 大 \U0001f600 '%s\n"
    with pytest.raises(BadValueError) as exc_info:
        text(value, "f")
    assert exc_info.value.code == code
    assert str(exc_info.value).isprintable()


@pytest.mark.parametrize(
    ("value", "code"),
    [(None, "missing"), ("", "missing"), (1, "wrong_type"), ("x" * (MAX_NAME_CHARACTERS + 1), "too_long")],
)
def test_invalid_names(value: Any, code: str) -> None:
    with pytest.raises(BadValueError) as exc_info:
        name(value, "nickname")
    assert exc_info.value.code == code


def test_the_longest_name() -> None:
    assert len(name("x" * MAX_NAME_CHARACTERS, "f")) == MAX_NAME_CHARACTERS


def test_an_error_message_is_short_for_any_value() -> None:
    with pytest.raises(BadValueError) as exc_info:
        name("x" * 1_000_000, "nickname")
    assert len(str(exc_info.value)) < 200


@pytest.mark.parametrize(
    ("document", "code"),
    [
        ("{", "invalid_json"),
        ("", "invalid_json"),
        ('{"a": NaN}', "invalid_json"),
        ('{"a": -Infinity}', "invalid_json"),
        ('{"a": 1, "a": 2}', "invalid_json"),
        ('{"b": {"a": 1, "a": 1}}', "invalid_json"),
        ('{"a": ' + "9" * 5000 + "}", "invalid_json"),
        ("[" * 100_000, "too_deep"),
        ('{"a":' * 100_000, "too_deep"),
        ("[]", "wrong_type"),
        ("null", "wrong_type"),
        ('"text"', "wrong_type"),
        (" " * (MAX_JSON_CHARACTERS + 1), "too_long"),
        (None, "wrong_type"),
        ({"a": 1}, "wrong_type"),
        (b"{}", "wrong_type"),
    ],
)
def test_invalid_objects(document: Any, code: str) -> None:
    with pytest.raises(BadValueError) as exc_info:
        json_object(document, "data")
    assert exc_info.value.code == code


def test_an_object() -> None:
    assert json_object('{"a": [1, {"b": null}]}', "data") == {"a": [1, {"b": None}]}


@given(st.text(max_size=60))
def test_any_text_gives_an_object_or_a_bad_value(document: str) -> None:
    try:
        assert isinstance(json_object(document, "data"), dict)
    except BadValueError as error:
        assert error.code in {"invalid_json", "wrong_type"}


def test_times() -> None:
    aware = datetime(2026, 8, 1, 12, tzinfo=UTC)
    assert seconds(aware, "ts") == seconds(aware.replace(tzinfo=None), "ts") == aware.timestamp()
    assert seconds(aware.astimezone(timezone(timedelta(hours=5))), "ts") == aware.timestamp()
    assert math.isnan(seconds(None, "ts"))
    for value in ("2026-08-01", 1.0):
        with pytest.raises(BadValueError, match="wrong_type"):
            seconds(value, "ts")
