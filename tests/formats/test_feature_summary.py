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


def one(reports: list[Report], rules: SummaryRules = RULES) -> QueueSummary:
    (summary,) = summarise(reports, NOW, rules)
    return summary


@pytest.mark.parametrize(("count", "corepower"), [(3, None), (4, 12.5)])
def test_fewer_pilots_than_the_minimum_say_nothing(count: int, corepower: float | None) -> None:
    assert one(pilots(count, corepower=12.5)).corepower == corepower


def test_the_median_of_core_power_without_outliers() -> None:
    powers = [8.0, 10.0, 10.0, 11.0, 12.0, 90.0]
    reports = [dataclasses.replace(report, corepower=power) for report, power in zip(pilots(6), powers, strict=True)]
    assert one(reports).corepower == 10.0


def test_a_low_percentile_of_the_wall_limit_less_what_the_pilot_takes() -> None:
    reports = [dataclasses.replace(report, wall_limit_s=86_400 + 100 * n) for n, report in enumerate(pilots(21))]
    assert one(reports).maxtime_s == 86_400 + 100 - 600


def test_a_wall_limit_that_the_pilot_takes_itself_is_none() -> None:
    assert one(pilots(4, wall_limit_s=600)).maxtime_s is None


def test_memory_and_disk_are_the_least_for_one_core() -> None:
    reports = pilots(3, cores=8, max_rss_bytes=16_000 * MB, scratch_limit_bytes=80_000 * MB)
    reports += [Report("Q", "small", NOW, cores=4, max_rss_bytes=6_000 * MB, scratch_limit_bytes=40_000 * MB)]
    summary = one(reports)
    assert (summary.maxrss_per_core_mb, summary.maxwdir_per_core_mb) == (1500.0, 10_000.0)


def test_of_a_shared_disk_each_processor_has_its_part() -> None:
    shared = pilots(4, cores=8, total_cpu=64, scratch_limit_bytes=640_000 * MB, scratch_is_shared=True)
    assert one(shared).maxwdir_per_core_mb == 10_000.0


def test_memory_without_cores_says_nothing() -> None:
    assert one(pilots(4, max_rss_bytes=16_000 * MB)).maxrss_per_core_mb is None


@pytest.mark.parametrize(
    ("draining", "running", "marked"), [(2, 2, False), (3, 2, True), (3, 0, False), (4, 0, True), (0, 9, False)]
)
def test_a_queue_drains_when_most_of_enough_pilots_announce_a_shutdown(
    draining: int, running: int, marked: bool
) -> None:
    reports = pilots(draining, shutdown_s=int(NOW) + 7200)
    reports += [Report("Q", f"r{number}", NOW) for number in range(running)]
    summary = one(reports)
    assert summary.draining_pilots == draining
    assert summary.shutdown_s == (NOW + 7200 if marked else None)


def test_nearly_all_pilots_are_still_there_at_the_shutdown_of_the_queue() -> None:
    reports = [dataclasses.replace(report, shutdown_s=int(NOW) + 60 * n) for n, report in enumerate(pilots(21))]
    assert one(reports).shutdown_s == NOW + 60


@pytest.mark.parametrize(("past_s", "pilots_left"), [(3600, 4), (3601, 0)])
def test_pilots_that_were_shut_down_long_ago_are_gone(past_s: int, pilots_left: int) -> None:
    summaries = summarise(pilots(4, shutdown_s=int(NOW) - past_s), NOW, RULES)
    assert sum(summary.pilots for summary in summaries) == pilots_left


def test_of_each_pilot_the_last_report_counts() -> None:
    old = [dataclasses.replace(report, reported_s=NOW - 600, corepower=5.0) for report in pilots(4)]
    assert one(pilots(4, corepower=10.0) + old).corepower == 10.0
    assert one(old + pilots(4, corepower=10.0)).pilots == 4


def test_queues_are_apart() -> None:
    summaries = summarise([*pilots(4, corepower=10.0), Report("A", "p0", NOW)], NOW, RULES)
    assert [(summary.queue, summary.pilots) for summary in summaries] == [("A", 1), ("Q", 4)]


@pytest.mark.parametrize(
    ("values", "share", "result"), [([], 50, None), ([3.0], 5, 3.0), ([1.0, 2.0], 50, 1.5), ([4.0, 1.0, 2.0], 100, 4.0)]
)
def test_percentiles(values: list[float], share: float, result: float | None) -> None:
    assert percentile(values, share) == result


@given(st.lists(st.floats(2, 100), min_size=20, max_size=40), st.floats(0, 1000))
def test_no_single_pilot_changes_a_queue_beyond_its_neighbours(powers: list[float], lie: float) -> None:
    reports = [
        dataclasses.replace(report, corepower=power) for report, power in zip(pilots(len(powers)), powers, strict=True)
    ]
    rules = SummaryRules()
    honest = one(reports, rules).corepower
    lied = one([*reports, Report("Q", "liar", NOW, corepower=lie)], rules).corepower
    assert honest is None or (lied is not None and min(powers) <= lied <= max(powers))
