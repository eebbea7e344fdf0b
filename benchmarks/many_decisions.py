"""Many stored decisions with the summaries behind lists, for the benchmarks of the decision store and of the pages.

The decisions are those of real cycles at one instant, copied to other tasks and instants over 14 days, each day in its
own partition, one batch of cycles per transaction. The decisions of every third task are made pending.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from benchmarks.measuring import NOW
from broker.store.connection.database import Database
from broker.store.decisions import decision_days

DAYS = 14
_COLUMNS = "datasetid, ramcount, brokerage"
_PACKED = """legend, reasons, candidates, candidate_count, remarks, assigned, notes, pending_until"""
#: How many copies of each task of the cycle exist, with different task numbers.
TASK_COPIES = 25
_CYCLES_OF_A_BATCH = 250
# Each cycle has a separate run and snapshot.
_COPY = sa.text(f"""
    INSERT INTO broker.decisions (agent_run, jeditaskid, decided_at, snapshot, outcome, reason, tuning, seed, engine,
        {_COLUMNS}, {_PACKED}, work)
    SELECT n, jeditaskid + 1000000 * (n % :task_copies), at,
        to_char(at AT TIME ZONE 'UTC', 'YYYYMMDD"T"HH24MISS') || substr(snapshot, 16),
        CASE WHEN jeditaskid % 3 = 0 THEN 'pending' ELSE outcome END,
        CASE WHEN jeditaskid % 3 = 0 THEN 'no_candidates' ELSE reason END, tuning, seed, engine, {_COLUMNS}, {_PACKED},
        CASE WHEN at >= :work_since THEN work END
    FROM generate_series(CAST(:first AS int), :last) AS n, LATERAL (
        SELECT d.*, CAST(:now AS timestamptz) - (:copies - n) * CAST(:step AS interval) AS at
        FROM broker.decisions AS d WHERE d.decided_at = :now AND d.agent_run = ANY(:runs)) AS one
    ORDER BY n, id""")  # noqa: S608 - constants
_STATES = """
    INSERT INTO broker.chunk_states (brokerage, jeditaskid, datasetid, ramcount, decision, decided_at, outcome, reason,
        outcome_since, waiting_since, last_seen_at, decisions, seen_again, candidate_count, jobs, assigned, state,
        work_state, main_reason, changed_at)
    SELECT DISTINCT ON (brokerage, jeditaskid, datasetid, ramcount) brokerage, jeditaskid, datasetid, ramcount, id,
        decided_at, outcome, reason, decided_at, CASE outcome WHEN 'brokered' THEN NULL ELSE decided_at END,
        CASE outcome WHEN 'brokered' THEN decided_at ELSE CAST(:now AS timestamptz) END,
        1, 0, candidate_count, 0, assigned, CAST('\\x00112233445566778899aabbccddeeff' AS bytea),
        CAST('\\x00112233445566778899aabbccddeeff' AS bytea),
        CASE outcome WHEN 'brokered' THEN reason
            ELSE (ARRAY['links_full', 'ram', 'status', 'release', 'nucleus_only'])[1 + jeditaskid / 3 % 5] END,
        ARRAY[decided_at]
    FROM broker.decisions AS d ORDER BY brokerage, jeditaskid, datasetid, ramcount, d.decided_at DESC
    ON CONFLICT DO NOTHING"""
# Two days of 5-minute buckets with the complete hours, then hours up to 90 days; in order of time, as cycles write
# them.
_AGGREGATES = (
    """
    INSERT INTO broker.queue_counts (bucket_s, bucket_at, brokerage, counts)
    SELECT bucket_s, bucket_at - n * interval '5 minutes', brokerage, counts
    FROM broker.queue_counts, generate_series(1, 575) AS n WHERE bucket_s = 300 ORDER BY n DESC""",
    """
    INSERT INTO broker.queue_hours (bucket_at, brokerage, counts)
    SELECT DISTINCT ON (1, 2) date_bin('1 hour', bucket_at, '1970-01-01T00:00:00Z'), brokerage, counts
    FROM broker.queue_counts
    WHERE date_bin('1 hour', bucket_at, '1970-01-01T00:00:00Z') < date_bin('1 hour', CAST(:now AS timestamptz),
        '1970-01-01T00:00:00Z')
    ON CONFLICT DO NOTHING""",
    """
    INSERT INTO broker.queue_counts (bucket_s, bucket_at, brokerage, counts)
    SELECT 3600, date_bin('1 hour', CAST(:now AS timestamptz), '1970-01-01T00:00:00Z') - n * interval '1 hour',
        brokerage, counts
    FROM broker.queue_counts, generate_series(49, 2160) AS n
    WHERE bucket_s = 300 AND bucket_at = (SELECT max(bucket_at) FROM broker.queue_counts)
    ON CONFLICT DO NOTHING""",
    """
    INSERT INTO broker.reason_counts (bucket_s, bucket_at, brokerage, outcome, reason, main_reason, decisions, chunks,
        jobs)
    SELECT s, date_bin(s * interval '1 second', CAST(:now AS timestamptz), '1970-01-01T00:00:00Z')
            - n * s * interval '1 second', brokerage, outcome, reason, main_reason, count(*), count(*), sum(jobs)
    FROM broker.chunk_states, (SELECT 300 AS s, n FROM generate_series(1, 575) AS n
        UNION ALL SELECT 3600, n FROM generate_series(49, 2160) AS n) AS bucket
    WHERE jeditaskid < 53000000 GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY 2
    ON CONFLICT DO NOTHING""",
    """
    INSERT INTO broker.waiting_counts (bucket_s, bucket_at, brokerage, outcome, reason, main_reason, chunks, tasks)
    SELECT bucket_s, bucket_at, brokerage, outcome, reason, main_reason, chunks, chunks FROM broker.reason_counts
    WHERE outcome <> 'brokered' ORDER BY bucket_at ON CONFLICT DO NOTHING""",
)
# The tasks of the copies, open like those of the cycle.
_TASKS = (
    "CREATE TEMPORARY TABLE more AS SELECT * FROM doma_panda.jedi_tasks",
    "UPDATE more SET jeditaskid = jeditaskid + 1000000",
    "INSERT INTO doma_panda.jedi_tasks SELECT * FROM more",
)
_COUNT = "SELECT count(*) FROM broker.decisions"
_CYCLES = "SELECT count(*), array_agg(DISTINCT agent_run) FROM broker.decisions WHERE decided_at = :now"
_ANALYZED = ("decisions", "chunk_states", "queue_counts", "queue_hours", "reason_counts", "waiting_counts")
_BYTES = """
    SELECT coalesce(sum(pg_total_relation_size(i.inhrelid)), 0)::bigint FROM pg_inherits AS i
    WHERE i.inhparent = 'broker.decisions'::regclass"""
_AGGREGATE_BYTES = " + ".join(
    f"pg_total_relation_size('broker.{table}')"
    for table in (*_ANALYZED[1:], "decision_legends", "decision_repeats")
)  # fmt: skip


def fill(
    database: Database,
    rows: int,
    now: datetime = NOW,
    task_copies: int = TASK_COPIES,
    work_for: timedelta = timedelta(days=DAYS),
) -> int:
    """Copy decisions until there are ``rows`` of them.

    Args:
        database: a database in which cycles decided at ``now``.
        rows: how many decisions are wanted.
        now: the instant of the cycles (aware), and the last of the copies.
        task_copies: how many copies of each task there are at the end.
        work_for: older copies have no work, which is two thirds of their bytes.

    Returns:
        The number of decisions.
    """
    with database.begin() as connection:
        decision_count, runs = connection.execute(sa.text(_CYCLES), {"now": now}).one()
        decision_days.make(connection, now - timedelta(days=DAYS), DAYS - 1)
    copies = max(1, rows // decision_count - 1)
    step = timedelta(days=DAYS - 1) / copies
    values: dict[str, Any] = {"now": now, "copies": copies, "step": step, "runs": runs, "task_copies": task_copies}
    values["work_since"] = now - work_for
    for first in range(0, copies, _CYCLES_OF_A_BATCH):
        last = min(first + _CYCLES_OF_A_BATCH, copies) - 1
        with database.begin() as connection:
            connection.execute(_COPY, {**values, "first": first, "last": last})
    _add_lists(database, now, task_copies)
    return count_decisions(database)


def _add_lists(database: Database, now: datetime, task_copies: int) -> None:
    """Add the tasks of the decisions, and the summaries behind lists."""
    with database.begin() as connection:
        connection.exec_driver_sql(_TASKS[0])
        for _ in range(1, task_copies):
            for statement in _TASKS[1:]:
                connection.exec_driver_sql(statement)
        connection.execute(sa.text(_STATES), {"now": now})
        for statement in _AGGREGATES:
            connection.execute(sa.text(statement), {"now": now})
    with database.autocommit() as connection:
        for table in _ANALYZED:
            connection.exec_driver_sql(f"VACUUM ANALYZE broker.{table}")
        connection.exec_driver_sql("VACUUM ANALYZE doma_panda.jedi_tasks")


def count_decisions(database: Database) -> int:
    """Return the number of decisions."""
    with database.begin() as connection:
        return int(connection.scalar(sa.text(_COUNT)) or 0)


def sizes(connection: sa.Connection) -> dict[str, float]:
    """Return the bytes per decision with indexes, and the GB of all decisions and of the summaries behind lists."""
    rows = int(connection.scalar(sa.text(_COUNT)) or 1)
    decisions = int(connection.scalar(sa.text(_BYTES)) or 0)
    aggregates = int(connection.scalar(sa.text("SELECT " + _AGGREGATE_BYTES)) or 0)
    return {
        "bytes_a_decision": decisions / rows,
        "decisions_gb": decisions / 1e9,
        "aggregates_gb": aggregates / 1e9,
        "gb_of_14_days_of_100000": decisions / rows * DAYS * 100_000 / 1e9 + aggregates / 1e9,
    }
