"""The snapshot as a whole depends on the content of its sources only."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from broker.snapshot.build import build_snapshot
from broker.snapshot.raw import SourceState, decode, encode
from broker.snapshot.snapshot import Snapshot
from tests.snapshot.raw_grid import COLUMNS, NOW, build, queue, small_grid, sources


def assert_same(left: Any, right: Any) -> None:
    """Assert that two tables have equal content; NaN equals NaN."""
    for field in dataclasses.fields(left):
        left_value, right_value = getattr(left, field.name), getattr(right, field.name)
        if isinstance(left_value, np.ndarray):
            np.testing.assert_array_equal(left_value, right_value, err_msg=field.name)
        elif dataclasses.is_dataclass(left_value):
            assert_same(left_value, right_value)
        elif field.name != "left_out":
            assert left_value == right_value, field.name


def bad_rows() -> dict[str, list[dict[str, Any]]]:
    grid = small_grid()
    grid["schedconfig_json"] += [{"panda_queue": "BAD", "data": "{"}, queue("ODD", corecount="x")]
    grid["ddm_endpoint"].append({"ddm_endpoint_name": "NEGATIVE", "space_free": -5})
    return grid


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_rows_does_not_matter(seed: int) -> None:
    grid, shuffled = bad_rows(), bad_rows()
    for rows in shuffled.values():
        random.Random(seed).shuffle(rows)
    snapshot, snapshot_of_shuffled = build(**grid), build(**shuffled)
    assert_same(snapshot, snapshot_of_shuffled)
    assert set(snapshot.dropped_rows) == set(snapshot_of_shuffled.dropped_rows)


def test_stored_sources_give_the_same_snapshot() -> None:
    raw_sources = sources(**bad_rows())
    stored = {name: decode(*encode(source)) for name, source in raw_sources.items()}
    snapshot, snapshot_of_stored = build_snapshot("s", NOW, raw_sources, ()), build_snapshot("s", NOW, stored, ())
    assert_same(snapshot, snapshot_of_stored)
    assert snapshot.dropped_rows == snapshot_of_stored.dropped_rows


def test_states_count_dropped_rows() -> None:
    states = tuple(SourceState(name, "ok", 5, None, None) for name in ("queues", "storages", "links"))
    snapshot = build(states=states, **bad_rows())
    # a defaulted value drops no row
    assert {state.name: state.dropped_rows for state in snapshot.states} == {"queues": 1, "storages": 1, "links": 0}


def test_unusable_sources() -> None:
    states = (SourceState("links", "stale", 5, 99.0, 10.0), SourceState("jobs", "ok", 5, None, None))
    snapshot = build(states=states, **small_grid())
    assert [state.name for state in snapshot.unusable({"links", "jobs"})] == ["links"]
    assert snapshot.unusable({"jobs"}) == []
    assert snapshot.now_s == NOW.timestamp()


ANYTHING = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(NOW)
NAMES = st.sampled_from(["N_UCORE", "N_PLAIN", "S_PLAIN", "NUC", "SAT", "N_DISK", "production", "Resource", "running"])


@st.composite
def any_row(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    table = draw(st.sampled_from(sorted(set(COLUMNS) - {"mv_worker_node_gpu_summary"})))
    return table, {column: draw(NAMES if draw(st.booleans()) else ANYTHING) for column in COLUMNS[table][1]}


@pytest.mark.slow
@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(any_row(), min_size=1, max_size=4))
def test_no_row_stops_the_snapshot(rows: list[tuple[str, dict[str, Any]]]) -> None:
    grid = small_grid()
    for table, row in rows:
        grid.setdefault(table, []).append(row)
    assert isinstance(build(**grid), Snapshot)
