"""Parts are reused from an earlier snapshot only if a new build would give the same."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from broker.snapshot.build import build_snapshot
from broker.snapshot.draft import MARGIN_S, BuildCache, Draft
from broker.snapshot.raw import RawSource, Rows, encode
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.sources.links import LINK_VALIDITY_S
from broker.snapshot.sources.metrics import METRIC_VALIDITY_S, METRICS
from broker.snapshot.sources.pins import PINS
from tests.snapshot.raw_grid import NOW, Row, ago, jobs, link, queue, small_grid, sources
from tests.snapshot.test_build import any_row, assert_same, bad_rows

Grid = dict[str, list[Row]]


def digests_of(raw_sources: dict[str, RawSource]) -> dict[str, str]:
    return {name: encode(source)[0] for name, source in raw_sources.items()}


def make_snapshot(raw_sources: dict[str, RawSource], now: datetime, cache: BuildCache | None = None) -> Snapshot:
    return build_snapshot("test", now, raw_sources, (), digests_of(raw_sources), cache)


step = st.tuples(
    st.lists(any_row(), max_size=2),
    st.sampled_from([0.0, 1.0, 60.0, LINK_VALIDITY_S, -60.0, -LINK_VALIDITY_S]) | st.floats(-7200.0, 7200.0),
    st.booleans(),
)


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(step, min_size=2, max_size=4))
def test_a_snapshot_does_not_depend_on_earlier_ones(steps: list[tuple[list[tuple[str, Row]], float, bool]]) -> None:
    cache, now = BuildCache(), NOW
    for rows, later_s, from_scratch in steps:
        now += timedelta(seconds=later_s)
        grid = small_grid() if from_scratch else bad_rows()
        for table, row in rows:
            grid.setdefault(table, []).append(row)
        raw_sources = sources(**grid)
        with_cache, without_cache = make_snapshot(raw_sources, now, cache), make_snapshot(raw_sources, now)
        assert_same(with_cache, without_cache)
        assert with_cache.dropped_rows == without_cache.dropped_rows


def test_unchanged_parts_are_reused_and_the_others_rebuilt() -> None:
    cache = BuildCache()
    first = make_snapshot(sources(**small_grid()), NOW, cache)
    grid = small_grid()
    grid["job_counts"].append(jobs("N_PLAIN", "running", 1))
    second = make_snapshot(sources(**grid), NOW + timedelta(seconds=5), cache)
    assert second.links is first.links
    assert second.storages is first.storages
    assert second.jobs is not first.jobs
    assert second.jobs.total.sum() == first.jobs.total.sum() + 1


def test_a_part_of_several_sources_is_rebuilt_when_one_of_them_changes() -> None:
    cache = BuildCache()
    first = make_snapshot(sources(**small_grid()), NOW, cache)
    grid = small_grid()
    grid["schedconfig_json"].append(queue("ANOTHER"))
    second = make_snapshot(sources(**grid), NOW, cache)
    assert second.jobs is not first.jobs
    assert len(second.jobs.total) == len(first.jobs.total) + 1


@pytest.mark.parametrize(
    ("later_s", "is_reused"),
    [
        (LINK_VALIDITY_S - 61.0, True),
        (LINK_VALIDITY_S - 60.0 - MARGIN_S / 2, False),
        (LINK_VALIDITY_S - 60.0, False),
        (-3600.0, True),
    ],
)
def test_links_are_reused_until_one_of_them_expires(later_s: float, is_reused: bool) -> None:
    cache, grid = BuildCache(), small_grid()
    grid["network_matrix_kv"] = [link("SAT", "NUC", "AGIS_closeness", 4, ts=ago(minutes=1))]
    first = make_snapshot(sources(**grid), NOW, cache)
    second = make_snapshot(sources(**grid), NOW + timedelta(seconds=later_s), cache)
    assert (second.links is first.links) == is_reused
    assert_same(second.links, make_snapshot(sources(**grid), NOW + timedelta(seconds=later_s)).links)


def test_an_expired_link_counts_again_when_the_clock_is_set_back() -> None:
    cache, grid = BuildCache(), small_grid()
    grid["network_matrix_kv"] = [link("SAT", "NUC", "AGIS_closeness", 4, ts=ago(hours=2))]
    assert np.nansum(make_snapshot(sources(**grid), NOW, cache).links.closeness) == 0
    assert np.nansum(make_snapshot(sources(**grid), NOW - timedelta(hours=1.5), cache).links.closeness) == 4


def test_a_source_without_a_digest_is_rebuilt() -> None:
    cache, raw_sources = BuildCache(), sources(**small_grid())
    first = build_snapshot("a", NOW, raw_sources, (), {}, cache)
    assert build_snapshot("b", NOW, raw_sources, (), {}, cache).links is not first.links


def test_a_source_that_appears_is_used() -> None:
    cache, grid = BuildCache(), small_grid()
    without = {name: rows for name, rows in grid.items() if name != "network_matrix_kv"}
    assert np.nansum(make_snapshot(sources(**without), NOW, cache).links.closeness) == 0
    assert np.nansum(make_snapshot(sources(**grid), NOW, cache).links.closeness) == 4


def pin(starts: datetime, ends: datetime) -> RawSource:
    columns = PINS.reads[0].columns_stored
    values = {"queue": "N_PLAIN", "field": "status", "value": '"offline"', "set_at": starts, "until": ends}
    return RawSource("pins", {PINS.reads[0].name: Rows(columns, (tuple(values.get(name) for name in columns),))})


def metric(stamp: datetime) -> RawSource:
    read = METRICS.reads[0]
    values = {"gshare": "Simulation", "metric": "gshare_preference", "value_json": '{"usage_perc": 5}'}
    row = {**values, "timestamp": stamp}
    return RawSource("metrics", {read.name: Rows(read.columns_stored, (tuple(map(row.get, read.columns_stored)),))})


USAGE_S = METRIC_VALIDITY_S["gshare_preference"]


@pytest.mark.parametrize(
    ("source", "condition", "later_s"),
    [
        (pin(ago(minutes=5), NOW + timedelta(minutes=5)), lambda draft: "N_PLAIN" in draft.of(PINS), 300.0),
        (pin(NOW + timedelta(minutes=5), NOW + timedelta(hours=1)), lambda draft: "N_PLAIN" not in draft.of(PINS), 300),
        (metric(NOW), lambda draft: "Simulation" in draft.of(METRICS).usage, USAGE_S + 0.01),
    ],
)
def test_rows_expire_although_their_source_is_unchanged(
    source: RawSource, condition: Callable[[Draft], Any], later_s: float
) -> None:
    cache, raw_sources = BuildCache(), {source.name: source}
    answers = [
        condition(Draft(raw_sources, NOW + timedelta(seconds=seconds), digests_of(raw_sources), cache))
        for seconds in (0, later_s - 1, later_s)
    ]
    assert answers == [True, True, False]
