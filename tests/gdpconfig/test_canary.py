"""Which tasks a canary chooses, when it runs, and which values it refuses."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from broker.gdpconfig.catalogue import shipped_catalogue
from broker.gdpconfig.proposals import Canary, CanaryRefused, check_canary, read_proposals

NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)

BROKERAGES = ("production_task", "production_job", "analysis_job")


def canary(number: int = 1, share: float = 0.1, stopped: datetime | None = None) -> Canary:
    return Canary(number, (), share, "me", "why", NOON, NOON + timedelta(hours=6), stopped)


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 0.9])
def test_about_a_share_of_the_tasks_is_chosen(share: float) -> None:
    chosen = canary(share=share).chosen(range(20_000))
    assert abs(chosen.mean() - share) < 4 * np.sqrt(share * (1 - share) / 20_000)


def test_each_canary_chooses_its_own_fixed_set_of_tasks() -> None:
    tasks = [5, 3, 5, *range(1000)]
    first = canary().chosen(tasks)
    assert (first == canary().chosen(tasks)).all() and first[0] == first[2] == canary().chooses(5)
    assert (first != canary(number=2).chosen(tasks)).any()
    assert (canary(share=0.2).chosen(tasks) >= first).all()  # a larger share includes the tasks of a smaller one
    assert (canary().chosen(task for task in tasks) == first).all()


@pytest.mark.parametrize(
    ("moment", "stopped", "runs"),
    [
        (NOON - SECOND, None, False),
        (NOON, None, True),
        (NOON + timedelta(hours=6) - SECOND, None, True),
        (NOON + timedelta(hours=6), None, False),
        (NOON + SECOND, NOON + SECOND, False),
        (NOON, NOON + SECOND, True),
        (NOON + timedelta(hours=6), NOON + timedelta(hours=7), False),
    ],
)
def test_a_canary_ends_by_itself_or_when_it_is_stopped(moment: datetime, stopped: datetime | None, runs: bool) -> None:
    assert canary(stopped=stopped).runs_at(moment) is runs


@pytest.mark.parametrize(
    ("text", "share", "message"),
    [
        ("MIN_WEIGHT_managed=1", 0.0, "nothing to compare"),
        ("MIN_WEIGHT_managed=1", 1.0, "nothing to compare"),
        ("MIN_WEIGHT_managed=1", float("nan"), "nothing to compare"),
        ("TIMEOUT_pending=3", 0.5, "not by a brokerage"),
        ("NW_ACTIVE=true", 0.5, "holds for queues"),
    ],
)
def test_values_that_cannot_be_tried_are_refused(text: str, share: float, message: str) -> None:
    proposals = read_proposals(shipped_catalogue(), [text], "atlas")
    with pytest.raises(CanaryRefused, match=message):
        check_canary(shipped_catalogue(), proposals, share, ("NW_ACTIVE",), BROKERAGES)
    check_canary(
        shipped_catalogue(), read_proposals(shipped_catalogue(), ["NW_ACTIVE=true"], "atlas"), 0.5, (), BROKERAGES
    )
