"""Which pilots the submitter sends and ends: both sides of each limit."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from broker.pilots.model.submission import (
    PilotRequests,
    PilotState,
    SentPilot,
    SubmissionLimits,
    job_name,
    may_be_healed,
    outcome_of,
    to_end,
    to_submit,
)

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
BEFORE = NOW - timedelta(seconds=1000)
LIMITS = SubmissionLimits(most_waiting=20, most_pilots=100, most_new=20, longest_wait_s=1000, withdrawn_after_s=600)


def pilots(
    number: int, state: PilotState = "submitted", planned_at: datetime = BEFORE, first: int = 1
) -> list[SentPilot]:
    return [
        SentPilot(first + number_in_list, "Q", "SCORE", "slurm", "7", state, planned_at, planned_at)
        for number_in_list in range(number)
    ]


def wanted(number: int, surplus: int = 0, name: str = "SCORE", sent: int = 0) -> PilotRequests:
    return PilotRequests(name, number, surplus, sent)


@pytest.mark.parametrize(
    ("number", "alive", "limits", "expected"),
    [
        (5, [], LIMITS, 5),
        (0, [], LIMITS, 0),
        (5, pilots(2), LIMITS, 5),
        (5, pilots(16), LIMITS, 4),
        (5, pilots(15, "running"), LIMITS, 5),
        (5, pilots(20), LIMITS, 0),
        (5, pilots(25), LIMITS, 0),
        (5, pilots(95, "running"), LIMITS, 5),
        (5, pilots(96, "running"), LIMITS, 4),
        (30, [], LIMITS, 20),
        (5, [], replace(LIMITS, most_new=0), 0),
    ],
)
def test_submissions_stay_within_the_limits(
    number: int, alive: list[SentPilot], limits: SubmissionLimits, expected: int
) -> None:
    assert to_submit([wanted(number)], alive, limits) == ({"SCORE": expected} if expected else {})


@pytest.mark.parametrize(("sent", "expected"), [(2, {"SCORE": 3}), (5, {}), (9, {})])
def test_pilots_sent_since_the_count_are_subtracted(sent: int, expected: dict[str, int]) -> None:
    assert to_submit([wanted(5, sent=sent)], [], LIMITS) == expected


def test_types_share_the_remaining_limit() -> None:
    limits = replace(LIMITS, most_new=6)
    assert to_submit([wanted(4), wanted(4, name="MCORE")], [], limits) == {"SCORE": 4, "MCORE": 2}


@pytest.mark.parametrize(
    ("seconds", "surplus", "expected"),
    [
        (1000, 0, {}),
        (1001, 0, {1: "waited_too_long", 2: "waited_too_long"}),
        (600, 1, {}),
        (601, 0, {}),
        (601, 1, {2: "withdrawn"}),
        (601, 5, {1: "withdrawn", 2: "withdrawn"}),
    ],
)
def test_pilots_that_wait_too_long_or_are_surplus_are_ended(
    seconds: int, surplus: int, expected: dict[int, str]
) -> None:
    planned = NOW - timedelta(seconds=seconds)
    alive = pilots(2, planned_at=planned) + pilots(1, "running", planned, 3) + pilots(1, "planned", planned, 4)
    assert to_end([wanted(0, surplus)], alive, LIMITS, NOW) == expected


@pytest.mark.parametrize(
    ("native", "pilot_status", "outcome"),
    [
        # a job id unknown to the batch system is no success
        ("COMPLETED", None, "ended"),
        ("COMPLETED", "started", "ended"),
        ("COMPLETED", "finished", "finished"),
        ("CANCELED", "finished", "finished"),
        ("CANCELED", "started", "cancelled"),
        ("FAILED", None, "failed"),
    ],
)
def test_the_status_reported_by_the_pilot_decides(native: str, pilot_status: str | None, outcome: str) -> None:
    assert outcome_of(native, pilot_status) == outcome


def test_only_old_submissions_are_looked_up_by_name() -> None:
    (planned,) = pilots(1, "planned", NOW - timedelta(seconds=60))
    assert may_be_healed(planned, NOW, timedelta(seconds=60))
    assert not may_be_healed(planned, NOW, timedelta(seconds=61))
    assert not may_be_healed(replace(planned, state="submitted"), NOW, timedelta(seconds=60))


def test_pilots_with_the_same_number_have_different_job_names() -> None:
    (planned,) = pilots(1, "planned", NOW)
    (later,) = pilots(1, "planned", NOW + timedelta(seconds=1))
    assert job_name("gridbroker", planned) == f"gridbroker-gridbroker-{planned.worker}-{int(NOW.timestamp()):x}"
    assert job_name("gridbroker", planned) != job_name("gridbroker", later)
