from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from broker.simulation.model.demo.clock import Clock


def test_times_are_utc_without_zone_and_whole_seconds() -> None:
    clock = Clock(datetime(2026, 8, 1, 14, 0, 0, 999, tzinfo=timezone(timedelta(hours=2))))
    assert clock.now == "2026-08-01T12:00:00"


def test_earlier_and_later() -> None:
    clock = Clock(datetime(2026, 8, 1, 12, tzinfo=UTC))
    assert clock.ago(hours=25, minutes=30) == "2026-07-31T10:30:00"
    assert clock.ago(hours=-1) == "2026-08-01T13:00:00"


def test_a_time_without_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        Clock(datetime(2026, 8, 1, 12))  # noqa: DTZ001 - the case under test
