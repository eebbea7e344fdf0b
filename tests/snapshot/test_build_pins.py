"""Pins: which hold at an instant, and how they are laid over what CRIC says."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from broker.domain.work import DroppedRow
from broker.snapshot.raw import RawSource, Rows
from broker.snapshot.sources.pins import PIN_COLUMNS, PINS, pins_in_force, unknown_queues
from broker.snapshot.sources.queues import read_queues

NOW = datetime(2026, 8, 1, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def pins(*rows: tuple[Any, ...]) -> RawSource:
    return RawSource(PINS.name, {"queue_pins": Rows(PIN_COLUMNS, tuple(rows))})


def pin(
    field: str = "status",
    value: Any = "brokeroff",
    queue: str = "Q",
    start: Any = NOW - MINUTE,
    end: Any = NOW + MINUTE,
) -> tuple[Any, ...]:
    return (queue, field, json.dumps(value), "why", "alice", start, end)


@pytest.mark.parametrize(
    ("start", "end", "holds"),
    [
        (NOW, NOW + MINUTE, True),
        (NOW + timedelta(seconds=1), NOW + MINUTE, False),
        (NOW - MINUTE, NOW + timedelta(seconds=1), True),
        (NOW - MINUTE, NOW, False),
        (None, NOW + MINUTE, False),
        (NOW - MINUTE, None, False),
    ],
)
def test_a_pin_ends_by_itself(start: datetime | None, end: datetime | None, holds: bool) -> None:
    dropped_rows: list[DroppedRow] = []
    found = pins_in_force(pins(pin(start=start, end=end)), NOW.timestamp(), dropped_rows)
    assert found == ({"Q": {"status": "brokeroff"}} if holds else {}) and not dropped_rows


@pytest.mark.parametrize(
    ("row", "code"),
    [
        (("Q", "status", "no json", "", "", NOW, NOW + MINUTE), "invalid_json"),
        ((None, "status", '"x"', "", "", NOW, NOW + MINUTE), "missing"),
        (("Q", "status", '"x"', "", "", "yesterday", NOW), "wrong_type"),
    ],
)
def test_a_row_that_cannot_be_used_is_left_out(row: tuple[Any, ...], code: str) -> None:
    dropped_rows: list[DroppedRow] = []
    found = pins_in_force(pins(row, pin(queue="R")), NOW.timestamp(), dropped_rows)
    assert set(found) == {"R"} and [one.code for one in dropped_rows] == [code]


def test_a_pin_of_no_queue_is_told() -> None:
    dropped_rows: list[DroppedRow] = []
    unknown_queues(pins(pin(), pin(queue="GONE")), {"Q": 0}, dropped_rows)
    assert [(one.source, one.identifier, one.code) for one in dropped_rows] == [("pins", "GONE", "unknown_queue")]


def test_what_is_held_counts_in_place_of_what_cric_says() -> None:
    data = json.dumps({"nickname": "NICK", "status": "online", "maxrss": 2000, "cloud": "X"})
    source = RawSource(
        "queues", {"schedconfig_json": Rows(("panda_queue", "data"), (("Q", data), ("R", data.replace("NICK", "R"))))}
    )
    held = {"NICK": {"status": "brokeroff", "maxrss": 1000}, "Q": {"status": "offline"}}
    records = {record.name: record for record in read_queues(source, [], held)}
    assert (records["NICK"].status, records["NICK"].maxrss_mb) == ("brokeroff", 1000)
    assert (records["R"].status, records["R"].maxrss_mb) == ("online", 2000)
