from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from broker.cli.rendering.cells import ago, length, utc, with_age

NOW = datetime(2026, 11, 22, 5, 20, 58, tzinfo=UTC)


def test_a_time_says_its_zone() -> None:
    assert utc(NOW) == utc(NOW.replace(tzinfo=None)) == "2026-11-22 05:20:58 UTC"
    assert utc(datetime(2026, 11, 22, 6, 20, 58, tzinfo=timezone(timedelta(hours=1)))) == "2026-11-22 05:20:58 UTC"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (12 * 60, "12 min"),
        (7199, "120 min"),
        (7200, "2 h"),
        (47 * 3600, "47 h"),
        (48 * 3600, "2 d"),
        (-90, "2 min"),
    ],
)
def test_lengths_in_their_largest_fitting_unit(seconds: float, words: str) -> None:
    assert length(seconds) == words
    assert length(timedelta(seconds=seconds)) == words


@pytest.mark.parametrize(
    ("seconds", "words"), [(720, "12 min ago"), (-300, "in 5 min"), (0, "now"), (0.4, "now"), (-1, "in 1 s")]
)
def test_an_age_is_never_negative(seconds: float, words: str) -> None:
    assert ago(NOW - timedelta(seconds=seconds), NOW) == words
    assert ago((NOW - timedelta(seconds=seconds)).replace(tzinfo=None), NOW) == words


def test_a_time_with_its_age() -> None:
    assert with_age(NOW - timedelta(minutes=12), NOW) == "2026-11-22 05:08:58 UTC (12 min ago)"
    assert with_age(None, NOW) == ""
