"""The matrix of links."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

import numpy as np
import pytest

from broker.snapshot.snapshot import Snapshot
from broker.snapshot.sources.links import KEYS
from tests.snapshot.raw_grid import NOW, ago, at_site, build, endpoint, link, queue, uses


def snapshot_of(*links: dict[str, Any]) -> Snapshot:
    return build(
        schedconfig_json=[queue("N1"), queue("N2"), queue("S")],
        panda_site=[at_site("N1", "NUC"), at_site("N2", "OTHER"), at_site("S", "SAT")],
        site=[{"site_name": "NUC", "role": "nucleus"}, {"site_name": "OTHER", "role": "nucleus"}],
        ddm_endpoint=[endpoint("D", "SAT"), endpoint("E", "NUC"), endpoint("F", "FAR")],
        panda_ddm_relation=[uses("S", "D"), uses("N1", "E"), uses("N2", "F")],
        network_matrix_kv=links,
    )


def value(snapshot: Snapshot, field: str, src: str, dst: str = "NUC") -> float:
    """The value of a link; NaN if it has none."""
    sites = list(snapshot.links.sites)
    column = list(snapshot.nuclei.name).index(dst)
    return float(getattr(snapshot.links, field)[sites.index(src), column]) if src in sites else math.nan


@pytest.mark.parametrize(
    ("ts", "counts"),
    [
        (ago(minutes=60), False),
        (ago(minutes=59, seconds=59), True),
        (ago(minutes=60, seconds=1), False),
        (NOW, True),
        (ago(minutes=59).replace(tzinfo=None), True),
    ],
)
@pytest.mark.parametrize("key", KEYS)
def test_a_row_counts_for_60_minutes(key: str, ts: datetime, counts: bool) -> None:
    figure = value(snapshot_of(link("SAT", "NUC", key, 5, ts)), KEYS[key], "SAT")
    assert figure == 5 if counts else math.isnan(figure)


def test_freshness_is_judged_by_key() -> None:
    snapshot = snapshot_of(
        link("SAT", "NUC", "dashb_mbps_1h", 9, ago(minutes=61)),
        link("SAT", "NUC", "dashb_mbps_1d", 7),
        link("SAT", "NUC", "AGIS_closeness", 3),
    )
    assert math.isnan(value(snapshot, "mbps_1h", "SAT"))
    assert (value(snapshot, "mbps_1d", "SAT"), value(snapshot, "closeness", "SAT")) == (7, 3)


def test_totals_sum_all_fresh_source_sites_and_are_zero_without_any() -> None:
    snapshot = snapshot_of(
        link("SAT", "NUC", "Production Output_queued", 100),
        link("FAR", "NUC", "Production Output_queued", 20),
        link("UNKNOWN", "NUC", "Production Output_queued", 3),
        link("NUC", "NUC", "Production Output_queued", 1),
        link("OLD", "NUC", "Production Output_queued", 1000, ago(hours=2)),
        link("SAT", "NUC", "Express_queued", 4),
    )
    assert list(snapshot.nuclei.name) == ["NUC", "OTHER"]
    assert list(snapshot.links.total_queued) == [124, 0]
    assert list(snapshot.links.total_queued_urgent) == [4, 0]


@pytest.mark.parametrize(
    ("key", "number", "code"),
    [
        ("Production Output_queued", -1, "negative"),
        ("dashb_mbps_1h", -5, "negative"),
        ("dashb_mbps_1h", math.nan, "not_finite"),
        ("AGIS_closeness", math.inf, "not_finite"),
        ("AGIS_closeness", "near", "wrong_type"),
    ],
)
def test_an_invalid_value_is_dropped(key: str, number: Any, code: str) -> None:
    snapshot = snapshot_of(link("SAT", "NUC", key, number), link("FAR", "NUC", key, 2))
    assert math.isnan(value(snapshot, KEYS[key], "SAT"))
    assert value(snapshot, KEYS[key], "FAR") == 2
    assert [(entry.source, entry.identifier, entry.code) for entry in snapshot.dropped_rows] == [
        ("links", "SAT NUC", code)
    ]


def test_closeness_may_be_minus_one() -> None:
    assert value(snapshot_of(link("SAT", "NUC", "AGIS_closeness", -1)), "closeness", "SAT") == -1


@pytest.mark.parametrize(
    ("row", "code"),
    [
        (link("SAT", "NUC", "AGIS_closeness", 1, None), "missing"),
        ({"src": None, "dst": "NUC", "key": "AGIS_closeness", "value": 1, "ts": NOW}, "missing"),
        (link("x" * 1_000_000, "NUC", "AGIS_closeness", 1), "too_long"),
    ],
)
def test_a_link_without_time_or_name_is_dropped(row: dict[str, Any], code: str) -> None:
    snapshot = snapshot_of(row, link("FAR", "NUC", "AGIS_closeness", 2))
    assert [entry.code for entry in snapshot.dropped_rows] == [code]
    assert value(snapshot, "closeness", "FAR") == 2


def test_unused_rows_are_ignored() -> None:
    snapshot = snapshot_of(
        link("SAT", "NUC", "Production Output_done_6h", 5),
        link("SAT", "SAT", "AGIS_closeness", 5),
        link("SAT", "NUC", "AGIS_closeness", None),
    )
    assert list(snapshot.links.sites) == ["NUC", "OTHER"]
    assert np.isnan(snapshot.links.closeness).all()
    assert snapshot.dropped_rows == ()


def test_the_storage_site_of_a_queue_is_the_site_of_its_default_output() -> None:
    snapshot = snapshot_of(link("SAT", "NUC", "AGIS_closeness", 1))
    sites = list(snapshot.links.sites)
    site_of_queue = dict(zip(snapshot.queues.name, snapshot.queues.storage_site, strict=True))
    assert site_of_queue == {"N1": sites.index("NUC"), "S": sites.index("SAT"), "N2": -1}
