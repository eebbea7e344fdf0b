"""What is taken over from an earlier snapshot: only what would be made again just so."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from broker.snapshot.build import build_snapshot
from broker.snapshot.draft import MARGIN_S, Draft, KeptBuilds
from broker.snapshot.raw import RawSource, Rows, encode
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.sources.links import LINK_VALIDITY_S
from broker.snapshot.sources.metrics import METRIC_VALIDITY_S, METRICS
from broker.snapshot.sources.pins import PINS
from tests.snapshot.raw_grid import NOW, Row, ago, jobs, link, queue, small_grid, sources
from tests.snapshot.test_build import any_row, assert_same, bad_rows

Grid = dict[str, list[Row]]


def digests_of(read: dict[str, RawSource]) -> dict[str, str]:
    return {name: encode(source)[0] for name, source in read.items()}


def built(read: dict[str, RawSource], now: datetime, kept: KeptBuilds | None = None) -> Snapshot:
    return build_snapshot("test", now, read, (), digests_of(read), kept)


step = st.tuples(
    st.lists(any_row(), max_size=2),
    st.sampled_from([0.0, 1.0, 60.0, LINK_VALIDITY_S, -60.0, -LINK_VALIDITY_S]) | st.floats(-7200.0, 7200.0),
    st.booleans(),
)


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(step, min_size=2, max_size=4))
def test_a_snapshot_is_the_same_whatever_came_before_it(steps: list[tuple[list[tuple[str, Row]], float, bool]]) -> None:
    kept, now = KeptBuilds(), NOW
    for rows, later_s, from_scratch in steps:
        now += timedelta(seconds=later_s)
        grid = small_grid() if from_scratch else bad_rows()
        for table, row in rows:
            grid.setdefault(table, []).append(row)
        read = sources(**grid)
        one, other = built(read, now, kept), built(read, now)
        assert_same(one, other)
        assert one.dropped_rows == other.dropped_rows


def test_what_did_not_change_is_taken_over_and_the_rest_is_made() -> None:
    kept = KeptBuilds()
    first = built(sources(**small_grid()), NOW, kept)
    grid = small_grid()
    grid["job_counts"].append(jobs("N_PLAIN", "running", 1))
    second = built(sources(**grid), NOW + timedelta(seconds=5), kept)
    assert second.links is first.links
    assert second.storages is first.storages
    assert second.jobs is not first.jobs
    assert second.jobs.total.sum() == first.jobs.total.sum() + 1


def test_what_is_made_of_several_sources_is_made_again_when_one_of_them_changes() -> None:
    kept = KeptBuilds()
    first = built(sources(**small_grid()), NOW, kept)
    grid = small_grid()
    grid["schedconfig_json"].append(queue("ANOTHER"))
    second = built(sources(**grid), NOW, kept)
    assert second.jobs is not first.jobs
    assert len(second.jobs.total) == len(first.jobs.total) + 1


@pytest.mark.parametrize(
    ("later_s", "same"),
    [
        (LINK_VALIDITY_S - 61.0, True),
        (LINK_VALIDITY_S - 60.0 - MARGIN_S / 2, False),
        (LINK_VALIDITY_S - 60.0, False),
        (-3600.0, True),
    ],
)
def test_links_are_taken_over_until_one_of_them_is_too_old(later_s: float, same: bool) -> None:
    kept, grid = KeptBuilds(), small_grid()
    grid["network_matrix_kv"] = [link("SAT", "NUC", "AGIS_closeness", 4, ts=ago(minutes=1))]
    first = built(sources(**grid), NOW, kept)
    second = built(sources(**grid), NOW + timedelta(seconds=later_s), kept)
    assert (second.links is first.links) == same
    assert_same(second.links, built(sources(**grid), NOW + timedelta(seconds=later_s)).links)


def test_a_link_that_was_too_old_counts_where_the_clock_is_set_back() -> None:
    kept, grid = KeptBuilds(), small_grid()
    grid["network_matrix_kv"] = [link("SAT", "NUC", "AGIS_closeness", 4, ts=ago(hours=2))]
    assert np.nansum(built(sources(**grid), NOW, kept).links.closeness) == 0
    assert np.nansum(built(sources(**grid), NOW - timedelta(hours=1.5), kept).links.closeness) == 4


def test_a_source_without_a_digest_is_made_again() -> None:
    kept, read = KeptBuilds(), sources(**small_grid())
    first = build_snapshot("a", NOW, read, (), {}, kept)
    assert build_snapshot("b", NOW, read, (), {}, kept).links is not first.links


def test_a_source_that_comes_is_seen() -> None:
    kept, grid = KeptBuilds(), small_grid()
    without = {name: rows for name, rows in grid.items() if name != "network_matrix_kv"}
    assert np.nansum(built(sources(**without), NOW, kept).links.closeness) == 0
    assert np.nansum(built(sources(**grid), NOW, kept).links.closeness) == 4


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
    ("source", "said", "later_s"),
    [
        (pin(ago(minutes=5), NOW + timedelta(minutes=5)), lambda draft: "N_PLAIN" in draft.of(PINS), 300.0),
        (pin(NOW + timedelta(minutes=5), NOW + timedelta(hours=1)), lambda draft: "N_PLAIN" not in draft.of(PINS), 300),
        (metric(NOW), lambda draft: "Simulation" in draft.of(METRICS).usage, USAGE_S + 0.01),
    ],
)
def test_what_a_clock_ends_ends(source: RawSource, said: Callable[[Draft], Any], later_s: float) -> None:
    kept, read = KeptBuilds(), {source.name: source}
    answers = [
        said(Draft(read, NOW + timedelta(seconds=seconds), digests_of(read), kept))
        for seconds in (0, later_s - 1, later_s)
    ]
    assert answers == [True, True, False]
