"""Conversion of worker statistics to rows."""

from __future__ import annotations

from typing import Any

import pytest

from broker.feeds.model.worker_statistics import worker_table
from broker.fetching.documents import DocumentRefused
from broker.simulation.model.demo.grid_documents import GridSize, worker_reports
from tests.feeds.documents import NOW, codes, document

STAMP = NOW.replace(tzinfo=None)


def report(statistics: Any, **fields: Any) -> dict[str, Any]:
    return {"harvester_id": "h", "panda_queue": "Q", "statistics": statistics, **fields}


def test_a_report() -> None:
    counts = {
        "managed": {"SCORE": {"running": 3, "submitted": 0}, "Undefined": {"running": 9}},
        "user": {"MCORE": {"idle": 1}},
    }
    table = worker_table(document(report(counts)), NOW)
    assert dict(table.rows) == {
        ("h", "Q", "SCORE", "running", "managed"): (3, STAMP),
        ("h", "Q", "SCORE", "submitted", "managed"): (0, STAMP),
        ("h", "Q", "MCORE", "idle", "user"): (1, STAMP),
    }
    assert not table.keeps(("h", "Q", "SCORE", "idle", "managed"), (1, STAMP))
    assert table.keeps(("h", "OTHER", "SCORE", "idle", "managed"), (1, STAMP))
    assert table.keeps(("other", "Q", "SCORE", "idle", "managed"), (1, STAMP))


@pytest.mark.parametrize(
    ("invalid", "code"),
    [
        (report({"m": {"SCORE": {"running": -1}}}), "negative"),
        (report({"m": {"SCORE": {"running": None}}}), "missing"),
        (report({"m": {"SCORE": {"running": "x"}}}), "wrong_type"),
        (report({"m": {"SCORE": {"running": 2**31}}}), "out_of_range"),
        (report({"m": {"SCORE": 5}}), "wrong_type"),
        (report(None), "wrong_type"),
        (report({}, panda_queue=None), "missing"),
        (report({}, harvester_id="h" * 51), "too_long"),
        (report({"m": {"SCORE": {"run\nning": 1}}}), "control_character"),
    ],
)
def test_a_report_with_a_fault_changes_nothing(invalid: dict[str, Any], code: str) -> None:
    table = worker_table(document([invalid, report({}, panda_queue="R")]), NOW)
    assert [row.code for row in table.dropped_rows] == [code] and table.about == {("h", "R")}


def test_a_second_report_of_a_queue_is_dropped() -> None:
    table = worker_table(document([report({"m": {"S": {"running": 1}}}), report({})]), NOW)
    assert codes(table.dropped_rows) == {"Q": "duplicate_name"} and len(table.rows) == 1


@pytest.mark.parametrize("content", [[], {}, [5], "x", None])
def test_an_invalid_report_is_refused(content: Any) -> None:
    with pytest.raises(DocumentRefused):
        worker_table(document(content), NOW)


def test_the_synthetic_reports() -> None:
    table = worker_table(document(worker_reports(GridSize(10))), NOW)
    assert len(table.rows) == 40 and table.dropped_rows == ()
