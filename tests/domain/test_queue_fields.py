"""Fields of queues that operators may pin, and their values."""

from __future__ import annotations

import pytest

from broker.domain.queue_fields import FIELDS, BadFieldValue, NumberRange, field_value


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        ("status", "brokeroff", "brokeroff"),
        ("maxrss", "0", 0),
        ("maxinputsize", "-1", -1),
        ("corepower", "12.5", 12.5),
        ("is_cvmfs", "True", True),
        ("direct_access_lan", "false", False),
        ("catchall", "a=b,c", "a=b,c"),
    ],
)
def test_values(field: str, text: str, value: object) -> None:
    parsed = field_value(field, text)
    assert parsed == value and type(parsed) is type(value)


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("status", "closed"),
        ("status", ""),
        ("color", "red"),
        ("maxrss", "-1"),
        ("maxrss", "1.5"),
        ("maxrss", "1_000"),
        ("maxrss", "much"),
        ("maxinputsize", "-2"),
        ("corepower", "nan"),
        ("corepower", "inf"),
        ("is_cvmfs", "yes"),
        ("cloud", ""),
        ("cloud", "a\nb"),
        ("catchall", "x" * 4001),
    ],
)
def test_invalid_values_are_refused(field: str, text: str) -> None:
    with pytest.raises(BadFieldValue) as refused:
        field_value(field, text)
    assert refused.value.accepts


@pytest.mark.parametrize("field", [name for name, limits in FIELDS.items() if isinstance(limits, NumberRange)])
def test_both_sides_of_each_range(field: str) -> None:
    bounds = FIELDS[field]
    assert isinstance(bounds, NumberRange)
    for text in (f"{bounds.lowest:.0f}", f"{bounds.highest:.0f}"):
        assert field_value(field, text) == float(text)
    for outside in (f"{bounds.lowest - 1:.0f}", f"{bounds.highest + 1:.0f}"):
        with pytest.raises(BadFieldValue):
            field_value(field, outside)
