from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from pydantic import ValidationError

from agents.service import registry
from agents.service.base import CycleContext, CycleRequest
from agents.service.configuration import ProcessSettings
from agents.service.cycle import run_cycle
from broker.formats.model.feature_summary import Report
from broker.formats.statements import feature_rows
from broker.store.connection.database import Database
from broker.store.service import leases
from broker.store.service.agent_runs import RunRecord
from broker.store.service.leases import LeaseTerms

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)


def report_all(database: Database, count: int, ago: timedelta = timedelta(minutes=5), **values: Any) -> None:
    with database.begin() as connection:
        for number in range(count):
            report = Report("Q", f"p{number}", (NOW - ago).timestamp(), **values)
            feature_rows.save_report(connection, report, {}, [])


def run_once(database: Database, dry_run: bool = False, **options: Any) -> tuple[RunRecord, list[dict[str, Any]]]:
    agent = registry.make("features", options, ProcessSettings())
    objects: list[dict[str, Any]] = []
    request = CycleRequest(dry_run=dry_run, emit=objects.append)
    with database.begin() as connection:
        lease = None if dry_run else leases.acquire(connection, "features", "test", LeaseTerms()).lease
    record = run_cycle(agent, CycleContext(database, NOW, 1, 60.0, request, lease=lease))
    if lease is not None:
        with database.begin() as connection:
            leases.release(connection, lease)
    return record, objects


def written_features(database: Database) -> list[Any]:
    with database.read_snapshot() as connection:
        statement = "SELECT queue, pilots, corepower, draining_pilots, shutdown_at FROM broker.queue_features"
        return [tuple(row) for row in connection.execute(sa.text(statement))]


def test_a_cycle_adds_the_reports_up(database: Database) -> None:
    report_all(database, 20, corepower=12.5, shutdown_s=int(NOW.timestamp()) + 600)
    record, objects = run_once(database)
    assert (record.outcome, record.error) == ("done", None)
    assert record.counts == {"reports": 20, "queues": 1, "draining": 1, "forgotten": 0}
    assert written_features(database) == [("Q", 20, 12.5, 20, NOW + timedelta(minutes=10))]
    assert objects[0]["queue"] == "Q"


def test_a_dry_run_emits_objects_and_writes_nothing(database: Database) -> None:
    report_all(database, 20, corepower=12.5)
    record, objects = run_once(database, dry_run=True)
    assert record.outcome == "done"
    assert objects[0]["corepower"] == 12.5
    assert written_features(database) == []


def test_a_queue_without_recent_reports_has_no_figures(database: Database) -> None:
    report_all(database, 20, corepower=12.5)
    run_once(database)
    report_all(database, 0)
    with database.begin() as connection:
        connection.execute(sa.text("UPDATE broker.feature_reports SET reported_at = reported_at - interval '7 hours'"))
    run_once(database)
    assert written_features(database) == []


def test_old_reports_are_removed(database: Database) -> None:
    report_all(database, 3, timedelta(days=8))
    record, _ = run_once(database, keep_days=7)
    assert record.counts["forgotten"] == 3


def test_the_options_take_effect(database: Database) -> None:
    report_all(database, 3, corepower=12.5)
    run_once(database, min_pilots=4)
    assert written_features(database)[0][2] is None
    run_once(database, min_pilots=3)
    assert written_features(database)[0][2] == 12.5


def test_a_cycle_that_lost_its_lease_writes_nothing(database: Database) -> None:
    report_all(database, 20, corepower=12.5)
    agent = registry.make("features", {}, ProcessSettings())
    stale = leases.Lease("features", "somebody", 0)
    record = run_cycle(agent, CycleContext(database, NOW, 1, 60.0, lease=stale))
    assert record.outcome == "lost_lease"
    assert written_features(database) == []


@pytest.mark.parametrize("options", [{"min_pilots": 0}, {"drain_share": 1.0}, {"window_h": 0}, {"colour": "red"}])
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    agent_type = type(registry.make("features", {}, ProcessSettings()))
    with pytest.raises(ValidationError):
        agent_type.options_type.model_validate(options)
