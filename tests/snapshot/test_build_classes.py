"""Rows that classes are made from: what is read of them, and what is left out with which reason."""

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


def test_queues_go_by_their_nickname_and_are_of_the_grid_unless_they_say_something_else() -> None:
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
    found = queues_about(rows, dropped_rows)
    assert list(found) == ["NICK", "B", "C"]
    assert found["NICK"] == QueueAbout("hpc", "push", 12.5)
    assert (found["B"].resource_type, found["B"].workflow) == ("GRID", None)
    assert math.isnan(found["B"].corepower) and math.isnan(found["C"].corepower)
    codes = [(one.identifier, one.code) for one in dropped_rows]
    assert codes == [("None", "missing"), ("D", "wrong_type"), ("E", "invalid_json"), ("F", "wrong_type")]


def site(document: str, age_s: float | None = 0, queue: str | None = "Q") -> dict[str, Any]:
    stamp = None if age_s is None else datetime.fromtimestamp(NOW.timestamp() - age_s, UTC).replace(tzinfo=None)
    return {"computingsite": queue, "value_json": document, "timestamp": stamp}


@pytest.mark.parametrize(
    ("given", "expected", "code"),
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
def test_classes_of_queues(given: dict[str, Any], expected: dict[str, tuple[int, str]], code: str | None) -> None:
    dropped_rows: list[DroppedRow] = []
    assert known_sites([given], NOW.timestamp(), 7200.0, dropped_rows) == expected
    assert [one.code for one in dropped_rows] == ([] if code is None else [code])


def test_the_last_of_two_rows_of_a_queue_counts() -> None:
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
    assert [one.code for one in dropped_rows] == ["negative", "missing"]
