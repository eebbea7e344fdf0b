"""Classes of queues by waiting times: values computed by hand, with both sides of every boundary."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from broker.classes.site_classes import ClassLimits, WaitTime, class_limits, site_classes, starts_window, wait_times
from broker.domain.arrays import floats, texts
from broker.domain.classification import QueueAbout, QueuedSamples, SlotStarts, WaitSamples

H = 3600.0
NOTHING_QUEUED = QueuedSamples(texts([]), texts([]), floats([]))
GRID_QUEUES = {name: QueueAbout() for name in ("A", "B", "C", "D", "E", "F")}


def samples(*rows: tuple[str | None, float | None, float | None]) -> WaitSamples:
    """Build samples from rows of queue, wait in s and age in s."""
    return WaitSamples(texts(row[0] for row in rows), floats(row[1] for row in rows), floats(row[2] for row in rows))


def queued(*rows: tuple[str, str, float]) -> QueuedSamples:
    """Build queued samples from rows of queue, status and seconds in the queue."""
    return QueuedSamples(texts(row[0] for row in rows), texts(row[1] for row in rows), floats(row[2] for row in rows))


def test_newer_samples_count_more() -> None:
    """The weights are 1, 1/2 and 1/4, the mean is 1800 / 1.75, and t(0.95) with 1.75 degrees of freedom is 3.225333."""
    wait = wait_times(samples(("A", 600, 0), ("A", 1200, 12 * H), ("A", 2400, 24 * H)), NOTHING_QUEUED, GRID_QUEUES)[
        "A"
    ]
    assert (wait.n, wait.mean, wait.med) == (3, 1400.0, 1200.0)
    assert wait.stdev == pytest.approx(748.3314773548)
    assert wait.cl95upp == pytest.approx(1400 + 2.9199855804 * 748.3314773548)
    assert wait.sum_of_weights == pytest.approx(1.75)
    assert wait.w_mean == pytest.approx(1028.5714285714)
    assert wait.w_stdev == pytest.approx(618.0945081)
    assert wait.w_cl95upp == pytest.approx(T_LIMIT)
    assert (wait.long_q_n, wait.long_q_mean) == (0, wait.w_mean)
    assert wait.ranked_s == wait.w_cl95upp


T_LIMIT = 1028.5714285714286 + 618.0945081 * 3.2253333


def test_invalid_samples_are_ignored() -> None:
    """Ignore negative waits, starts in the future, NULLs, unknown queues, and samples too old to have weight."""
    rows = [("A", 60, 60), ("A", 60, 60), ("A", -1, 60), ("A", 9e5, -1), ("A", None, 60), ("A", 60, None)]
    rows += [("GONE", 60, 60), (None, 60, 60), ("A", 9e5, 1e9), ("B", -1, 60)]
    waits = wait_times(samples(*rows), NOTHING_QUEUED, GRID_QUEUES)
    assert list(waits) == ["A"]
    assert (waits["A"].n, waits["A"].w_mean, waits["A"].w_stdev, waits["A"].w_cl95upp) == (2, 60.0, 0.0, 60.0)
    assert waits["A"].cl95upp == 60.0


def test_a_single_sample_gives_no_limit_and_no_class() -> None:
    waits = wait_times(samples(("A", 60, 60)), NOTHING_QUEUED, GRID_QUEUES)
    document = waits["A"].row("A").document
    assert (document["n"], document["w_mean"], document["w_cl95upp"], document["cl95upp"]) == (1, 60.0, None, None)
    assert math.isnan(waits["A"].ranked_s)
    assert site_classes(waits, GRID_QUEUES, ClassLimits(H, 3 * H), starts(A=9), starts(A=9)) == {}
    assert class_limits(waits, GRID_QUEUES) == ClassLimits(3600.0, 10800.0)
    json.dumps(document, allow_nan=False)


def test_the_limit_of_few_old_samples_is_capped() -> None:
    rows = [("A", 60, 90 * H), ("A", 6000, 90 * H)]
    assert wait_times(samples(*rows), NOTHING_QUEUED, GRID_QUEUES)["A"].w_cl95upp == 999_999.0


@pytest.mark.parametrize(
    ("workflow", "long_count", "mean"),
    [("pull_ups", 2, 250.0), (None, 2, 250.0), ("push", 3, 300.0), ("push_special", 3, 300.0), ("pull_push", 2, 250.0)],
)
def test_merge_jobs_waiting_longer_than_the_mean(workflow: str | None, long_count: int, mean: float) -> None:
    """The mean is 100: a wait of 100 s is not long. Starting jobs count as waiting only where jobs are pushed."""
    waiting = queued(
        ("A", "activated", 200), ("A", "sent", 300), ("A", "starting", 400), ("A", "activated", 100), ("B", "sent", 999)
    )
    queues = GRID_QUEUES | {"A": QueueAbout(workflow=workflow)}
    wait = wait_times(samples(("A", 90, 0), ("A", 110, 0)), waiting, queues)["A"]
    assert (wait.long_q_n, wait.long_q_mean) == (long_count, mean)
    assert wait.ranked_s == max(wait.w_cl95upp, mean)


def wait_time(cl95upp: float, long_q_n: int = 0, long_q_mean: float = 0.0) -> WaitTime:
    return WaitTime(9, 1.0, 1.0, 1.0, 1.0, 9.0, 1.0, 1.0, cl95upp, long_q_n, long_q_mean)


def starts(**slots: float) -> SlotStarts:
    return SlotStarts(slots, 2.0)


def test_limits_are_quantiles_of_the_grid() -> None:
    """Waits of 2, 4, 6 and 8 h: limits 0.333 x 3 = 0.999 and 0.667 x 3 = 2.001 steps up. HPC and NaN do not count."""
    waits = {name: wait_time(hours * H) for name, hours in zip("ABCD", (2, 4, 6, 8), strict=True)}
    waits |= {"E": wait_time(99 * H), "F": wait_time(math.nan)}
    limits = class_limits(waits, GRID_QUEUES | {"E": QueueAbout("hpc")})
    assert limits.hi_s == pytest.approx((2 + 2 * 0.999) * H)
    assert limits.lo_s == pytest.approx((6 + 2 * 0.001) * H)
    assert class_limits({"E": wait_time(99 * H)}, {"E": QueueAbout("hpc")}) == ClassLimits(3600.0, 10800.0)
    assert class_limits({"A": wait_time(60.0)}, GRID_QUEUES) == ClassLimits(3600.0, 10800.0)


@pytest.mark.parametrize(
    ("wait", "slots", "expected"),
    [
        (wait_time(5000.0), 1, 1),
        (wait_time(5000.001), 1, 0),
        (wait_time(5000.0), 0, 0),  # no job has started for a day
        (wait_time(5000.0, 3, 5000.001), 1, 1),  # too few jobs wait long
        (wait_time(5000.0, 4, 5000.001), 1, 0),
        (wait_time(5000.0, 4, 5000.0), 1, 1),
        (wait_time(5000.001, 0, 1.0), 1, 0),
        (wait_time(5000.0, 3, 99999.0), 1, 1),
        (wait_time(5000.0, 3, 99999.0), 0, -1),
        (wait_time(12000.0), 1, 0),
        (wait_time(12000.001), 1, -1),
        (wait_time(1.0, 4, 12000.001), 1, -1),
        (wait_time(999_999.0), 1, -1),
    ],
)
def test_classes(wait: WaitTime, slots: float, expected: int) -> None:
    site = site_classes({"A": wait}, GRID_QUEUES, ClassLimits(5000.0, 12000.0), starts(), starts(A=slots))["A"]
    assert site.site_class == expected
    assert site.row("A").document == {
        "resource_type": "GRID",
        "strr_6h": 0.0,
        "strr_1d": slots / 2.0,
        "class": expected,
    }


def test_queues_of_other_resources_have_a_class_too() -> None:
    queues = {"A": QueueAbout("hpc")}
    site = site_classes({"A": wait_time(60.0)}, queues, ClassLimits(H, 3 * H), starts(A=8), starts(A=4))["A"]
    assert (site.resource_type, site.site_class, site.strr_6h, site.strr_1d) == ("hpc", 1, 4.0, 2.0)


@pytest.mark.parametrize(
    ("now", "since", "until"),
    [
        ((12, 0, 0), (6, 0), (11, 50)),
        ((12, 5, 0), (6, 0), (12, 0)),
        ((12, 4, 59), (6, 0), (11, 50)),
        ((12, 59, 59), (6, 50), (12, 50)),
    ],
)
def test_the_window_of_slot_starts(now: tuple[int, ...], since: tuple[int, ...], until: tuple[int, ...]) -> None:
    day: tuple[Any, ...] = (2026, 8, 1)
    window = starts_window(datetime(*day, *now, 77, tzinfo=UTC), 6.0)
    assert window == (datetime(*day, *since, tzinfo=UTC), datetime(*day, *until, tzinfo=UTC))


def test_without_samples_there_are_no_waits() -> None:
    assert wait_times(samples(), NOTHING_QUEUED, GRID_QUEUES) == {}
    assert np.isfinite(class_limits({}, {}).hi_s)
