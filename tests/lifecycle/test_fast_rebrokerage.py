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


def verdict(nqueue: int, nrunning: int, limits: FastLimits = LIMITS, others: int = 7000) -> FastVerdict:
    found = check_shares([ShareLoad("Q", "MC", nqueue, nrunning), ShareLoad("other", "MC", others, 10**6)], limits, {})
    return next(one for one in found if one.load.queue == "Q")


def test_the_example_of_the_specification() -> None:
    found = verdict(5000, 400)
    assert (found.nqueue_total, found.excess) == (12000, 1400)
    assert (found.over_ratio, found.over_threshold, found.over_fraction, found.triggers) == (True, True, True, True)


@pytest.mark.parametrize(
    ("nqueue", "nrunning", "others", "met", "excess"),
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
    nqueue: int, nrunning: int, others: int, met: tuple[bool, ...], excess: int
) -> None:
    found = verdict(nqueue, nrunning, others=others)
    assert (found.over_ratio, found.over_threshold, found.over_fraction) == met
    assert found.excess == excess


@pytest.mark.parametrize(("nqueue", "excess"), [(DRY_THRESHOLD, 0), (DRY_THRESHOLD + 1, 1)])
def test_a_share_without_a_threshold_is_only_reported(nqueue: int, excess: int) -> None:
    found = verdict(nqueue, 0, FastLimits(3.0, 0.3, {"other share": 1}), others=0)
    assert (found.triggers, found.threshold, found.excess) == (False, 10, excess)


@pytest.mark.parametrize(("nqueue", "total", "over"), [(29, 100, False), (30, 101, True)])
def test_fractions_are_the_decimal_numbers_that_were_written(nqueue: int, total: int, over: bool) -> None:
    found = verdict(nqueue, 0, FastLimits(3.0, 0.29, {"MC": 1}), others=total - nqueue)
    assert (found.over_fraction, found.excess > 0) == (over, over)


def test_slots_are_in_no_total_and_other_exemptions_are() -> None:
    loads = [ShareLoad("Q", "MC", 2000, 0), ShareLoad("slots", "MC", 9000, 0), ShareLoad("paused", "MC", 1000, 0)]
    found = check_shares(loads, LIMITS, {"slots": SLOTS, "paused": "paused"})
    by_queue = {one.load.queue: one for one in found}
    assert (by_queue["Q"].nqueue_total, by_queue["Q"].excess) == (3000, 1000)
    assert [(by_queue[q].exempt, by_queue[q].excess) for q in ("slots", "paused")] == [(SLOTS, 0), ("paused", 0)]
    assert by_queue["slots"].over_ratio


def test_a_share_that_settles_is_left_alone_everywhere() -> None:
    loads = [ShareLoad(queue, share, 5000, 0) for queue in "QR" for share in ("MC", "A")]
    found = check_shares(loads, FastLimits(3.0, 0.3, {}), {"R": SLOTS}, {"MC"})
    assert [(one.load.queue, one.load.gshare, one.exempt, one.excess > 0) for one in found] == [
        ("Q", "A", None, True), ("Q", "MC", "settling", False), ("R", "A", SLOTS, False), ("R", "MC", SLOTS, False),
    ]  # fmt: skip


def test_shares_are_judged_by_themselves_also_jobs_of_none() -> None:
    loads = [ShareLoad("Q", None, 50, 0), ShareLoad("Q", "MC", 2000, 1000), ShareLoad("Q", "A", 5, 0)]
    found = check_shares(loads, LIMITS, {})
    assert [(one.load.gshare, one.nqueue_total, one.excess) for one in found] == [
        (None, 50, 35),
        ("A", 5, 0),
        ("MC", 2000, 0),
    ]
    assert [one.triggers for one in found] == [False, False, True]


@given(st.integers(0, 10**6), st.integers(0, 10**5), st.integers(0, 10**6))
def test_after_the_excess_has_gone_the_queue_is_not_over_its_limits(nqueue: int, nrunning: int, others: int) -> None:
    excess = verdict(nqueue, nrunning, others=others).excess
    assert 0 <= excess <= nqueue
    left = nqueue - excess
    if excess:
        assert left <= max(3 * nrunning, 1000, 0.3 * (nqueue + others)) < left + 1
