from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from broker.lifecycle.model.analysis_rebrokerage import AnalysisLimits, JobSet, check_job_set
from broker.lifecycle.model.jobs import Queue

NOW = datetime(2026, 8, 1, 12)  # noqa: DTZ001 - as in PanDA's tables
H = 3600.0
LIMITS = AnalysisLimits(
    timeout_s=12 * H, by_group_s={"phys": 6 * H, "slow": 48 * H}, activity_s=3 * H, least_wait_s=3 * H
)


def queue(status: str | None, *exceptions: str) -> Queue:
    return Queue("Q", True, exceptions, status)


ONLINE, OFFLINE, TEST = queue("online"), queue("offline"), queue("test")


def jobs(wait_s: float | None, active_s: float | None = None, group: str | None = None) -> JobSet:
    def ago(seconds: float | None) -> datetime | None:
        return None if seconds is None else NOW - timedelta(seconds=seconds)

    return JobSet("jobsactive4", 1, 2, "u", "Q", group, ago(wait_s), ago(active_s))


@pytest.mark.parametrize(
    ("job_set", "queue", "outcome", "limit_h"),
    [
        (jobs(12 * H - 1), ONLINE, "fresh", 12),
        (jobs(12 * H), ONLINE, "rebrokered", 12),  # an age equal to the limit triggers
        (jobs(12 * H + 1), ONLINE, "rebrokered", 12),
        (jobs(6 * H - 1, group="phys"), ONLINE, "fresh", 6),
        (jobs(6 * H, group="phys"), ONLINE, "rebrokered", 6),
        (jobs(12 * H, group="other"), ONLINE, "rebrokered", 12),
        (jobs(47 * H, group="slow"), ONLINE, "fresh", 48),
        (jobs(12 * H, group=""), ONLINE, "rebrokered", 12),
        (jobs(20 * H, 3 * H), ONLINE, "rebrokered", 12),
        (jobs(20 * H, 3 * H - 1), ONLINE, "active", 12),
        (jobs(20 * H, -60.0), ONLINE, "active", 12),  # a clock that runs ahead
        (jobs(3 * H), OFFLINE, "too_young", 3),
        (jobs(3 * H + 1), OFFLINE, "rebrokered", 3),
        (jobs(3 * H + 1, 10.0), TEST, "rebrokered", 3),
        (jobs(3 * H + 1), queue("brokeroff"), "fresh", 12),
        (jobs(3 * H + 1), queue(None), "fresh", 12),
        (jobs(-5.0), ONLINE, "too_young", 12),
        (jobs(None), ONLINE, "time_unknown", 12),
        (jobs(90 * H), None, "unknown_queue", 12),
        (jobs(90 * H), Queue("Q", known=False), "unknown_queue", 12),
        (jobs(90 * H), queue("paused", "paused"), "exempt", 12),
        (jobs(90 * H), queue("offline", "disableReassign"), "exempt", 3),
        (jobs(90 * H), queue(None, "queue_unreadable"), "exempt", 12),
    ],
)
def test_both_sides_of_every_limit(job_set: JobSet, queue: Queue | None, outcome: str, limit_h: float) -> None:
    verdict = check_job_set(job_set, queue, LIMITS, NOW)
    assert (verdict.outcome, verdict.limit_s) == (outcome, limit_h * H)


def test_a_timeout_is_at_least_the_minimum_wait() -> None:
    limits: dict[str, Any] = {"by_group_s": {}, "activity_s": 0.0, "least_wait_s": 3 * H}
    short = AnalysisLimits(timeout_s=H, **limits)
    assert [check_job_set(jobs(wait_s), ONLINE, short, NOW).outcome for wait_s in (3 * H, 3 * H + 1)] == [
        "too_young",
        "rebrokered",
    ]
