from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given, strategies as st

from broker.formats.model.feature_summary import MB, QueueSummary, Report, SummaryRules, percentile, summarise

NOW = 1_700_000_000.0
RULES = SummaryRules(min_pilots=4, drain_min_pilots=4)


def pilots(count: int, **values: Any) -> list[Report]:
    return [Report("Q", f"p{number}", NOW - 60, **values) for number in range(count)]


def single_summary(reports: list[Report], rules: SummaryRules = RULES) -> QueueSummary:
    (summary,) = summarise(reports, NOW, rules)
    return summary


@pytest.mark.parametrize(("count", "corepower"), [(3, None), (4, 12.5)])
def test_fewer_pilots_than_the_minimum_give_no_value(count: int, corepower: float | None) -> None:
    assert single_summary(pilots(count, corepower=12.5)).corepower == corepower


def test_the_median_of_core_power_without_outliers() -> None:
    powers = [8.0, 10.0, 10.0, 11.0, 12.0, 90.0]
    reports = [dataclasses.replace(report, corepower=power) for report, power in zip(pilots(6), powers, strict=True)]
    assert single_summary(reports).corepower == 10.0


def test_maxtime_is_a_low_percentile_of_the_wall_limit_less_the_pilot_overhead() -> None:
    reports = [dataclasses.replace(report, wall_limit_s=86_400 + 100 * n) for n, report in enumerate(pilots(21))]
    assert single_summary(reports).maxtime_s == 86_400 + 100 - 600


def test_a_wall_limit_within_the_pilot_overhead_is_none() -> None:
    assert single_summary(pilots(4, wall_limit_s=600)).maxtime_s is None


def test_memory_and_disk_are_the_minimum_per_core() -> None:
    reports = pilots(3, cores=8, max_rss_bytes=16_000 * MB, scratch_limit_bytes=80_000 * MB)
    reports += [Report("Q", "small", NOW, cores=4, max_rss_bytes=6_000 * MB, scratch_limit_bytes=40_000 * MB)]
    summary = single_summary(reports)
    assert (summary.maxrss_per_core_mb, summary.maxwdir_per_core_mb) == (1500.0, 10_000.0)


def test_a_shared_disk_is_divided_among_the_processors() -> None:
    reports = pilots(4, cores=8, total_cpu=64, scratch_limit_bytes=640_000 * MB, scratch_is_shared=True)
    assert single_summary(reports).maxwdir_per_core_mb == 10_000.0


def test_memory_without_cores_gives_no_value() -> None:
    assert single_summary(pilots(4, max_rss_bytes=16_000 * MB)).maxrss_per_core_mb is None


@pytest.mark.parametrize(
    ("draining_count", "running_count", "drains"),
    [(2, 2, False), (3, 2, True), (3, 0, False), (4, 0, True), (0, 9, False)],
)
def test_a_queue_drains_when_most_of_enough_pilots_announce_a_shutdown(
    draining_count: int, running_count: int, drains: bool
) -> None:
    reports = pilots(draining_count, shutdown_s=int(NOW) + 7200)
    reports += [Report("Q", f"r{number}", NOW) for number in range(running_count)]
    summary = single_summary(reports)
    assert summary.draining_pilots == draining_count
    assert summary.shutdown_s == (NOW + 7200 if drains else None)


def test_nearly_all_pilots_outlive_the_shutdown_of_the_queue() -> None:
    reports = [dataclasses.replace(report, shutdown_s=int(NOW) + 60 * n) for n, report in enumerate(pilots(21))]
    assert single_summary(reports).shutdown_s == NOW + 60


@pytest.mark.parametrize(("past_s", "pilots_left"), [(3600, 4), (3601, 0)])
def test_pilots_that_were_shut_down_long_ago_are_gone(past_s: int, pilots_left: int) -> None:
    summaries = summarise(pilots(4, shutdown_s=int(NOW) - past_s), NOW, RULES)
    assert sum(summary.pilots for summary in summaries) == pilots_left


def test_the_last_report_of_each_pilot_counts() -> None:
    old = [dataclasses.replace(report, reported_s=NOW - 600, corepower=5.0) for report in pilots(4)]
    assert single_summary(pilots(4, corepower=10.0) + old).corepower == 10.0
    assert single_summary(old + pilots(4, corepower=10.0)).pilots == 4


def test_queues_are_summarised_separately() -> None:
    summaries = summarise([*pilots(4, corepower=10.0), Report("A", "p0", NOW)], NOW, RULES)
    assert [(summary.queue, summary.pilots) for summary in summaries] == [("A", 1), ("Q", 4)]


@pytest.mark.parametrize(
    ("values", "share", "result"), [([], 50, None), ([3.0], 5, 3.0), ([1.0, 2.0], 50, 1.5), ([4.0, 1.0, 2.0], 100, 4.0)]
)
def test_percentiles(values: list[float], share: float, result: float | None) -> None:
    assert percentile(values, share) == result


@given(st.lists(st.floats(2, 100), min_size=20, max_size=40), st.floats(0, 1000))
def test_one_false_report_stays_within_the_range_of_the_others(powers: list[float], lie: float) -> None:
    reports = [
        dataclasses.replace(report, corepower=power) for report, power in zip(pilots(len(powers)), powers, strict=True)
    ]
    rules = SummaryRules()
    honest_corepower = single_summary(reports, rules).corepower
    corepower = single_summary([*reports, Report("Q", "liar", NOW, corepower=lie)], rules).corepower
    assert honest_corepower is None or (corepower is not None and min(powers) <= corepower <= max(powers))
