"""Many stored decisions: how long ``explain`` and lists take to read them, and how many bytes a decision takes.

The decisions are those of one real cycle of the production job brokerage, copied to other tasks and instants over 14
days, each day in its own partition. The benchmark reads them by the functions of the commands. With ``--home`` the
database stays in that folder: it is filled once and measured at every run.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from time import perf_counter

import numpy as np
import sqlalchemy as sa

from benchmarks.many_decisions import count_decisions, fill, sizes
from benchmarks.measuring import NOW, folder_argument, loaded, report
from benchmarks.scenario import make_scenario
from broker.decisions.answers.agent_cycle import broker_once
from broker.grid.answers.queues import queues
from broker.history.answers.list_models import ReasonFilters
from broker.history.answers.reasons import reasons
from broker.history.answers.tasks import task_list
from broker.store.connection.database import Database
from broker.store.decisions.decision_rows import latest
from broker.store.query_context import QueryContext
from broker.store.summaries.chunk_states import outcome_changes, read_states, waiting_by_reason
from broker.store.summaries.reason_counts import queue_totals, reason_counts, waited_at

SEED, TASKS, QUEUES, JOBS = 1, 400, 500, 20_000
ROWS = 200_000
EXPLAINED, LIST_CALLS = 400, 40


def p95_ms(ask: Callable[[int], object], values: list[int]) -> float:
    """Return the 95th percentile of the response time in ms."""
    durations_ms = []
    for value in values:
        start_s = perf_counter()
        ask(value)
        durations_ms.append(1000 * (perf_counter() - start_s))
    return float(np.percentile(durations_ms, 95))


def measure(database: Database) -> dict[str, float]:
    """Measure all figures of the database."""
    figures: dict[str, float] = {}
    with database.read_snapshot() as connection:
        task_ids = connection.execute(sa.text("SELECT DISTINCT jeditaskid FROM broker.chunk_states")).scalars()
        tasks = np.random.default_rng(SEED).permutation(sorted(task_ids))[:EXPLAINED].tolist()

        def explain_now(task: int) -> int:
            return sum(len(stored_decision.record.decision.rejected) for stored_decision in latest(connection, task))

        def explain_past(task: int) -> int:
            return len(latest(connection, task, NOW - timedelta(days=5)))

        figures["explain_p95_ms"] = p95_ms(explain_now, tasks)
        figures["explain_at_p95_ms"] = p95_ms(explain_past, tasks[:100])
        day = NOW - timedelta(days=1)
        query = QueryContext(connection, database.names, NOW)
        lists: dict[str, Callable[[int], object]] = {
            "tasks_ms": lambda _: read_states(connection, waiting=True, most=1000),
            "waiting_ms": lambda _: (waiting_by_reason(connection, NOW), waited_at(connection, NOW)),
            "reasons_ms": lambda _: reason_counts(connection, day, NOW),
            "queue_totals_ms": lambda _: queue_totals(connection, day, NOW),
            "broker_tasks_ms": lambda _: task_list(query),
            "broker_reasons_ms": lambda _: reasons(query, ReasonFilters(with_rules=True)),
            "broker_queues_ms": lambda _: queues(query),
            "changes_ms": lambda _: outcome_changes(connection, day, NOW, least=6),
        }
        figures |= {name: p95_ms(ask, [0] * LIST_CALLS) for name, ask in lists.items()}
        figures |= sizes(connection)
    return figures


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    folder_argument(parser)
    parser.add_argument("--rows", type=int, default=ROWS, help="how many decisions are stored")
    parser.add_argument("--home", type=Path, help="a folder for the database, which stays")
    parser.add_argument("--fill-only", action="store_true", help="fill the database and measure nothing")
    options = parser.parse_args()
    with loaded(make_scenario(TASKS, QUEUES, JOBS, seed=SEED), options.home) as database:
        rows = count_decisions(database)
        if not rows:
            broker_once("production_job", database, NOW, SEED, lambda decision: None)
            rows = fill(database, options.rows)
        if options.fill_only:
            return
        figures = measure(database)
    report(
        options.folder,
        "decisions_store",
        [{"rows": rows, **figures}],
        target="explain_p95_ms < 80, lists < 150 ms, gb_of_14_days_of_100000 < 2",
    )


if __name__ == "__main__":
    main()
