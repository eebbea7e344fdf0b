"""Numbers have one text, whatever their literal; nothing large is expanded."""

from __future__ import annotations

from decimal import Decimal
from time import process_time

import pytest
from hypothesis import given, settings

from broker.pools.model.description import RequirementRefused, checked_text, decimal_text, number_of
from tests.pools.random_requirements import number_texts


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("4000", "4000"), ("4000.0", "4000"), ("4e3", "4000"), ("+4E+03", "4000"), (" 4000 ", "4000"),
        ("0004000", "4000"), ("-0", "0"), ("-0.000", "0"), ("0e99", "0"), ("12e-1", "1.2"), ("-1.50", "-1.5"),
        ("1e-12", "0.000000000001"), ("0.1000000000000000", "0.1"), ("1e17", "100000000000000000"),
        ("999999999999999999.999999999999", "999999999999999999.999999999999"),
    ],
)  # fmt: skip
def test_one_text_for_a_number(written: str, text: str) -> None:
    assert decimal_text(written) == text
    assert number_of(written) == Decimal(text)


@pytest.mark.parametrize(
    ("written", "code"),
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
def test_what_is_no_number_here(written: str, code: str) -> None:
    started = process_time()
    with pytest.raises(RequirementRefused) as refused:
        decimal_text(written)
    assert refused.value.code == code
    assert number_of(written) is None
    assert process_time() - started < 0.1


@given(number_texts())
@settings(max_examples=60, deadline=None)
def test_the_text_means_the_same_number_and_is_its_own_text(written: str) -> None:
    text = decimal_text(written)
    assert Decimal(text) == Decimal(written)
    assert decimal_text(text) == text
    assert "e" not in text.lower()


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("  Intel Xeon\t", "Intel Xeon"),
        ("Zu\u0308rich", "Z\u00fcrich"),
        ("x" * 255, "x" * 255),
        ("a\u202eb", "a\u202eb"),
    ],
)
def test_texts_are_normalised_and_trimmed(written: str, text: str) -> None:
    assert checked_text(written) == text


@pytest.mark.parametrize(
    ("written", "code"),
    [
        ("", "empty-value"), (" \t\u00a0", "empty-value"),
        ("x" * 256, "value-too-long"), ("x" * 10**6, "value-too-long"),
        ("a\nb", "control-character"), ("a\x00b", "control-character"), ("a\x7fb", "control-character"),
        ("a\ud800b", "control-character"),
    ],
)  # fmt: skip
def test_texts_that_are_refused(written: str, code: str) -> None:
    with pytest.raises(RequirementRefused) as refused:
        checked_text(written)
    assert refused.value.code == code
