from __future__ import annotations

import math

import numpy as np
import pytest

from broker.simulation.model.errors import SimulationError
from broker.simulation.model.intervals import interval, paired, t_quantile
from broker.simulation.model.job_kinds import (
    KINDS,
    Lognormal,
    Normal,
    Weibull,
    correlated_uniforms,
    draw_jobs,
    queue_factors,
)
from broker.simulation.model.merit import fair_parts, jain, share_deviation, survival_quantile
from broker.simulation.model.streams import stream


@pytest.mark.parametrize(
    ("parts", "index"), [((4, 2, 1, 1), 64 / 88), ((1, 1, 1), 1.0), ((1, 0, 0, 0), 0.25), ((0, 0), math.nan)]
)
def test_jain(parts: tuple[float, ...], index: float) -> None:
    assert jain(np.array(parts, dtype=np.float64)) == pytest.approx(index, nan_ok=True)


@pytest.mark.parametrize(
    ("delivered", "demand", "deviation"),
    [
        ((60, 40), (1, 1), 0.0),
        ((100, 0), (1, 1), 0.4),
        ((100, 0), (1, 0), 0.0),
        ((0, 0), (1, 1), math.nan),
        ((50, 50), (0, 0), 0.1),
    ],
)
def test_the_deviation_of_shares_covers_those_with_demand(delivered: object, demand: object, deviation: float) -> None:
    actual = share_deviation(np.array(delivered, dtype=float), np.array((0.6, 0.4)), np.array(demand, dtype=float))
    assert actual == pytest.approx(deviation, nan_ok=True)


def test_fair_parts() -> None:
    assert fair_parts(np.array([10.0, 1.0, 4.0]), 9.0).tolist() == [4.0, 1.0, 4.0]
    assert fair_parts(np.array([10.0, 1.0, 4.0]), 100.0).tolist() == [10.0, 1.0, 4.0]


@pytest.mark.parametrize(
    ("waited", "started", "probability", "quantile"),
    [
        ((1, 2, 3, 4), (1, 1, 1, 1), 0.5, 2.0),
        ((1, 2, 3, 4), (1, 1, 1, 1), 0.95, 4.0),
        # two of four have not started after 2: the median is not among the started jobs
        ((1, 2, 2, 2), (1, 1, 0, 0), 0.5, 2.0),
        ((1, 2, 2, 2), (1, 0, 0, 0), 0.5, math.inf),
        # a job censored early leaves the number at risk: 1 of 4, then 1 of 2
        ((1, 1.5, 2, 3), (1, 0, 1, 1), 0.5, 2.0),
        ((), (), 0.5, math.nan),
    ],
)
def test_jobs_that_have_not_started_are_censored(
    waited: object, started: object, probability: float, quantile: float
) -> None:
    actual = survival_quantile(np.array(waited, dtype=float), np.array(started, dtype=bool), probability)
    assert actual == pytest.approx(quantile, nan_ok=True)


def test_quantiles_beyond_the_record_make_no_interval() -> None:
    inf = math.inf
    assert interval([1.0, inf]).mean == inf
    difference = paired([inf, 1.0, inf, 3.0], [1.0, inf, inf, 2.0])
    assert math.isnan(difference.mean) and not difference.excludes_zero


def test_intervals() -> None:
    estimate = interval([1.0, 2.0, 3.0])
    assert (estimate.mean, estimate.values, estimate.enough_seeds) == (2.0, 3, False)
    assert estimate.half_width == pytest.approx(4.3027 / math.sqrt(3), abs=1e-4)
    assert math.isnan(interval([1.0]).half_width) and math.isnan(interval([]).mean)
    assert interval([math.nan, 1.0, 3.0]).values == 2
    assert interval(list(range(10))).enough_seeds
    difference = paired([11.0, 21.0, 31.0], [10.0, 20.0, 30.5])
    assert difference.mean == pytest.approx(2.5 / 3) and difference.excludes_zero
    assert not paired([1.0, 2.0], [2.0, 1.0]).excludes_zero
    assert not interval([5.0]).excludes_zero
    with pytest.raises(ValueError, match="argument 2"):
        paired([1.0], [])
    assert t_quantile(9) == pytest.approx(2.2622, abs=1e-4) and math.isnan(t_quantile(0))


def test_intervals_of_ten_seeds_cover_the_truth_in_95_of_100_cases() -> None:
    random = np.random.default_rng(1)
    covered = [
        abs((estimate := interval(random.normal(5.0, 2.0, 10).tolist())).mean - 5.0) < estimate.half_width
        for _ in range(2000)
    ]
    assert np.mean(covered) == pytest.approx(0.95, abs=0.015)


@pytest.mark.parametrize(
    ("distribution", "median"),
    [(Lognormal(534, 0.18), 534.0), (Normal(29.9, 8.4), 29.9), (Weibull(38, 0.936), 0.936 * math.log(2) ** (1 / 38))],
)
def test_quantiles(distribution: Lognormal | Normal | Weibull, median: float) -> None:
    low, middle, high = distribution.quantile(np.array([0.1, 0.5, 0.9]))
    assert middle == pytest.approx(median)
    assert low < middle < high
    assert np.isfinite(distribution.quantile(np.array([0.0, 1.0]))).all()


@pytest.mark.slow
def test_the_copula_has_the_rank_correlations_of_the_records() -> None:
    from scipy import stats

    correlations = ((1.0, 0.67, 0.0), (0.67, 1.0, -0.3), (0.0, -0.3, 1.0))
    uniforms = correlated_uniforms(correlations, 40_000, np.random.default_rng(2))
    assert stats.spearmanr(uniforms).statistic == pytest.approx(np.array(correlations), abs=0.02)
    assert stats.kstest(uniforms[:, 0], "uniform").pvalue > 1e-3
    with pytest.raises(SimulationError, match="contradict"):
        correlated_uniforms(((1, 0.99, -0.99), (0.99, 1, 0.99), (-0.99, 0.99, 1)), 10, np.random.default_rng(2))


@pytest.mark.parametrize(
    ("kind", "cpu_s", "corepower", "output_gb"),
    [
        ("simul", 50.0 * 1000, 10.67, 1.21),
        ("digi_reco", 45.0 * 1000, 17.13, 0.895),
        ("derivation", 0.163 * 100_000, 12.56, 0.020),
        ("reco", 0.795 * 20_000, 10.0, 2.89),
        ("merge", 0.0085 * 10_000, 11.24, 0.334),
    ],
)
def test_jobs_are_like_the_records(kind: str, cpu_s: float, corepower: float, output_gb: float) -> None:
    """Medians of the records: CPU time of a job, core power of the queues where it ran, and size of the output."""
    draws = draw_jobs(KINDS[kind], 2000, seed=1, task=7, attempts=2)
    assert float(np.median(draws.work_hs06s)) == pytest.approx(cpu_s * corepower, rel=0.1)
    assert float(np.median(draws.output_bytes)) == pytest.approx(output_gb * 1e9, rel=0.02)
    assert (draws.efficiency > 0).all() and (draws.efficiency < 1.2).all()


def test_each_entity_and_purpose_has_a_separate_stream() -> None:
    draws = {stream(*key).random() for key in [(1, "A", "x"), (2, "A", "x"), (1, "B", "x"), (1, "A", "y"), (1, 1, "x")]}
    assert len(draws) == 5
    assert stream(1, "A", "x").random() == stream(1, "A", "x").random()
    assert (
        queue_factors(KINDS["reco"], "Q1", 1)
        == queue_factors(KINDS["reco"], "Q1", 1)
        != queue_factors(KINDS["reco"], "Q2", 1)
    )
