"""Decisions of an older release: how fast they are packed, beside a broker that decides all the while.

The old rows have names and reasons as JSON, of ``--names`` queues each. They are packed by a process of its own, a
batch a transaction, as the clean-up agent does it; that process is killed once on its way, and another one goes on.
Meanwhile the production job brokerage decides every second or so about chunks that find no queue. Shown are the rate,
the time of a cycle before and meanwhile, and how often and how long at most a session waited for a lock.
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
# So that every chunk waits, cycle after cycle, and gets a row of its own in each.
_HUGE = "UPDATE doma_panda.jedi_tasks SET ramcount = 9000000, ramunit = 'MB'"
_FORGET = "DELETE FROM broker.chunk_states"
_WAITING = """
    SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"""


def insert_old(database: Database, rows: int, names: int) -> float:
    """Make so many rows in the old form; bytes of JSON in each."""
    every = [f"QUEUE_WITH_A_NAME_{number // 3:03d}/MCORE_{number % 3}" for number in range(names)]
    rejected = {f"code_{code}": every[code::CODES] for code in range(min(CODES, names))}
    left, funnel = names, []
    for code, gone in rejected.items():
        funnel.append([code, left, left - len(gone)])
        left -= len(gone)
    values = {"now": NOW - timedelta(days=1), "rejected": _json(rejected), "funnel": _json(funnel)}
    for first in range(1, rows + 1, _ROWS_OF_AN_INSERT):
        with database.begin() as connection:
            last = min(first + _ROWS_OF_AN_INSERT - 1, rows)
            connection.execute(sa.text(_INSERT), {**values, "first": first, "last": last})
    with database.autocommit() as connection:
        connection.exec_driver_sql("VACUUM ANALYZE broker.decisions_unpacked")
    return float(len(_json(rejected)) + len(_json(funnel)))


def pack_all(url: str, rows: int) -> None:
    """Pack until nothing is left, a batch a transaction."""
    database, packer, packed = Database(url), DecisionPacker(), 1
    while packed:
        with database.begin() as connection:
            packed = packer.pack(connection, rows, NOW)
    database.close()


class LockWaits(threading.Thread):
    """Looks all the time for sessions that wait for a lock; the longest wait is known to one look."""

    def __init__(self, database: Database) -> None:
        super().__init__(daemon=True)
        self.looks = self.waits = 0
        self.longest_s = 0.0
        self.over = False
        self._database = database

    def run(self) -> None:
        """Look until told that it is over."""
        since: float | None = None
        with self._database.autocommit() as connection:
            while not self.over:
                waiting = bool(connection.scalar(sa.text(_WAITING)))
                now = perf_counter()
                since = (since or now) if waiting else None
                self.looks, self.waits = self.looks + 1, self.waits + waiting
                self.longest_s = max(self.longest_s, 0.0 if since is None else now - since)
                sleep(_SAMPLED_S)


def cycles(database: Database, first: int, on: Callable[[], bool]) -> list[float]:
    """Decide a second later each time; the seconds of each cycle."""
    spent: list[float] = []
    while on():
        with database.begin() as connection:
            connection.exec_driver_sql(_FORGET)
        started = perf_counter()
        moment = NOW + timedelta(seconds=first + len(spent))
        broker_once("production_job", database, moment, SEED, lambda told: None)
        spent.append(perf_counter() - started)
        sleep(max(0.0, 1.0 - spent[-1]))
    return spent


def measure(database: Database, rows: int, names: int, batch: int) -> dict[str, float]:
    """The figures of one size."""
    size = insert_old(database, rows, names)
    alone = cycles(database, 1, iter([True] * 5 + [False]).__next__)
    watch = LockWaits(database)
    watch.start()
    started, kills = perf_counter(), 0
    worker = _worker(database.url, batch)

    def on() -> bool:
        nonlocal worker, kills
        if not kills and perf_counter() - started > 2:
            worker.kill()
            worker.join()
            kills, worker = 1, _worker(database.url, batch)
        return worker.is_alive()

    beside = cycles(database, 10, on)
    seconds = perf_counter() - started
    watch.over = True
    watch.join()
    with database.begin() as connection:
        left = decision_packing.kept(connection)
        packed = int(connection.scalar(sa.text("SELECT count(*) FROM broker.decisions WHERE snapshot = 'old'")) or 0)
    if left or packed != rows:
        raise RuntimeError(f"{packed} of {rows} decisions are packed; left over: {left}")
    return {
        "rows": rows,
        "json_bytes": size,
        "killed": kills,
        "seconds": seconds,
        "rows_a_second": rows / seconds,
        "cycles_beside": len(beside),
        "cycle_alone_p50_s": float(np.median(alone)),
        "cycle_beside_p50_s": float(np.median(beside or [0.0])),
        "cycle_beside_max_s": max(beside, default=0.0),
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
    asked = parser.parse_args()
    with loaded(make_scenario(TASKS, QUEUES, JOBS, seed=SEED), asked.home) as database:
        with database.begin() as connection:
            connection.execute(sa.text(_HUGE))
        figures = measure(database, asked.rows, asked.names, BATCH)
    report(asked.folder, "pack_decisions", [figures], target="all packed after a kill; no lock wait over 0.1 s")


if __name__ == "__main__":
    main()
