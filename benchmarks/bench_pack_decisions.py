"""Decisions of an older release: how fast they are packed while a broker keeps deciding.

The old rows hold names and reasons of ``--names`` queues each as JSON. A separate process packs them, one batch per
transaction, like the clean-up agent; it is killed once, and another process continues. Meanwhile the production job
brokerage decides about every second on chunks that find no queue. The report shows the rate, the time of a cycle before
and during packing, and how often and how long at most a session waited for a lock.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import threading
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.context import SpawnProcess
from pathlib import Path
from time import perf_counter, sleep

import numpy as np
import sqlalchemy as sa

from benchmarks.measuring import NOW, folder_argument, loaded, report
from benchmarks.scenario import make_scenario
from broker.decisions.answers.agent_cycle import broker_once
from broker.store.connection.database import Database
from broker.store.decisions import decision_packing
from broker.store.decisions.decision_packing import DecisionPacker

SEED, TASKS, QUEUES, JOBS = 1, 400, 500, 20_000
ROWS, NAMES, CODES = 20_000, 780, 12
BATCH = 1000
_ROWS_OF_AN_INSERT = 100_000
_SAMPLED_S = 0.02
_INSERT = """
    INSERT INTO broker.decisions_unpacked (jeditaskid, datasetid, brokerage, outcome, reason, decided_at, snapshot,
        tuning, seed, engine, funnel, candidates, rejected, assigned, notes)
    SELECT n, n, 'production_job', 'pending', 'no_candidates', :now - n * interval '0.1 seconds', 'old', 1, 1, '0',
        CAST(:funnel AS jsonb), '[]', CAST(:rejected AS jsonb), '{}', '[]'
    FROM generate_series(CAST(:first AS bigint), :last) AS n"""
# Every chunk waits, cycle after cycle, and gets a separate row in each.
_HUGE = "UPDATE doma_panda.jedi_tasks SET ramcount = 9000000, ramunit = 'MB'"
_FORGET = "DELETE FROM broker.chunk_states"
_WAITING = """
    SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"""


def insert_old(database: Database, rows: int, names: int) -> float:
    """Insert rows in the old form; return the bytes of JSON in each."""
    names_of_queues = [f"QUEUE_WITH_A_NAME_{number // 3:03d}/MCORE_{number % 3}" for number in range(names)]
    rejected = {f"code_{code}": names_of_queues[code::CODES] for code in range(min(CODES, names))}
    remaining, funnel = names, []
    for code, dropped_names in rejected.items():
        funnel.append([code, remaining, remaining - len(dropped_names)])
        remaining -= len(dropped_names)
    values = {"now": NOW - timedelta(days=1), "rejected": _json(rejected), "funnel": _json(funnel)}
    for first in range(1, rows + 1, _ROWS_OF_AN_INSERT):
        with database.begin() as connection:
            last = min(first + _ROWS_OF_AN_INSERT - 1, rows)
            connection.execute(sa.text(_INSERT), {**values, "first": first, "last": last})
    with database.autocommit() as connection:
        connection.exec_driver_sql("VACUUM ANALYZE broker.decisions_unpacked")
    return float(len(_json(rejected)) + len(_json(funnel)))


def pack_all(url: str, rows: int) -> None:
    """Pack until nothing is left, one batch per transaction."""
    database, packer, packed_count = Database(url), DecisionPacker(), 1
    while packed_count:
        with database.begin() as connection:
            packed_count = packer.pack(connection, rows, NOW)
    database.close()


class LockWaits(threading.Thread):
    """Samples sessions that wait for a lock; the longest wait is accurate to one sampling period."""

    def __init__(self, database: Database) -> None:
        super().__init__(daemon=True)
        self.looks = self.waits = 0
        self.longest_s = 0.0
        self.over = False
        self._database = database

    def run(self) -> None:
        """Sample until ``over`` is set."""
        since: float | None = None
        with self._database.autocommit() as connection:
            while not self.over:
                waiting = bool(connection.scalar(sa.text(_WAITING)))
                now = perf_counter()
                since = (since or now) if waiting else None
                self.looks, self.waits = self.looks + 1, self.waits + waiting
                self.longest_s = max(self.longest_s, 0.0 if since is None else now - since)
                sleep(_SAMPLED_S)


def cycles(database: Database, first: int, goes_on: Callable[[], bool]) -> list[float]:
    """Run cycles one second apart; return the seconds of each cycle."""
    durations_s: list[float] = []
    while goes_on():
        with database.begin() as connection:
            connection.exec_driver_sql(_FORGET)
        start_s = perf_counter()
        decided_at = NOW + timedelta(seconds=first + len(durations_s))
        broker_once("production_job", database, decided_at, SEED, lambda decision: None)
        durations_s.append(perf_counter() - start_s)
        sleep(max(0.0, 1.0 - durations_s[-1]))
    return durations_s


def measure(database: Database, rows: int, names: int, batch: int) -> dict[str, float]:
    """Measure all figures for one number of rows."""
    size = insert_old(database, rows, names)
    alone_s = cycles(database, 1, iter([True] * 5 + [False]).__next__)
    watch = LockWaits(database)
    watch.start()
    start_s, kills = perf_counter(), 0
    worker = _worker(database.url, batch)

    def packing() -> bool:
        nonlocal worker, kills
        if not kills and perf_counter() - start_s > 2:
            worker.kill()
            worker.join()
            kills, worker = 1, _worker(database.url, batch)
        return worker.is_alive()

    beside_s = cycles(database, 10, packing)
    seconds = perf_counter() - start_s
    watch.over = True
    watch.join()
    with database.begin() as connection:
        unpacked = decision_packing.has_unpacked(connection)
        packed_count = int(
            connection.scalar(sa.text("SELECT count(*) FROM broker.decisions WHERE snapshot = 'old'")) or 0
        )
    if unpacked or packed_count != rows:
        raise RuntimeError(f"{packed_count} of {rows} decisions are packed; left over: {unpacked}")
    return {
        "rows": rows,
        "json_bytes": size,
        "killed": kills,
        "seconds": seconds,
        "rows_a_second": rows / seconds,
        "cycles_beside": len(beside_s),
        "cycle_alone_p50_s": float(np.median(alone_s)),
        "cycle_beside_p50_s": float(np.median(beside_s or [0.0])),
        "cycle_beside_max_s": max(beside_s, default=0.0),
        "looks": watch.looks,
        "looks_with_a_lock_wait": watch.waits,
        "longest_lock_wait_s": watch.longest_s,
    }


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _worker(url: str, batch: int) -> SpawnProcess:
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=pack_all, args=(url, batch))
    process.start()
    return process


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    folder_argument(parser)
    parser.add_argument("--rows", type=int, default=ROWS, help="how many old decisions there are")
    parser.add_argument("--names", type=int, default=NAMES, help="queues that each of them rejects")
    parser.add_argument("--home", type=Path, help="a folder for the database, which stays")
    options = parser.parse_args()
    with loaded(make_scenario(TASKS, QUEUES, JOBS, seed=SEED), options.home) as database:
        with database.begin() as connection:
            connection.execute(sa.text(_HUGE))
        figures = measure(database, options.rows, options.names, BATCH)
    report(options.folder, "pack_decisions", [figures], target="all packed after a kill; no lock wait over 0.1 s")


if __name__ == "__main__":
    main()
