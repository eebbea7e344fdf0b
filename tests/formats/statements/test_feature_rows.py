from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from broker.formats.model.feature_summary import QueueSummary, Report
from broker.formats.statements import feature_rows
from broker.snapshot.raw import RawSource
from broker.snapshot.sources.features import FEATURES, TABLE
from broker.store.connection.database import Database
from broker.store.connection.tables import TableCatalogue
from broker.store.snapshots.source_reads import SourceReader

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
REPORT = Report("Q", "p1", NOW.timestamp(), 8, 12.5, 3600, 2**34, 2**35, True, 64, int(NOW.timestamp()) + 60)
HOUR = timedelta(hours=1)


def test_a_saved_report_is_read_back(database: Database) -> None:
    with database.begin() as connection:
        assert feature_rows.save_report(connection, REPORT, {"hs06": 400.0}, ["hs06:zero"], 5)
        empty = Report("R", "p1", NOW.timestamp())
        assert feature_rows.save_report(connection, empty, {}, [])
        assert feature_rows.read_reports(connection, NOW, HOUR) == [REPORT, empty]


def test_a_pilot_has_one_report_and_an_older_one_does_not_replace_it(database: Database) -> None:
    older = dataclasses.replace(REPORT, reported_s=REPORT.reported_s - 1, corepower=1.0)
    newer = dataclasses.replace(REPORT, reported_s=REPORT.reported_s + 1, corepower=9.0)
    with database.begin() as connection:
        assert feature_rows.save_report(connection, REPORT, {}, [])
        assert not feature_rows.save_report(connection, older, {}, [])
        assert feature_rows.save_report(connection, newer, {}, [])
        assert feature_rows.read_reports(connection, NOW + HOUR / 60, HOUR) == [newer]


def test_only_the_window_is_read_and_old_reports_are_removed(database: Database) -> None:
    with database.begin() as connection:
        for number, minutes in enumerate((-1, 0, 59, 60, 61)):
            when = (NOW - timedelta(minutes=minutes)).timestamp()
            feature_rows.save_report(connection, Report("Q", f"p{number}", when), {}, [])
        reporters = [report.reporter for report in feature_rows.read_reports(connection, NOW, HOUR)]
        assert reporters == ["p1", "p2"]  # neither future reports nor those of an hour ago
        assert feature_rows.forget_reports(connection, NOW - HOUR) == 2


def source_of(connection: sa.Connection, database: Database) -> RawSource:
    return SourceReader(connection, TableCatalogue.read(connection, database.names), NOW).read(FEATURES)


def test_summaries_replace_the_previous_ones_and_are_a_source(database: Database) -> None:
    first = QueueSummary(5, None, None, None, None, None, "OLD", 0)
    second = QueueSummary(30, 12.5, 3000.0, 2000.0, 9000.0, NOW.timestamp() + 60, "Q", 20)
    with database.begin() as connection:
        assert source_of(connection, database).newest is None
        feature_rows.replace_summaries(connection, [first], NOW)
        assert feature_rows.replace_summaries(connection, [second], NOW) == 1
    with database.read_snapshot() as connection:
        source = source_of(connection, database)
    (row,) = source.rows(TABLE).records()
    assert source.newest == NOW
    assert row["queue"] == "Q" and row["corepower"] == 12.5
    assert row["shutdown_at"] == NOW + timedelta(minutes=1)
