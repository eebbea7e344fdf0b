"""Rows from which classes are computed: the values read, and the rows dropped with their reason."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import Any

import pytest

from broker.domain.classification import QueueAbout
from broker.domain.work import DroppedRow
from broker.snapshot.build_classes import known_sites, queues_about, share_values

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)


def row(name: str | None, **data: Any) -> dict[str, Any]:
    return {"panda_queue": name, "data": json.dumps(data)}


def test_queues_are_keyed_by_nickname_and_default_to_type_grid() -> None:
    dropped_rows: list[DroppedRow] = []
    rows = [
        row("A", nickname="NICK", resource_type="hpc", workflow="push", corepower="12.5"),
        row("B", nickname="", resource_type="", corepower="fast"),
        row("C", corepower=None),
        row("NICK", resource_type="cloud"),
        row(None),
        row("D", workflow=5),
        {"panda_queue": "E", "data": '{"corepower": NaN}'},
        {"panda_queue": "F", "data": None},
    ]
    queues = queues_about(rows, dropped_rows)
    assert list(queues) == ["NICK", "B", "C"]
    assert queues["NICK"] == QueueAbout("hpc", "push", 12.5)
    assert (queues["B"].resource_type, queues["B"].workflow) == ("GRID", None)
    assert math.isnan(queues["B"].corepower) and math.isnan(queues["C"].corepower)
    codes = [(dropped.identifier, dropped.code) for dropped in dropped_rows]
    assert codes == [("None", "missing"), ("D", "wrong_type"), ("E", "invalid_json"), ("F", "wrong_type")]


def site(document: str, age_s: float | None = 0, queue: str | None = "Q") -> dict[str, Any]:
    stamp = None if age_s is None else datetime.fromtimestamp(NOW.timestamp() - age_s, UTC).replace(tzinfo=None)
    return {"computingsite": queue, "value_json": document, "timestamp": stamp}


@pytest.mark.parametrize(
    ("site_row", "expected", "code"),
    [
        (site('{"class": 1}'), {"Q": (1, "GRID")}, None),
        (site('{"class": -1, "resource_type": "hpc"}'), {"Q": (-1, "hpc")}, None),
        (site('{"class": "0"}', 7200), {"Q": (0, "GRID")}, None),
        (site('{"class": 1}', 7200.001), {}, None),
        (site('{"class": 1}', None), {}, None),
        (site('{"class": 2}'), {}, "no_class"),
        (site('{"class": 0.5}'), {}, "no_class"),
        (site('{"class": null}'), {}, "no_class"),
        (site("{}"), {}, "no_class"),
        (site('{"class": NaN}'), {}, "invalid_json"),
        (site('{"class": true}'), {}, "wrong_type"),
        (site("[]"), {}, "wrong_type"),
        (site('{"class": 1}', queue=None), {}, "missing"),
    ],
)
def test_classes_of_queues(site_row: dict[str, Any], expected: dict[str, tuple[int, str]], code: str | None) -> None:
    dropped_rows: list[DroppedRow] = []
    assert known_sites([site_row], NOW.timestamp(), 7200.0, dropped_rows) == expected
    assert [dropped.code for dropped in dropped_rows] == ([] if code is None else [code])


def test_the_last_row_of_a_queue_counts() -> None:
    rows = [site('{"class": 1}', 60), site('{"class": 0}', 30)]
    assert known_sites(rows, NOW.timestamp(), 7200.0, []) == {"Q": (0, "GRID")}


def test_shares() -> None:
    dropped_rows: list[DroppedRow] = []
    rows: list[dict[str, Any]] = [
        {"name": "A", "value": 5, "parent": None},
        {"name": "B", "value": None, "parent": ""},
        {"name": "C", "value": -1, "parent": "A"},
        {"name": None, "value": 1, "parent": "A"},
    ]
    assert share_values(rows, dropped_rows) == [("A", 5.0, None), ("B", 0.0, None)]
    assert [dropped.code for dropped in dropped_rows] == ["negative", "missing"]
