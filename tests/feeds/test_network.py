"""Conversion of network metrics to rows: keys, times, sites."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from broker.feeds.model.network_metrics import metric_table
from broker.simulation.model.demo.grid_documents import GridSize, network_metrics
from tests.feeds.documents import NOW, codes, document, raw

STAMP = "2026-08-01T11:50:00"
WHEN = NOW.replace(tzinfo=None) - timedelta(minutes=10)


def timestamp_before(minutes: float) -> str:
    return (NOW - timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%S")


def test_the_keys_of_a_link() -> None:
    link = {
        "files": {
            "done": {"Production Input": {"1h": 3, "6h": 20, "timestamp": STAMP}, "Recovery": {"1h": 1, "6h": 1}},
            "queued": {
                "Production Output": {"latest": 7, "timestamp": STAMP},
                "Express": {"latest": 0, "timestamp": STAMP},
            },
        },
        "mbps": {"dashb": {"1h": 10.4, "1d": 9.6, "timestamp": STAMP}, "fax": {"1w": 2, "timestamp": STAMP}},
    }
    table = metric_table(document({"A:B": link}), ("A", "B"), NOW)
    assert {key[2]: values for key, values in table.rows.items()} == {
        "Production Input_done_1h": (3, WHEN),
        "Production Input_done_6h": (20, WHEN),
        "Production Output_queued": (7, WHEN),
        "Express_queued": (0, WHEN),
        "dashb_mbps_1h": (10, WHEN),
        "dashb_mbps_1d": (10, WHEN),
        "fax_mbps_1w": (2, WHEN),
    }
    assert table.dropped_rows == ()


@pytest.mark.parametrize(
    ("stamp", "code"),
    [
        (timestamp_before(30), ""),
        (timestamp_before(30.1), "too_old"),
        (timestamp_before(-5), ""),
        (timestamp_before(-5.1), "future"),
        ("yesterday", "bad_time"),
        ("", "missing"),
        (None, "missing"),
        (1_754_049_600, "wrong_type"),
    ],
)
def test_times(stamp: Any, code: str) -> None:
    link = {"files": {"queued": {"Express": {"latest": 1, "timestamp": stamp}}}}
    table = metric_table(document({"A:B": link}), ("A", "B"), NOW)
    assert codes(table.dropped_rows) == ({"A:B Express_queued": code} if code else {})
    assert len(table.rows) == (0 if code else 1)


@pytest.mark.parametrize(
    ("value", "code"), [(0, ""), (-1, "negative"), ("many", "wrong_type"), (None, "missing"), (2**63, "out_of_range")]
)
def test_values(value: Any, code: str) -> None:
    link = {"files": {"queued": {"Express": {"latest": value, "timestamp": STAMP}}}}
    table = metric_table(document({"A:B": link}), ("A", "B"), NOW)
    assert codes(table.dropped_rows) == ({"A:B Express_queued": code} if code else {})


@pytest.mark.parametrize(
    ("link", "code"),
    [
        ("A:B", ""),
        ("UNKNOWN:B", ""),
        ("A:C", "unknown_site"),
        ("AB", "bad_link"),
        (":B", "missing"),
        ("A:B\x07", "control_character"),
        ("A:" + "B" * 257, "too_long"),
    ],
)
def test_links(link: str, code: str) -> None:
    table = metric_table(document({link: {"mbps": {"dashb": {"1h": 1, "timestamp": STAMP}}}}), ("A", "B"), NOW)
    assert [row.code for row in table.dropped_rows] == ([code] if code else [])


def test_an_invalid_time_of_one_system_is_not_replaced_by_another() -> None:
    link = {"mbps": {"dashb": {"1h": 1, "timestamp": STAMP}, "rucio": {"1h": 2, "timestamp": "x"}}}
    table = metric_table(document({"A:B": link}), ("A", "B"), NOW)
    assert {key[2] for key in table.rows} == {"dashb_mbps_1h"}
    assert codes(table.dropped_rows) == {"A:B rucio_mbps_1h": "bad_time"}


def test_records_of_a_wrong_type_and_repeated_links_are_dropped() -> None:
    table = metric_table(raw('{"A:B": 5, "B:A": {"mbps": {"dashb": 3}}, "A:A": {}, "A:A": {}}'), ("A", "B"), NOW)
    assert not table.rows
    assert codes(table.dropped_rows)["A:B"] == "wrong_type" and codes(table.dropped_rows)["A:A"] == "duplicate_name"


def test_the_synthetic_metrics_are_converted_without_faults() -> None:
    size = GridSize(8)
    table = metric_table(document(network_metrics(size, NOW)), [f"SITE-{number:04d}" for number in range(4)], NOW)
    assert len(table.rows) == 12 * 13 and table.dropped_rows == ()
