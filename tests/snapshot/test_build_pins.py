"""Pins: which are in force at an instant, and how they override the values of CRIC."""

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
    ("start", "end", "is_in_force"),
    [
        (NOW, NOW + MINUTE, True),
        (NOW + timedelta(seconds=1), NOW + MINUTE, False),
        (NOW - MINUTE, NOW + timedelta(seconds=1), True),
        (NOW - MINUTE, NOW, False),
        (None, NOW + MINUTE, False),
        (NOW - MINUTE, None, False),
    ],
)
def test_a_pin_is_in_force_from_start_to_end(start: datetime | None, end: datetime | None, is_in_force: bool) -> None:
    dropped_rows: list[DroppedRow] = []
    pins_by_queue = pins_in_force(pins(pin(start=start, end=end)), NOW.timestamp(), dropped_rows)
    assert pins_by_queue == ({"Q": {"status": "brokeroff"}} if is_in_force else {}) and not dropped_rows


@pytest.mark.parametrize(
    ("row", "code"),
    [
        (("Q", "status", "no json", "", "", NOW, NOW + MINUTE), "invalid_json"),
        ((None, "status", '"x"', "", "", NOW, NOW + MINUTE), "missing"),
        (("Q", "status", '"x"', "", "", "yesterday", NOW), "wrong_type"),
    ],
)
def test_an_unusable_row_is_dropped(row: tuple[Any, ...], code: str) -> None:
    dropped_rows: list[DroppedRow] = []
    pins_by_queue = pins_in_force(pins(row, pin(queue="R")), NOW.timestamp(), dropped_rows)
    assert set(pins_by_queue) == {"R"} and [dropped.code for dropped in dropped_rows] == [code]


def test_a_pin_of_an_unknown_queue_is_reported() -> None:
    dropped_rows: list[DroppedRow] = []
    unknown_queues(pins(pin(), pin(queue="GONE")), {"Q": 0}, dropped_rows)
    assert [(dropped.source, dropped.identifier, dropped.code) for dropped in dropped_rows] == [
        ("pins", "GONE", "unknown_queue")
    ]


def test_a_pinned_value_overrides_the_value_of_cric() -> None:
    data = json.dumps({"nickname": "NICK", "status": "online", "maxrss": 2000, "cloud": "X"})
    source = RawSource(
        "queues", {"schedconfig_json": Rows(("panda_queue", "data"), (("Q", data), ("R", data.replace("NICK", "R"))))}
    )
    pins_by_queue = {"NICK": {"status": "brokeroff", "maxrss": 1000}, "Q": {"status": "offline"}}
    records = {record.name: record for record in read_queues(source, [], pins_by_queue)}
    assert (records["NICK"].status, records["NICK"].maxrss_mb) == ("brokeroff", 1000)
    assert (records["R"].status, records["R"].maxrss_mb) == ("online", 2000)
