"""Numbers have one canonical text whatever their literal; large numbers are not expanded."""

from __future__ import annotations

from decimal import Decimal
from time import process_time

import pytest
from hypothesis import given, settings

from broker.pools.model.description import RequirementRefused, checked_text, decimal_text, number_of
from tests.pools.random_requirements import number_texts


@pytest.mark.parametrize(
    ("literal", "text"),
    [
        ("4000", "4000"), ("4000.0", "4000"), ("4e3", "4000"), ("+4E+03", "4000"), (" 4000 ", "4000"),
        ("0004000", "4000"), ("-0", "0"), ("-0.000", "0"), ("0e99", "0"), ("12e-1", "1.2"), ("-1.50", "-1.5"),
        ("1e-12", "0.000000000001"), ("0.1000000000000000", "0.1"), ("1e17", "100000000000000000"),
        ("999999999999999999.999999999999", "999999999999999999.999999999999"),
    ],
)  # fmt: skip
def test_equal_numbers_have_one_text(literal: str, text: str) -> None:
    assert decimal_text(literal) == text
    assert number_of(literal) == Decimal(text)


@pytest.mark.parametrize(
    ("literal", "code"),
    [
        ("1e18", "number-range"), ("-1000000000000000000", "number-range"), ("1e-13", "number-range"),
        ("0.1234567890123", "number-range"), ("1e999999999", "number-range"), ("1e-999999999", "number-range"),
        ("1e99", "number-range"), ("9" * 255, "number-range"), ("9" * 256, "value-too-long"),
        ("NaN", "not-a-number"), ("inf", "not-a-number"), ("-Infinity", "not-a-number"), ("", "not-a-number"),
        ("4GB", "not-a-number"), ("4 000", "not-a-number"), ("1_000", "not-a-number"), (".5", "not-a-number"),
        ("5.", "not-a-number"), ("0x10", "not-a-number"), ("1e", "not-a-number"), ("٣", "not-a-number"),
        ("--1", "not-a-number"), ("> 4", "not-a-number"), ("4,5", "not-a-number"),
    ],
)  # fmt: skip
def test_invalid_numbers_are_refused(literal: str, code: str) -> None:
    start = process_time()
    with pytest.raises(RequirementRefused) as refusal:
        decimal_text(literal)
    assert refusal.value.code == code
    assert number_of(literal) is None
    assert process_time() - start < 0.1


@given(number_texts())
@settings(max_examples=60, deadline=None)
def test_the_text_equals_the_number_and_is_its_own_canonical_text(literal: str) -> None:
    text = decimal_text(literal)
    assert Decimal(text) == Decimal(literal)
    assert decimal_text(text) == text
    assert "e" not in text.lower()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("  Intel Xeon\t", "Intel Xeon"),
        ("Zu\u0308rich", "Z\u00fcrich"),
        ("x" * 255, "x" * 255),
        ("a\u202eb", "a\u202eb"),
    ],
)
def test_texts_are_normalised_and_trimmed(value: str, text: str) -> None:
    assert checked_text(value) == text


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("", "empty-value"), (" \t\u00a0", "empty-value"),
        ("x" * 256, "value-too-long"), ("x" * 10**6, "value-too-long"),
        ("a\nb", "control-character"), ("a\x00b", "control-character"), ("a\x7fb", "control-character"),
        ("a\ud800b", "control-character"),
    ],
)  # fmt: skip
def test_invalid_texts_are_refused(value: str, code: str) -> None:
    with pytest.raises(RequirementRefused) as refusal:
        checked_text(value)
    assert refusal.value.code == code
