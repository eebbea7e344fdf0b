"""The rows of ``broker.feature_reports`` and ``broker.queue_features``: what pilots report, and its summary."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from broker.formats.model.feature_summary import QueueSummary, Report

_INSERT_REPORT = sa.text("""
    INSERT INTO broker.feature_reports
        (queue, reporter, reported_at, cores, corepower, wall_limit_s, max_rss_bytes, scratch_limit_bytes,
         scratch_is_shared, total_cpu, jobstart_s, shutdown_at, keys, problems)
    VALUES (:queue, :reporter, :reported_at, :cores, :corepower, :wall_limit_s, :max_rss_bytes, :scratch_limit_bytes,
            :scratch_is_shared, :total_cpu, :jobstart_s, :shutdown_at, CAST(:keys AS jsonb), CAST(:problems AS jsonb))
    ON CONFLICT (queue, reporter) DO UPDATE SET
        reported_at = excluded.reported_at, cores = excluded.cores, corepower = excluded.corepower,
        wall_limit_s = excluded.wall_limit_s, max_rss_bytes = excluded.max_rss_bytes,
        scratch_limit_bytes = excluded.scratch_limit_bytes, scratch_is_shared = excluded.scratch_is_shared,
        total_cpu = excluded.total_cpu, jobstart_s = excluded.jobstart_s, shutdown_at = excluded.shutdown_at,
        keys = excluded.keys, problems = excluded.problems
    WHERE feature_reports.reported_at <= excluded.reported_at""")
_READ_REPORTS = sa.text("""
    SELECT queue, reporter, reported_at, cores, corepower, wall_limit_s, max_rss_bytes, scratch_limit_bytes,
           scratch_is_shared, total_cpu, shutdown_at
    FROM broker.feature_reports WHERE reported_at > :since AND reported_at <= :now ORDER BY queue, reporter""")
_DELETE_OLD_REPORTS = sa.text("DELETE FROM broker.feature_reports WHERE reported_at <= :before")
_DELETE_SUMMARIES = sa.text("DELETE FROM broker.queue_features")
_INSERT_SUMMARY = sa.text("""
    INSERT INTO broker.queue_features
        (queue, computed_at, pilots, corepower, maxtime_s, maxrss_per_core_mb, maxwdir_per_core_mb, draining_pilots,
         shutdown_at)
    VALUES (:queue, :computed_at, :pilots, :corepower, :maxtime_s, :maxrss_per_core_mb, :maxwdir_per_core_mb,
            :draining_pilots, :shutdown_at)""")


def _aware(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def save_report(
    connection: sa.Connection,
    report: Report,
    keys: Mapping[str, Any],
    problems: Iterable[str],
    jobstart_s: int | None = None,
) -> bool:
    """Keep a report in place of the pilot's last one; False if a newer one exists."""
    values = {
        "queue": report.queue,
        "reporter": report.reporter,
        "reported_at": _aware(report.reported_s),
        "cores": report.cores,
        "corepower": report.corepower,
        "wall_limit_s": report.wall_limit_s,
        "max_rss_bytes": report.max_rss_bytes,
        "scratch_limit_bytes": report.scratch_limit_bytes,
        "scratch_is_shared": report.scratch_is_shared,
        "total_cpu": report.total_cpu,
        "jobstart_s": jobstart_s,
        "shutdown_at": _aware(report.shutdown_s),
        "keys": json.dumps(dict(keys)),
        "problems": json.dumps(list(problems)),
    }
    return bool(connection.execute(_INSERT_REPORT, values).rowcount)


def read_reports(connection: sa.Connection, now: datetime, window: timedelta) -> list[Report]:
    """The reports of the last ``window``, by queue and reporter."""
    return [
        Report(
            row.queue,
            row.reporter,
            row.reported_at.timestamp(),
            row.cores,
            row.corepower,
            row.wall_limit_s,
            row.max_rss_bytes,
            row.scratch_limit_bytes,
            row.scratch_is_shared,
            row.total_cpu,
            None if row.shutdown_at is None else int(row.shutdown_at.timestamp()),
        )
        for row in connection.execute(_READ_REPORTS, {"since": now - window, "now": now})
    ]


def forget_reports(connection: sa.Connection, before: datetime) -> int:
    """Remove reports up to a time; returns how many there were."""
    return connection.execute(_DELETE_OLD_REPORTS, {"before": before}).rowcount


def replace_summaries(connection: sa.Connection, summaries: Iterable[QueueSummary], now: datetime) -> int:
    """Replace the figures of all queues; returns how many queues there are."""
    rows = [
        {
            "queue": summary.queue,
            "computed_at": now,
            "pilots": summary.pilots,
            "corepower": summary.corepower,
            "maxtime_s": summary.maxtime_s,
            "maxrss_per_core_mb": summary.maxrss_per_core_mb,
            "maxwdir_per_core_mb": summary.maxwdir_per_core_mb,
            "draining_pilots": summary.draining_pilots,
            "shutdown_at": _aware(summary.shutdown_s),
        }
        for summary in summaries
    ]
    connection.execute(_DELETE_SUMMARIES)
    if rows:
        connection.execute(_INSERT_SUMMARY, rows)
    return len(rows)
