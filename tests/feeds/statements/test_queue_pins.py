"""Pins in a database: when they are in force, and their effect on a decision."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from broker.feeds.statements.queue_pins import Pin, PinRefused, end_pin, held_pins, pins_of_queue, set_pin
from broker.snapshot.sources.pins import PINS, TABLE
from broker.store.connection.database import Database
from broker.store.connection.tables import TableCatalogue
from broker.store.snapshots.source_reads import SourceReader
from tests.brokerages.small_grid import NOW, TASK, dataset, input_files, one_cycle, replica, scenario, task
from tests.cli.commands import runner

HOUR = timedelta(hours=1)


def add_pin(
    database: Database, value: Any = "offline", field: str = "status", queue: str = "ALPHA_MCORE", **times: Any
) -> None:
    with database.begin() as connection:
        moments = {"now": NOW - HOUR, "until": NOW + HOUR, **times}
        set_pin(connection, queue, field, value, reason="disk exchange", editor="alice", **moments)


def pins_at(database: Database, instant: Any) -> list[tuple[str, Any]]:
    with database.begin() as connection:
        return [(pin.field, pin.value) for pin in held_pins(connection, instant)]


@pytest.mark.parametrize(
    ("offset", "is_in_force"),
    [(-HOUR, True), (-HOUR - timedelta(seconds=1), False), (HOUR - timedelta(seconds=1), True), (HOUR, False)],
)
def test_a_pin_is_in_force_from_start_to_end(database: Database, offset: timedelta, is_in_force: bool) -> None:
    add_pin(database)
    assert pins_at(database, NOW + offset) == ([("status", "offline")] if is_in_force else [])


def test_a_field_has_one_pin_and_earlier_ones_are_kept_on_record(database: Database) -> None:
    add_pin(database, "offline")
    add_pin(database, "brokeroff", now=NOW - timedelta(minutes=30))
    add_pin(database, 1000, "maxrss")
    assert pins_at(database, NOW) == [("maxrss", 1000), ("status", "brokeroff")]
    with database.begin() as connection:
        first: Pin = pins_of_queue(connection, "ALPHA_MCORE")[-1]
        assert (first.value, first.ended_at, first.ended_by) == ("offline", NOW - timedelta(minutes=30), "alice")
        reader = SourceReader(connection, TableCatalogue.read(connection, database.names), NOW)
        assert len(reader.read(PINS).rows(TABLE)) == 2


def test_a_pin_can_be_ended_only_once(database: Database) -> None:
    add_pin(database)
    with database.begin() as connection:
        assert end_pin(connection, "ALPHA_MCORE", "status", editor="bob", now=NOW)
        assert not end_pin(connection, "ALPHA_MCORE", "status", editor="bob", now=NOW)
    assert pins_at(database, NOW) == [] and pins_at(database, NOW - timedelta(seconds=1)) == [("status", "offline")]


def test_an_expired_pin_was_ended_by_no_editor(database: Database) -> None:
    add_pin(database)
    with database.begin() as connection:
        assert not end_pin(connection, "ALPHA_MCORE", "status", editor="bob", now=NOW + 2 * HOUR)
        (pin,) = pins_of_queue(connection, "ALPHA_MCORE")
    assert (pin.ended_at, pin.ended_by) == (NOW + HOUR, None)


def test_an_end_in_the_past_is_refused(database: Database) -> None:
    with pytest.raises(PinRefused):
        add_pin(database, until=NOW - HOUR)


def test_a_pin_counts_in_decisions_and_is_shown(database: Database, capsys: pytest.CaptureFixture[str]) -> None:
    add_pin(database)
    add_pin(database, 1, "corepower", "GAMMA_MCORE", until=NOW - timedelta(minutes=1))
    grid = scenario(
        jedi_tasks=[task()],
        jedi_datasets=[dataset(4)],
        jedi_dataset_contents=input_files(4, 10**9),
        dataset_replicas=[replica("ALPHA", 4, 4)],
    )
    _, decisions = one_cycle(database, grid)
    assert decisions[0]["rejected"]["ALPHA_MCORE"] == "status"
    broker = runner(capsys, "--db", database.url)
    (decision,) = broker("explain", str(TASK), "--json").document["decisions"]
    assert [(pin["queue"], pin["field"], pin["value"], pin["editor"]) for pin in decision["pins"]] == [
        ("ALPHA_MCORE", "status", "offline", "alice")
    ]
    for command in (("explain", str(TASK)), ("why-not", str(TASK), "ALPHA_MCORE")):
        result = broker(*command)
        assert result.status == 0 and "Held by operators" in result.out and "disk exchange" in result.out
    assert "Held by operators" not in broker("why-not", str(TASK), "GAMMA_MCORE").out
