"""Quiet hours by local time, over midnight, at weekends and when the clocks change."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from broker.notifications.model.rules import QuietHours
from broker.wrong_values import what_is_wrong


def quiet(**changes: Any) -> QuietHours:
    return QuietHours.model_validate({"from": "22:00", "to": "07:00", "zone": "Europe/Zurich", **changes})


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("now", "sent_at"),
    [
        ("2026-11-27T20:59", "2026-11-27T20:59"),  # 21:59 local time
        ("2026-11-27T21:00", "2026-11-28T06:00"),
        ("2026-11-28T05:59", "2026-11-28T06:00"),
        ("2026-11-28T06:00", "2026-11-28T06:00"),
        ("2026-07-01T20:00", "2026-07-02T05:00"),  # summer: two hours ahead
        ("2026-03-28T23:00", "2026-03-29T05:00"),  # an hour is skipped in this night
        ("2026-10-24T23:00", "2026-10-25T06:00"),  # an hour is repeated in this night
    ],
)
def test_quiet_hours_end_by_local_time(now: str, sent_at: str) -> None:
    assert quiet().ends(utc(now), "warning") == utc(sent_at)


def test_critical_messages_ignore_quiet_hours() -> None:
    night = utc("2026-11-27T23:00")
    assert quiet().ends(night, "critical") == night
    assert quiet(except_from="warning").ends(night, "warning") == night
    assert quiet(except_from=None).ends(night, "critical") == utc("2026-11-28T06:00")


def test_quiet_days_and_adjacent_spans() -> None:
    weekend = quiet(**{"from": "00:00", "to": "00:00"}, days=["sat", "sun"])
    saturday = utc("2026-11-28T12:00")
    assert weekend.ends(saturday, "info") == utc("2026-11-29T23:00")
    assert weekend.ends(utc("2026-11-30T12:00"), "info") == utc("2026-11-30T12:00")


def test_a_time_that_yaml_read_as_a_number_is_understood() -> None:
    assert QuietHours.model_validate({"from": 1320, "to": 420}) == QuietHours.model_validate(
        {"from": "22:00", "to": "07:00"}
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"zone": "Europe/Zuerich"}, "zone: 'Europe/Zuerich' is no time zone"),
        ({"zone": "../etc/passwd"}, "zone: '../etc/passwd' is no time zone"),
        ({"from": "25:00"}, "from: "),
        ({"from": "22:00+01:00"}, "times of day without a zone"),
        ({"days": ["someday"]}, "days.0: 'someday' is none of"),
        ({"until": "7"}, "until: is not known here"),
    ],
)
def test_invalid_values_are_named(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError) as error:
        quiet(**changes)
    assert words in what_is_wrong(error.value)
