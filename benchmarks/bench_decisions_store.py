"""Many stored decisions: how long ``explain`` and lists take to read, and how many bytes a decision takes.

The decisions are those of one real cycle of the production job brokerage, copied to other tasks and instants over 14
days, each day in its partition. Reading goes through the same functions as the commands.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from datetime import timedelta
from time import perf_counter

import numpy as np
import sqlalchemy as sa

from benchmarks.measuring import NOW, loaded, report
from benchmarks.scenario import make_scenario
from broker.app.agent_cycle import broker_once
from broker.app.answers.asking import Asking
from broker.app.answers.list_models import ReasonFilters
from broker.app.answers.queues import queues
from broker.app.answers.reasons import reasons
from broker.app.answers.tasks import task_list
from broker.store.connection.database import Database
from broker.store.decisions import decision_days
from broker.store.decisions.decision_rows import latest
from broker.store.summaries.chunk_states import outcome_changes, read_states, waiting_by_reason
from broker.store.summaries.queue_counts import queue_totals
from broker.store.summaries.reason_counts import reason_counts, waited_at

SEED, DAYS, TASKS, QUEUES, JOBS = 1, 14, 400, 500, 20_000
ROWS = 200_000
ASKED = 200
_COLUMNS = """agent_run, datasetid, ramcount, brokerage, outcome, reason, snapshot, tuning, seed, engine, legend,
    reasons, candidates, candidate_count, remarks, assigned, notes, work, pending_until"""
_COPY = f"""
    INSERT INTO broker.decisions (jeditaskid, decided_at, {_COLUMNS})
    SELECT jeditaskid + 1000000 * ((n - 1) % 50), decided_at - n * CAST(:step AS interval), {_COLUMNS}
    FROM (SELECT * FROM broker.decisions WHERE decided_at = :now) AS one, generate_series(1, :copies) AS n
    ORDER BY n, id"""  # noqa: S608 - a constant
_STATES = """
    INSERT INTO broker.chunk_states (brokerage, jeditaskid, datasetid, ramcount, decision, decided_at, outcome, reason,
        outcome_since, waiting_since, last_seen_at, decisions, seen_again, candidate_count, jobs, assigned, state,
        work_state, main_reason)
    SELECT DISTINCT ON (brokerage, jeditaskid, datasetid, ramcount) brokerage, jeditaskid, datasetid, ramcount, id,
        decided_at, outcome, reason, decided_at, CASE outcome WHEN 'brokered' THEN NULL ELSE decided_at END, decided_at,
        1, 0, candidate_count, 0, assigned, '', '', reason
    FROM broker.decisions AS d ORDER BY brokerage, jeditaskid, datasetid, ramcount, d.decided_at DESC
    ON CONFLICT DO NOTHING"""
# A day of cycles: a bucket each 5 minutes, and the hours that are over.
_BUCKETS = """
    INSERT INTO broker.queue_counts (bucket_s, bucket_at, brokerage, counts)
    SELECT bucket_s, bucket_at - n * interval '5 minutes', brokerage, counts
    FROM broker.queue_counts, generate_series(1, 287) AS n WHERE bucket_s = 300"""
_HOURS = """
    INSERT INTO broker.queue_hours (bucket_at, brokerage, counts)
    SELECT DISTINCT ON (1, 2) date_bin('1 hour', bucket_at, '1970-01-01T00:00:00Z'), brokerage, counts
    FROM broker.queue_counts
    WHERE date_bin('1 hour', bucket_at, '1970-01-01T00:00:00Z') < date_bin('1 hour', CAST(:now AS timestamptz),
        '1970-01-01T00:00:00Z')
    ON CONFLICT DO NOTHING"""
_BYTES = """
    SELECT sum(pg_total_relation_size(i.inhrelid)) FROM pg_inherits AS i
    WHERE i.inhparent = 'broker.decisions'::regclass"""


def fill(database: Database, rows: int) -> int:
    """Copy the decisions of a cycle until there are so many; how many there are."""
    with database.begin() as connection:
        made = int(connection.scalar(sa.text("SELECT count(*) FROM broker.decisions")) or 0)
        decision_days.make(connection, NOW - timedelta(days=DAYS), DAYS - 1)
        copies = max(1, rows // made)
        step = timedelta(days=DAYS - 1) / copies
        connection.execute(sa.text(_COPY), {"now": NOW, "copies": copies, "step": step})
        connection.execute(sa.text(_STATES))
        connection.execute(sa.text(_BUCKETS))
        connection.execute(sa.text(_HOURS), {"now": NOW})
    with database.autocommit() as connection:
        connection.exec_driver_sql("VACUUM ANALYZE broker.decisions")
        connection.exec_driver_sql("VACUUM ANALYZE broker.chunk_states")
        return int(connection.scalar(sa.text("SELECT count(*) FROM broker.decisions")) or 0)


def p95_ms(ask: Callable[[int], object], values: list[int]) -> float:
    """The time within which 95 of 100 questions are answered."""
    spent = []
    for value in values:
        started = perf_counter()
        ask(value)
        spent.append(1000 * (perf_counter() - started))
    return float(np.percentile(spent, 95))


def measure(database: Database) -> dict[str, float]:
    """The figures of one size."""
    figures: dict[str, float] = {}
    with database.read_snapshot() as connection:
        found = connection.execute(sa.text("SELECT DISTINCT jeditaskid FROM broker.chunk_states")).scalars()
        tasks = np.random.default_rng(SEED).permutation(sorted(found))[:ASKED].tolist()

        def explained(task: int) -> int:
            return sum(len(one.record.decision.rejected) for one in latest(connection, task))

        def explained_then(task: int) -> int:
            return len(latest(connection, task, NOW - timedelta(days=5)))

        figures["explain_p95_ms"] = p95_ms(explained, tasks)
        figures["explain_at_p95_ms"] = p95_ms(explained_then, tasks[:50])
        day = NOW - timedelta(days=1)
        asking = Asking(connection, database.names, NOW)
        lists: dict[str, Callable[[int], object]] = {
            "tasks_ms": lambda _: read_states(connection, waiting=True, most=1000),
            "waiting_ms": lambda _: (waiting_by_reason(connection, NOW), waited_at(connection, NOW)),
            "reasons_ms": lambda _: reason_counts(connection, day, NOW),
            "queue_totals_ms": lambda _: queue_totals(connection, day, NOW),
            "broker_tasks_ms": lambda _: task_list(asking),
            "broker_reasons_ms": lambda _: reasons(asking, ReasonFilters(with_rules=True)),
            "broker_queues_ms": lambda _: queues(asking),
            "changes_ms": lambda _: outcome_changes(connection, day, NOW),
        }
        figures |= {name: p95_ms(ask, [0] * 5) for name, ask in lists.items()}
        stored = int(connection.scalar(sa.text(_BYTES)) or 0)
        rows = int(connection.scalar(sa.text("SELECT count(*) FROM broker.decisions")) or 1)
    figures["bytes_a_decision"] = stored / rows
    figures["gb_of_14_days_of_100000"] = stored / rows * 14 * 100_000 / 1e9
    return figures


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", default=".", help="where the report goes")
    parser.add_argument("--rows", type=int, default=ROWS, help="how many decisions are stored")
    asked = parser.parse_args().rows
    with loaded(make_scenario(TASKS, QUEUES, JOBS, seed=SEED)) as database:
        broker_once("production_job", database, NOW, SEED, lambda told: None)
        rows = fill(database, asked)
        figures = measure(database)
    report(
        "decisions_store",
        [{"rows": rows, **figures}],
        target="explain_p95_ms < 80, lists < 150 ms, gb_of_14_days_of_100000 < 2",
    )


if __name__ == "__main__":
    main()
