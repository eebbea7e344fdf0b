"""Nodes at which jobs of two tasks fail are held for as long as they are closed, while the key is on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from tests.agents.outcomes.test_outcomes import NOW, answer, archive, ended_job, failed_job, rows, run_once


def switch(database: Database, value: str, key: str = "LEARNED_AVOID_NODES") -> None:
    """Set the key as PanDA's operators do by hand."""
    statement = """INSERT INTO doma_panda.config (app, component, key, vo, value, type, descr)
        VALUES ('jedi', 'jobbroker', :key, 'atlas', :value, 'boolean', '-')"""
    with database.begin() as connection:
        connection.execute(sa.text("DELETE FROM doma_panda.config"))
        connection.execute(sa.text(statement), {"value": value, "key": key})


def bad_job(number: int, tasks: int = 2, **columns: Any) -> dict[str, Any]:
    """A job that failed at node ``bad`` within the last minutes."""
    return failed_job(number, 110 + number, jeditaskid=number % tasks, modificationhost="slot1@bad", **columns)


@pytest.mark.parametrize(
    ("value", "failures", "tasks", "is_held"),
    [("True", 7, 2, True), ("False", 7, 2, False), ("True", 6, 2, False), ("True", 7, 1, False)],
)
def test_which_nodes_are_held(database: Database, value: str, failures: int, tasks: int, is_held: bool) -> None:
    good = [ended_job(100 + number, 100, jeditaskid=number % 2, modificationhost=f"n{number}") for number in range(9)]
    archive(database, *good, *(bad_job(number, tasks) for number in range(failures)))
    switch(database, value)
    record, _ = run_once(database)
    closed_at = datetime(2026, 8, 1, 11, 50, tzinfo=UTC) + timedelta(minutes=6)
    expected = [("Q", "bad", closed_at + timedelta(minutes=30), 7, 7, 2)] if is_held else []
    assert (record.counts["held_nodes"], rows(database, "held_nodes")) == (len(expected), expected)
    assert ("bad" in {node.node for node in answer(database).unhealthy}) == (failures > 3)


@pytest.mark.parametrize(("minutes", "value"), [(31, "True"), (1, "False")])
def test_a_node_is_released_when_its_time_is_over_or_the_key_is_off(
    database: Database, minutes: int, value: str
) -> None:
    archive(database, *(bad_job(number) for number in range(7)))
    switch(database, "True")
    run_once(database)
    assert [row[1] for row in rows(database, "held_nodes")] == ["bad"]
    switch(database, value)
    run_once(database, NOW + timedelta(minutes=minutes))
    assert rows(database, "held_nodes") == []


def test_a_dry_run_holds_nothing(database: Database) -> None:
    archive(database, *(bad_job(number) for number in range(7)))
    switch(database, "True")
    run_once(database, dry_run=True)
    assert rows(database, "held_nodes") == []
