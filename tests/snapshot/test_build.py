"""The snapshot as a whole: it depends on content only, and on nothing else."""

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


def assert_same(one: Any, other: Any) -> None:
    """Tables of equal content, NaN being equal to NaN."""
    for field in dataclasses.fields(one):
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        if isinstance(mine, np.ndarray):
            np.testing.assert_array_equal(mine, theirs, err_msg=field.name)
        elif dataclasses.is_dataclass(mine):
            assert_same(mine, theirs)
        elif field.name != "left_out":
            assert mine == theirs, field.name


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
    one, other = build(**grid), build(**shuffled)
    assert_same(one, other)
    assert set(one.dropped_rows) == set(other.dropped_rows)


def test_stored_sources_give_the_same_snapshot() -> None:
    read = sources(**bad_rows())
    stored = {name: decode(*encode(source)) for name, source in read.items()}
    one, other = build_snapshot("s", NOW, read, ()), build_snapshot("s", NOW, stored, ())
    assert_same(one, other)
    assert one.dropped_rows == other.dropped_rows


def test_states_tell_how_many_rows_were_left_out() -> None:
    states = tuple(SourceState(name, "ok", 5, None, None) for name in ("queues", "storages", "links"))
    snapshot = build(states=states, **bad_rows())
    # a defaulted value leaves no row out
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
