"""The flow of work read in one query equals the flow read bucket by bucket."""

from __future__ import annotations

import random
from collections import defaultdict
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from broker.service.statements.flow_reads import Steps, decided, placed, waiting
from broker.store.connection.database import Database
from broker.store.summaries.reason_counts import bucket_of, outcome_counts

NOW = datetime(2026, 3, 4, 12, 7, 11, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
JOB_BROKERAGES, ALL_BROKERAGES = (
    ["analysis_job", "production_job"],
    ["analysis_job", "production_job", "production_task"],
)
_INSERT_REASON_COUNT = sa.text("""
    INSERT INTO broker.reason_counts (bucket_s, bucket_at, brokerage, outcome, reason, main_reason, decisions,
        chunks, jobs)
    VALUES (:width, :at, :brokerage, :outcome, :reason, '', 1, :chunks, :jobs)""")
_INSERT_WAITING_COUNT = sa.text("""
    INSERT INTO broker.waiting_counts (bucket_s, bucket_at, brokerage, outcome, reason, main_reason, chunks, tasks)
    VALUES (:width, :at, :brokerage, 'pending', :reason, :main, :chunks, 1)""")


@pytest.mark.parametrize("step_s", [300, 3600])
@pytest.mark.parametrize(
    "brokerages", [ALL_BROKERAGES, ["production_task"], []], ids=["all", "none places jobs", "nothing"]
)
def test_one_query_gives_the_decisions_of_a_day(shared_database: Database, step_s: int, brokerages: list[str]) -> None:
    draw, rows = random.Random(7), []
    for minutes in range(-5, 27 * 60, 5):
        for name in [brokerage for brokerage in brokerages if draw.random() < 0.8]:
            at = bucket_of(NOW - timedelta(minutes=minutes))
            for outcome, reason in (("brokered", ""), ("pending", "full"), ("pending", "disk")):
                jobs = draw.choice([0, 0, 3]) if outcome == "brokered" else 0
                rows.append({"width": 300, "at": at, "brokerage": name, "outcome": outcome, "reason": reason,
                             "chunks": draw.randrange(9), "jobs": jobs})  # fmt: skip
    with shared_database.begin() as connection:
        connection.execute(sa.text("TRUNCATE broker.reason_counts"))
        if rows:
            connection.execute(_INSERT_REASON_COUNT, rows)
    starts = bucket_of(NOW, step_s) - timedelta(seconds=23 * step_s)
    until = NOW + timedelta(seconds=300)
    with shared_database.read_snapshot() as connection:
        flow = decided(
            connection, NOW, Steps(bucket_of(NOW - DAY), NOW, 1800.0), Steps(starts, until, step_s), JOB_BROKERAGES
        )
        outcomes = outcome_counts(connection, NOW - DAY, NOW, 1800.0)
        by_bucket = placed(connection, starts, until, JOB_BROKERAGES)
        before = placed(connection, NOW - DAY - HOUR, NOW - DAY, JOB_BROKERAGES)
    by_step: defaultdict[datetime, int] = defaultdict(int)
    for at, jobs in by_bucket:
        by_step[bucket_of(at, step_s)] += jobs
    assert flow.outcomes == outcomes and dict(flow.placed) == by_step
    lately = [jobs for at, jobs in by_bucket if at > NOW - HOUR]
    assert flow.placed_last_hour == (sum(lately) if lately else None)
    assert flow.placed_before == (sum(jobs for _, jobs in before) if before else None)
    assert bool(outcomes) == bool(brokerages) and bool(by_step) == (brokerages == ALL_BROKERAGES)


#: Bucket width, start in minutes before noon, brokerage, reason, main reason, chunks.
WAITED = [
    (300, 5, "analysis_job", "no_candidates", "full", 1),
    (300, 5, "analysis_job", "disk", "", 2),
    (300, 10, "analysis_job", "disk", "", 90),
    (300, 60, "analysis_job", "disk", "", 4),
    (300, 61, "production_job", "disk", "", 8),
    (300, 40, "other", "disk", "", 99),
    (3600, 60, "production_job", "disk", "", 16),
    (3600, 60, "production_job", "full", "", 32),
    (3600, 120, "analysis_job", "disk", "", 64),
]
NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)


def ago(minutes: int) -> datetime:
    return NOON - timedelta(minutes=minutes)


@pytest.mark.parametrize(
    ("span", "expected"),
    [
        ((ago(60), NOON, 3600), [(ago(60), "disk", 2 + 16), (ago(60), "full", 1 + 32)]),
        ((ago(60), ago(5), 3600), [(ago(60), "disk", 90 + 16), (ago(60), "full", 32)]),
        ((ago(59), NOON, 3600), [(ago(60), "disk", 2), (ago(60), "full", 1)]),
        ((ago(120), NOON, 3600), [(ago(120), "disk", 64 + 8), (ago(60), "disk", 2 + 16), (ago(60), "full", 1 + 32)]),
        ((ago(15), NOON, 300), [(ago(10), "disk", 90), (ago(5), "disk", 2), (ago(5), "full", 1)]),
        ((ago(4), NOON, 300), []),
        ((ago(600), ago(300), 3600), []),
    ],
    ids=["an hour", "its last bucket is left out", "begins within", "two", "short steps", "within a bucket", "nothing"],
)
def test_the_last_bucket_of_each_brokerage_counts_for_a_step(
    shared_database: Database, span: tuple[datetime, datetime, int], expected: list[tuple[datetime, str, int]]
) -> None:
    with shared_database.begin() as connection:
        connection.execute(sa.text("TRUNCATE broker.waiting_counts"))
        for width, minutes, brokerage, reason, main, chunks in WAITED:
            values = {"width": width, "at": ago(minutes), "brokerage": brokerage, "reason": reason, "main": main}
            connection.execute(_INSERT_WAITING_COUNT, values | {"chunks": chunks})
        steps, all_steps = Steps(*span), Steps(ago(180), NOON, 3600)
        first, second = (
            waiting(connection, (steps, all_steps), JOB_BROKERAGES),
            waiting(connection, (all_steps, steps), JOB_BROKERAGES),
        )
    assert first[0] == second[1] == expected
    assert first[1] == second[0] and first[1]
