from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from broker.snapshot.build import build_snapshot
from broker.snapshot.raw import RawSource, Rows, SourceState
from broker.snapshot.snapshot import Snapshot, tightened
from broker.snapshot.sources.features import TABLE
from tests.snapshot.raw_grid import NOW, ago, queue, small_grid, sources, ucore

COLUMNS = (
    "queue", "computed_at", "pilots", "corepower", "maxtime_s", "maxrss_per_core_mb", "maxwdir_per_core_mb",
    "shutdown_at",
)  # fmt: skip
EVERYTHING = ("corepower", "maxtime_s", "maxrss_mb", "maxwdir_mb")


def grid(rows: list[dict[str, Any]], queues: list[dict[str, Any]], state: str = "ok") -> Snapshot:
    raw = sources(**{**small_grid(), "schedconfig_json": queues})
    values = tuple(tuple(row.get(column) for column in COLUMNS) for row in rows)
    raw["features"] = RawSource("features", {TABLE: Rows(COLUMNS, values)}, NOW)
    return build_snapshot("s", NOW, raw, (SourceState("features", state, len(rows), 0.0, None),))  # type: ignore[arg-type]


def feature_row(name: str = "Q", **values: Any) -> dict[str, Any]:
    return {"queue": name, "computed_at": NOW, "pilots": 30, **values}


def column(snapshot: Snapshot, name: str) -> list[float | None]:
    values = getattr(snapshot.queues, name).tolist()
    return [None if value != value else value for value in values]


def test_rows_become_columns_of_unified_queues() -> None:
    snapshot = grid([feature_row("B", corepower=9.5, shutdown_at=ago(hours=-2))], [queue("A"), queue("B")])
    assert snapshot.features.corepower.tolist()[1] == 9.5
    assert np.isnan(snapshot.features.corepower[0])
    assert column(snapshot, "shutdown_s") == [None, NOW.timestamp() + 7200]
    assert len(snapshot.features) == 2


@pytest.mark.parametrize(
    ("row", "code"),
    [
        (feature_row("NONE"), "unknown_queue"),
        (feature_row(corepower=-1), "negative"),
        (feature_row(maxtime_s="soon"), "wrong_type"),
        (feature_row(maxtime_s=float("inf")), "not_finite"),
        (feature_row(shutdown_at="tomorrow"), "wrong_type"),
    ],
)
def test_an_unusable_row_is_dropped(row: dict[str, Any], code: str) -> None:
    snapshot = grid([row], [queue("Q")])
    assert [(entry.source, entry.code) for entry in snapshot.dropped_rows] == [("features", code)]
    assert np.isnan(snapshot.features.pilots).all()


@pytest.mark.parametrize(
    ("name", "published", "figure", "result"),
    [
        ("corepower", {"corepower": 12}, {"corepower": 10.0}, 10.0),
        ("corepower", {"corepower": 12}, {"corepower": 14.0}, 12.0),  # never looser
        ("corepower", {}, {"corepower": 9.0}, 9.0),  # 10 is the default where none is published
        ("corepower", {}, {"corepower": 11.0}, 0.0),
        ("corepower", {"corepower": 12}, {"corepower": None}, 12.0),
        ("maxtime_s", {"maxtime": 86400}, {"maxtime_s": 86399.0}, 86399.0),
        ("maxtime_s", {"maxtime": 86400}, {"maxtime_s": 86401.0}, 86400.0),
        ("maxtime_s", {"maxtime": 0}, {"maxtime_s": 3600.0}, 3600.0),  # 0 is no limit
        ("maxtime_s", {}, {"maxtime_s": 3600.0}, 3600.0),
        ("maxtime_s", {}, {"maxtime_s": 0.0}, None),
        ("maxrss_mb", {"maxrss": 16000, "corecount": 8}, {"maxrss_per_core_mb": 1500.0}, 12000.0),
        ("maxrss_mb", {"maxrss": 16000, "corecount": 8}, {"maxrss_per_core_mb": 2001.0}, 16000.0),
        ("maxrss_mb", {"corecount": 0}, {"maxrss_per_core_mb": 1500.0}, 1500.0),
        ("maxwdir_mb", {"maxwdir": 80000, "corecount": 8}, {"maxwdir_per_core_mb": 9000.0}, 72000.0),
        ("maxwdir_mb", {"maxwdir": 80000, "corecount": 8}, {"maxwdir_per_core_mb": 10001.0}, 80000.0),
    ],
)
def test_a_limit_becomes_tighter_and_never_looser(
    name: str, published: dict[str, Any], figure: dict[str, Any], result: float | None
) -> None:
    snapshot = grid([feature_row(**figure)], [queue("Q", **{"corecount": 1, **published})])
    assert column(tightened(snapshot, [name]), name) == [result]


def test_only_requested_columns_are_tightened() -> None:
    stats = {"corepower": 5.0, "maxtime_s": 60.0, "maxrss_per_core_mb": 1.0, "maxwdir_per_core_mb": 1.0}
    published = {"corepower": 10, "maxtime": 3600, "maxrss": 2000, "maxwdir": 5000}
    snapshot = grid([feature_row(**stats)], [queue("Q", **published)])
    assert tightened(snapshot, []) is snapshot
    for name in EVERYTHING:
        changed = tightened(snapshot, [name])
        different = [
            column_name for column_name in EVERYTHING if column(changed, column_name) != column(snapshot, column_name)
        ]
        assert different == [name]
        assert not getattr(changed.queues, name).flags.writeable


def test_each_pseudo_queue_gets_memory_for_its_own_cores() -> None:
    snapshot = grid([feature_row("U", maxrss_per_core_mb=1000.0)], [ucore("U", 8, maxrss=16000)])
    changed = tightened(snapshot, ["maxrss_mb"])
    by_name = dict(zip(changed.queues.name.tolist(), column(changed, "maxrss_mb"), strict=True))
    assert by_name == {"U/MCORE": 8000.0, "U/SCORE": 1000.0}


@pytest.mark.parametrize("state", ["stale", "missing"])
def test_an_unusable_source_tightens_nothing(state: str) -> None:
    snapshot = grid([feature_row(corepower=5.0)], [queue("Q", corepower=10)], state)
    assert tightened(snapshot, EVERYTHING) is snapshot
