"""Forecasts from similar past cases: none without enough cases, good coverage with them, and wider after misses."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from broker.domain.arrays import Bools, Floats, texts
from broker.forecasts.model.forecasting import CLUES, Past, Settings, Subjects, make_forecasts
from broker.forecasts.model.wording import start_sentence

DAY_S = 86_400.0
NAN = float("nan")


def subjects(ahead_s: Floats, cell: str = "Q", kind: str = "queue") -> Subjects:
    clues = np.full((len(ahead_s), len(CLUES)), NAN)
    clues[:, 0] = ahead_s
    same = texts([cell] * len(ahead_s))
    return Subjects(texts([kind] * len(ahead_s)), same, texts(["waiting"] * len(ahead_s)), clues)


def past(ahead_s: Floats, waited_s: Floats, made_s: Floats | None = None, cell: str = "Q") -> Past:
    count = len(ahead_s)
    times_s = np.arange(count, dtype=np.float64) if made_s is None else made_s
    known = np.ones(count, dtype=np.bool_)
    about = {name: getattr(subjects(ahead_s, cell), name) for name in ("kind", "cell", "situation", "clues")}
    return Past(**about, made_s=times_s, waited_s=waited_s, is_known=known, quantiles_s=np.full((count, 3), NAN))


def draw_waits(count: int, seed: int) -> tuple[Floats, Floats]:
    """Draw the work ahead, and waits mostly of a third to three times as long."""
    random = np.random.default_rng(seed)
    ahead = np.exp(random.uniform(3.0, 10.0, count))
    return ahead, ahead * np.exp(random.normal(0.0, 0.6, count))


def test_too_few_past_cases_give_no_forecast() -> None:
    ahead, waited = draw_waits(99, 1)
    forecasts = make_forecasts(subjects(ahead[:2]), past(ahead, waited), 100.0, Settings())
    assert np.isnan(forecasts.quantiles_s).all() and forecasts.n.tolist() == [99, 99]
    assert forecasts.usual_s.tolist() == [float(np.median(waited))] * 2


def test_without_past_cases_there_is_no_forecast() -> None:
    forecasts = make_forecasts(subjects(np.array([60.0])), past(np.array([]), np.array([])), 0.0, Settings())
    assert np.isnan(forecasts.quantiles_s).all() and np.isnan(forecasts.usual_s).all() and forecasts.n.tolist() == [0]


def test_eight_of_ten_starts_lie_in_the_interval_and_follow_the_clue() -> None:
    ahead, waited = draw_waits(2500, 2)
    quantiles = make_forecasts(
        subjects(ahead[2000:]), past(ahead[:2000], waited[:2000]), 2000.0, Settings()
    ).quantiles_s
    actual = waited[2000:]
    assert 0.75 <= float(np.mean((actual >= quantiles[:, 0]) & (actual <= quantiles[:, 2]))) <= 0.87
    assert np.corrcoef(np.log(quantiles[:, 1]), np.log(ahead[2000:]))[0, 1] > 0.95
    assert (np.diff(quantiles, axis=1) >= 0).all()


def test_open_cases_make_forecasts_later() -> None:
    ahead, waited = draw_waits(400, 3)
    cases = past(ahead, waited)
    is_open = np.arange(400) % 2 == 0
    half_open = dataclasses.replace(cases, is_known=~is_open)
    subject = subjects(np.array([600.0]))
    all_known = make_forecasts(subject, cases, 400.0, Settings()).quantiles_s
    half_known = make_forecasts(subject, half_open, 400.0, Settings()).quantiles_s
    assert (half_known > all_known).all()


def test_misses_above_move_the_upper_edge_later_and_keep_the_median() -> None:
    ahead, waited = draw_waits(600, 4)
    before = past(ahead, waited)
    missed = dataclasses.replace(before, quantiles_s=np.stack([waited / 9, waited / 4, waited / 2], axis=1))
    subject = subjects(np.array([600.0]))
    calm = make_forecasts(subject, before, 600.0, Settings(step=0.0)).quantiles_s[0]
    wary = make_forecasts(subject, missed, 600.0, Settings(step=0.02)).quantiles_s[0]
    assert wary[2] > calm[2] and wary[1] == calm[1] and wary[0] >= calm[0]


def test_old_cases_count_less() -> None:
    ahead = np.full(400, 600.0)
    waited = np.where(np.arange(400) < 200, 60.0, 6000.0)
    times_s = np.where(np.arange(400) < 200, 0.0, 9 * DAY_S)
    quantiles = make_forecasts(
        subjects(np.array([600.0])), past(ahead, waited, times_s), 10 * DAY_S, Settings(cases=400, half_life_s=DAY_S)
    ).quantiles_s[0]
    assert quantiles.tolist() == pytest.approx([6000.0] * 3)


def test_a_forecast_uses_the_past_of_the_same_queue_first() -> None:
    ahead = np.full(300, 600.0)
    fast, slow = past(ahead, np.full(300, 60.0), cell="FAST"), past(ahead, np.full(300, 6000.0), cell="SLOW")
    both = Past(**{name: np.concatenate([getattr(fast, name), getattr(slow, name)]) for name in vars(fast)})
    quantiles = make_forecasts(subjects(np.array([600.0]), "SLOW"), both, 600.0, Settings()).quantiles_s[0]
    assert quantiles.tolist() == pytest.approx([6000.0] * 3)


def test_a_start_after_the_horizon_is_forecast_as_later() -> None:
    ahead = np.full(200, 1e6)
    quantiles = make_forecasts(subjects(ahead[:1]), past(ahead, np.full(200, 1e6)), 200.0, Settings()).quantiles_s[0]
    assert np.isinf(quantiles).all()
    assert start_sentence(*quantiles.tolist(), 172_800.0) == "starts in more than 48 h"


def test_the_same_arguments_give_the_same_forecast() -> None:
    ahead, waited = draw_waits(1000, 5)
    arguments = (subjects(ahead[:90]), past(ahead, waited), 1000.0, Settings())
    assert (make_forecasts(*arguments).quantiles_s == make_forecasts(*arguments).quantiles_s).all()


def test_too_wide_intervals_of_task_kinds_narrow_after_few_starts() -> None:
    ahead, waited = np.full(60, 600.0), np.arange(100.0, 700.0, 10.0)
    forecasts = np.stack([waited / 9, waited, waited * 9], axis=1)
    subject = subjects(ahead[:1], kind="task_kind")
    wide = dataclasses.replace(past(ahead, waited), kind=texts(["task_kind"] * 60), quantiles_s=forecasts)
    calm = make_forecasts(subject, wide, 600.0, Settings(cases=60, step=0.0)).quantiles_s[0]
    adjusted = make_forecasts(subject, wide, 600.0, Settings(cases=60)).quantiles_s[0]
    # 50 hits of p50 below 10 min: the first 13 move an edge by 1 / 21 to 1 / 33, the others by 0.03, each times 0.1
    by = np.exp(0.1 * (sum(1 / (n + 20) for n in range(1, 14)) + 37 * 0.03))
    assert (adjusted + 1.0) / (calm + 1.0) == pytest.approx([by, 1.0, 1.0 / by], rel=0.01)


def edge_factors(told_s: Floats, waited_s: Floats, is_known: Bools | None = None, step: float = 0.03) -> Floats:
    """The factors by which the outcomes of these forecasts (n, 3), made just now, move p10, p50 and p90."""
    count = len(waited_s)
    ahead, others = draw_waits(400, 7)
    calm = past(np.append(ahead, np.full(count, 1e9)), np.append(others, waited_s))
    no_forecasts, known = np.full((400, 3), NAN), np.ones(count, dtype=np.bool_) if is_known is None else is_known
    cases = dataclasses.replace(
        calm, quantiles_s=np.concatenate([no_forecasts, told_s]),
        is_known=np.append(np.ones(400, dtype=np.bool_), known),
        made_s=np.full(400 + count, DAY_S) - np.append(np.zeros(400), waited_s),
    )  # fmt: skip
    subject = subjects(np.array([1000.0]))
    with_them = make_forecasts(subject, cases, DAY_S, Settings(step=step)).quantiles_s[0]
    without = make_forecasts(subject, cases, DAY_S, Settings(step=0.0)).quantiles_s[0]
    return np.asarray((with_them + 1.0) / (without + 1.0))


def twenty_forecasts(low_s: float = 300.0, high_s: float = 900.0) -> Floats:
    return np.tile([low_s, 600.0, high_s], (20, 1))


@pytest.mark.parametrize(
    ("missed_below", "missed_above", "by"),
    [(0, 0, (1.06, 1.0, 0.94)), (2, 2, (1.0, 1.0, 1.0)), (0, 6, (1.06, 1.0, 1.13)), (6, 0, (0.887, 1.0, 0.94))],
)
def test_each_edge_moves_by_its_misses_beyond_one_in_ten(
    missed_below: int, missed_above: int, by: tuple[float, ...]
) -> None:
    waited = np.full(20, 600.0)
    waited[:missed_below], waited[20 - missed_above :] = 299.0, 901.0
    assert edge_factors(twenty_forecasts(), waited) == pytest.approx(by, rel=0.01)


def test_a_wait_equal_to_an_edge_is_no_miss() -> None:
    assert edge_factors(twenty_forecasts(600.0, 600.0), np.full(20, 600.0)) == pytest.approx(
        [1.06, 1.0, 0.94], rel=0.01
    )


def test_an_edge_beyond_the_horizon_is_never_missed_and_does_not_move() -> None:
    assert edge_factors(twenty_forecasts(high_s=np.inf), np.full(20, 1000.0)) == pytest.approx(
        [1.06, 1.0, 1.0], rel=0.01
    )


def test_an_open_wait_past_an_edge_is_a_miss_and_one_before_it_does_not_count() -> None:
    not_started = np.zeros(20, dtype=np.bool_)
    factors = edge_factors(twenty_forecasts(), np.full(20, 901.0), not_started)
    assert factors == pytest.approx([1.06, 1.0, np.exp(20 * 0.03 * 0.9)], rel=0.01)
    assert edge_factors(twenty_forecasts(), np.full(20, 899.0), not_started) == pytest.approx(
        [1.06, 1.0, 1.0], rel=0.01
    )


def test_a_thousand_simultaneous_outcomes_move_an_edge_as_far_as_three_hundred() -> None:
    forecasts = np.tile([300.0, 600.0, 900.0], (1000, 1))
    factors = edge_factors(forecasts, np.full(1000, 600.0))
    assert factors == pytest.approx([np.exp(300 * 0.03 * 0.1), 1.0, np.exp(-300 * 0.03 * 0.1)], rel=0.01)


def test_old_misses_are_forgotten() -> None:
    ahead, waited = draw_waits(600, 4)
    missed = dataclasses.replace(
        past(ahead, waited), quantiles_s=np.stack([waited / 9, waited / 4, waited / 2], axis=1)
    )
    subject = subjects(np.array([600.0]))
    calm = make_forecasts(subject, missed, 60 * DAY_S, Settings(step=0.0)).quantiles_s
    assert make_forecasts(subject, missed, 60 * DAY_S, Settings()).quantiles_s == pytest.approx(calm)
