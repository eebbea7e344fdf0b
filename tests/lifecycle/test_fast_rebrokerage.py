from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from broker.lifecycle.model.fast_rebrokerage import (
    DRY_THRESHOLD,
    SLOTS,
    FastLimits,
    FastVerdict,
    ShareLoad,
    check_shares,
)

LIMITS = FastLimits(3.0, 0.3, {"MC": 1000})


def verdict(nqueue: int, nrunning: int, limits: FastLimits = LIMITS, other_nqueue: int = 7000) -> FastVerdict:
    verdicts = check_shares(
        [ShareLoad("Q", "MC", nqueue, nrunning), ShareLoad("other", "MC", other_nqueue, 10**6)], limits, {}
    )
    return next(entry for entry in verdicts if entry.load.queue == "Q")


def test_the_example_of_the_specification() -> None:
    result = verdict(5000, 400)
    assert (result.nqueue_total, result.excess) == (12000, 1400)
    assert (result.over_ratio, result.over_threshold, result.over_fraction, result.triggers) == (True, True, True, True)


@pytest.mark.parametrize(
    ("nqueue", "nrunning", "other_nqueue", "conditions", "excess"),
    [
        (3000, 1000, 0, (False, True, True), 0),
        (3001, 1000, 0, (True, True, True), 1),
        (1000, 0, 0, (True, False, True), 0),
        (1001, 0, 0, (True, True, True), 1),
        (3000, 0, 7000, (True, True, False), 0),
        (3001, 0, 7000, (True, True, True), 1),  # 3001 - 0.3 x 10001 = 0.7
        (3004, 0, 7000, (True, True, True), 3),  # 2.8
        (3100, 0, 7000, (True, True, True), 70),  # 70.0 exactly
        (0, 0, 7000, (False, False, False), 0),
        (0, 5, 7000, (False, False, False), 0),
    ],
)
def test_each_condition_is_strict_and_needed(
    nqueue: int, nrunning: int, other_nqueue: int, conditions: tuple[bool, ...], excess: int
) -> None:
    result = verdict(nqueue, nrunning, other_nqueue=other_nqueue)
    assert (result.over_ratio, result.over_threshold, result.over_fraction) == conditions
    assert result.excess == excess


@pytest.mark.parametrize(("nqueue", "excess"), [(DRY_THRESHOLD, 0), (DRY_THRESHOLD + 1, 1)])
def test_a_share_without_a_threshold_is_only_reported(nqueue: int, excess: int) -> None:
    result = verdict(nqueue, 0, FastLimits(3.0, 0.3, {"other share": 1}), other_nqueue=0)
    assert (result.triggers, result.threshold, result.excess) == (False, 10, excess)


@pytest.mark.parametrize(("nqueue", "total", "is_over"), [(29, 100, False), (30, 101, True)])
def test_fractions_are_exact_decimal_numbers(nqueue: int, total: int, is_over: bool) -> None:
    result = verdict(nqueue, 0, FastLimits(3.0, 0.29, {"MC": 1}), other_nqueue=total - nqueue)
    assert (result.over_fraction, result.excess > 0) == (is_over, is_over)


def test_totals_exclude_slots_and_include_other_exemptions() -> None:
    loads = [ShareLoad("Q", "MC", 2000, 0), ShareLoad("slots", "MC", 9000, 0), ShareLoad("paused", "MC", 1000, 0)]
    verdicts = check_shares(loads, LIMITS, {"slots": SLOTS, "paused": "paused"})
    by_queue = {entry.load.queue: entry for entry in verdicts}
    assert (by_queue["Q"].nqueue_total, by_queue["Q"].excess) == (3000, 1000)
    assert [(by_queue[queue].exempt, by_queue[queue].excess) for queue in ("slots", "paused")] == [
        (SLOTS, 0),
        ("paused", 0),
    ]
    assert by_queue["slots"].over_ratio


def test_a_settling_share_is_exempt_at_all_queues() -> None:
    loads = [ShareLoad(queue, share, 5000, 0) for queue in "QR" for share in ("MC", "A")]
    verdicts = check_shares(loads, FastLimits(3.0, 0.3, {}), {"R": SLOTS}, {"MC"})
    assert [(entry.load.queue, entry.load.gshare, entry.exempt, entry.excess > 0) for entry in verdicts] == [
        ("Q", "A", None, True), ("Q", "MC", "settling", False), ("R", "A", SLOTS, False), ("R", "MC", SLOTS, False),
    ]  # fmt: skip


def test_shares_and_jobs_without_a_share_are_judged_separately() -> None:
    loads = [ShareLoad("Q", None, 50, 0), ShareLoad("Q", "MC", 2000, 1000), ShareLoad("Q", "A", 5, 0)]
    verdicts = check_shares(loads, LIMITS, {})
    assert [(entry.load.gshare, entry.nqueue_total, entry.excess) for entry in verdicts] == [
        (None, 50, 35),
        ("A", 5, 0),
        ("MC", 2000, 0),
    ]
    assert [entry.triggers for entry in verdicts] == [False, False, True]


@given(st.integers(0, 10**6), st.integers(0, 10**5), st.integers(0, 10**6))
def test_without_its_excess_a_queue_is_within_its_limits(nqueue: int, nrunning: int, other_nqueue: int) -> None:
    excess = verdict(nqueue, nrunning, other_nqueue=other_nqueue).excess
    assert 0 <= excess <= nqueue
    remaining = nqueue - excess
    if excess:
        assert remaining <= max(3 * nrunning, 1000, 0.3 * (nqueue + other_nqueue)) < remaining + 1
