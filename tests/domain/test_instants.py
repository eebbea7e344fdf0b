"""Instants with and without a time zone, and durations as text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from broker.domain.instants import aware, length, naive

NOON = datetime(2026, 8, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize("moment", [NOON, NOON.replace(tzinfo=None), NOON.astimezone(timezone(timedelta(hours=2)))])
def test_an_instant_is_the_same_in_every_zone(moment: datetime) -> None:
    assert naive(moment) == NOON.replace(tzinfo=None)
    assert aware(moment) == NOON and aware(moment).utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "0 s"), (-90, "0 s"), (119, "119 s"), (120, "2 min"), (720, "12 min"), (7199, "120 min"), (7200, "2 h"),
        (12_600, "3.5 h"), (47 * 3600, "47 h"), (48 * 3600, "2 d"), (60 * 3600, "2.5 d"),
    ],
)  # fmt: skip
def test_durations_use_the_largest_fitting_unit(seconds: float, expected: str) -> None:
    assert length(seconds) == expected
