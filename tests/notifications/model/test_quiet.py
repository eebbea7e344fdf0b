"""Quiet hours by the clock of a place, over midnight, at week-ends and when the clocks change."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from broker.notifications.model.rules import QuietHours
from broker.wrong_values import what_is_wrong


def quiet(**given: Any) -> QuietHours:
    return QuietHours.model_validate({"from": "22:00", "to": "07:00", "zone": "Europe/Zurich", **given})


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("now", "told"),
    [
        ("2026-11-27T20:59", "2026-11-27T20:59"),  # 21:59 there
        ("2026-11-27T21:00", "2026-11-28T06:00"),
        ("2026-11-28T05:59", "2026-11-28T06:00"),
        ("2026-11-28T06:00", "2026-11-28T06:00"),
        ("2026-07-01T20:00", "2026-07-02T05:00"),  # summer: two hours ahead
        ("2026-03-28T23:00", "2026-03-29T05:00"),  # the night in which an hour is left out
        ("2026-10-24T23:00", "2026-10-25T06:00"),  # and that in which one comes twice
    ],
)
def test_a_night_ends_by_the_clock_of_the_place(now: str, told: str) -> None:
    assert quiet().ends(utc(now), "warning") == utc(told)


def test_what_is_grave_is_told_all_the_same() -> None:
    night = utc("2026-11-27T23:00")
    assert quiet().ends(night, "critical") == night
    assert quiet(except_from="warning").ends(night, "warning") == night
    assert quiet(except_from=None).ends(night, "critical") == utc("2026-11-28T06:00")


def test_spans_of_some_days_and_spans_that_meet() -> None:
    weekend = quiet(**{"from": "00:00", "to": "00:00"}, days=["sat", "sun"])
    saturday = utc("2026-11-28T12:00")
    assert weekend.ends(saturday, "info") == utc("2026-11-29T23:00")
    assert weekend.ends(utc("2026-11-30T12:00"), "info") == utc("2026-11-30T12:00")


def test_a_time_that_yaml_took_for_a_number_is_the_time_that_was_written() -> None:
    assert QuietHours.model_validate({"from": 1320, "to": 420}) == QuietHours.model_validate(
        {"from": "22:00", "to": "07:00"}
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"zone": "Europe/Zuerich"}, "zone: 'Europe/Zuerich' is no time zone"),
        ({"zone": "../etc/passwd"}, "zone: '../etc/passwd' is no time zone"),
        ({"from": "25:00"}, "from: "),
        ({"from": "22:00+01:00"}, "times of day without a zone"),
        ({"days": ["someday"]}, "days.0: 'someday' is none of"),
        ({"until": "7"}, "until: is not known here"),
    ],
)
def test_wrong_values_are_named(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError) as found:
        quiet(**given)
    assert words in what_is_wrong(found.value)
