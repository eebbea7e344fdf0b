"""When cycles got worse: limits, what is usual, and hysteresis."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest

from broker.flow.model.drift import BYTES, COST, DriftLimits, Point, drifts

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
LIMITS = DriftLimits(percent=100.0, bytes_percent=50.0, rise=1.5, cycles=3, jobs=20)


def points(*values: float, figure: str = COST, jobs: int = 100) -> list[Point]:
    return [Point(NOW + timedelta(minutes=at), jobs, {figure: value}) for at, value in enumerate(values)]


def seen(*values: float, **given: object) -> list[tuple[str, int]]:
    return [(one.name, one.count) for one in drifts(points(*values, **given), LIMITS)]  # type: ignore[arg-type]


def test_three_cycles_above_the_limit_are_an_alarm_and_two_are_not() -> None:
    assert seen(120, 130) == []
    assert seen(120, 130, 140) == [(COST, 3)]
    (found,) = drifts(points(120, 130, 140), LIMITS)
    assert (found.first, found.percent, found.limit_percent, math.isnan(found.usual_percent)) == (NOW, 140, 100, True)


def test_a_rise_is_seen_far_below_the_limit() -> None:
    assert seen(20, 20, 20, 20, 40, 40) == []
    assert seen(20, 20, 20, 20, 40, 40, 40) == [(COST, 3)]
    assert seen(5, 5, 5, 5, 14, 14, 14) == [], "a small figure may double"
    (found,) = drifts(points(20, 20, 20, 20, 40, 40, 40), LIMITS)
    assert (found.usual_percent, found.limit_percent) == (20, 30)


def test_a_good_cycle_in_between_begins_anew_and_what_is_high_never_becomes_usual() -> None:
    assert seen(20, 20, 20, 40, 40, 20, 40, 40) == []
    assert seen(20, 20, 20, *[40] * 50) == [(COST, 50)]


@pytest.mark.parametrize(("after", "ends"), [((20, 20), False), ((20, 20, 20), True), ((29, 29, 29, 29), False)])
def test_it_ends_after_as_many_cycles_that_are_well_below(after: tuple[float, ...], ends: bool) -> None:
    assert (seen(20, 20, 20, 40, 40, 40, *after) == []) is ends


def test_small_cycles_do_not_count_and_bytes_may_be_fewer_than_at_best() -> None:
    assert seen(120, 130, 140, jobs=19) == []
    assert seen(-5, -5, -5, 4, 4, 4, figure=BYTES) == []
    assert seen(-5, -5, -5, 8, 8, 8, figure=BYTES) == [(BYTES, 3)]
