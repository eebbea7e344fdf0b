"""Drift of cycles: limits, usual values, and hysteresis."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest

from broker.flow.model.drift import BYTES, COST, DriftLimits, Point, drifts

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
LIMITS = DriftLimits(percent=100.0, bytes_percent=50.0, rise=1.5, cycles=3, jobs=20)


def points(*values: float, figure: str = COST, jobs: int = 100) -> list[Point]:
    return [Point(NOW + timedelta(minutes=at), jobs, {figure: value}) for at, value in enumerate(values)]


def alarms(*values: float, **options: object) -> list[tuple[str, int]]:
    return [(drift.name, drift.count) for drift in drifts(points(*values, **options), LIMITS)]  # type: ignore[arg-type]


def test_three_cycles_above_the_limit_are_an_alarm_and_two_are_not() -> None:
    assert alarms(120, 130) == []
    assert alarms(120, 130, 140) == [(COST, 3)]
    (drift,) = drifts(points(120, 130, 140), LIMITS)
    assert (drift.first, drift.percent, drift.limit_percent, math.isnan(drift.usual_percent)) == (NOW, 140, 100, True)


def test_a_rise_is_an_alarm_far_below_the_limit() -> None:
    assert alarms(20, 20, 20, 20, 40, 40) == []
    assert alarms(20, 20, 20, 20, 40, 40, 40) == [(COST, 3)]
    assert alarms(5, 5, 5, 5, 14, 14, 14) == [], "a small figure may double"
    (drift,) = drifts(points(20, 20, 20, 20, 40, 40, 40), LIMITS)
    assert (drift.usual_percent, drift.limit_percent) == (20, 30)


def test_a_good_cycle_resets_the_count_and_high_values_never_become_usual() -> None:
    assert alarms(20, 20, 20, 40, 40, 20, 40, 40) == []
    assert alarms(20, 20, 20, *[40] * 50) == [(COST, 50)]


@pytest.mark.parametrize(("after", "ends"), [((20, 20), False), ((20, 20, 20), True), ((29, 29, 29, 29), False)])
def test_an_alarm_ends_after_as_many_cycles_well_below_the_limit(after: tuple[float, ...], ends: bool) -> None:
    assert (alarms(20, 20, 20, 40, 40, 40, *after) == []) is ends


def test_small_cycles_do_not_count_and_bytes_may_be_below_the_optimum() -> None:
    assert alarms(120, 130, 140, jobs=19) == []
    assert alarms(-5, -5, -5, 4, 4, 4, figure=BYTES) == []
    assert alarms(-5, -5, -5, 8, 8, 8, figure=BYTES) == [(BYTES, 3)]
