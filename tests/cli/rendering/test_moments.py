from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from broker.cli.rendering.cells import ago, utc, with_age

NOW = datetime(2026, 11, 22, 5, 20, 58, tzinfo=UTC)


def test_a_time_names_its_zone() -> None:
    assert utc(NOW) == utc(NOW.replace(tzinfo=None)) == "2026-11-22 05:20:58 UTC"
    assert utc(datetime(2026, 11, 22, 6, 20, 58, tzinfo=timezone(timedelta(hours=1)))) == "2026-11-22 05:20:58 UTC"


@pytest.mark.parametrize(
    ("seconds", "words"), [(720, "12 min ago"), (-300, "in 5 min"), (0, "now"), (0.4, "now"), (-1, "in 1 s")]
)
def test_an_age_is_never_negative(seconds: float, words: str) -> None:
    assert ago(NOW - timedelta(seconds=seconds), NOW) == words
    assert ago((NOW - timedelta(seconds=seconds)).replace(tzinfo=None), NOW) == words


def test_a_time_with_its_age() -> None:
    assert with_age(NOW - timedelta(minutes=12), NOW) == "2026-11-22 05:08:58 UTC (12 min ago)"
    assert with_age(None, NOW) == ""
