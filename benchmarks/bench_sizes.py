"""What a production cycle takes of a machine, for several sizes: processor time, memory and disk of broker and server.

The broker is a process that has loaded the compiled loop and decided once before, as in service; then the grid moves on
by a minute, and it runs one cycle that reads, decides, cuts and writes. Each size is measured three times with jobs
made, and as often with decisions alone, as alongside PanDA; the median of each figure is given. Memory of the broker is
the largest that its process had; that of the server is what all its processes have for themselves, and apart from it
the shared buffers that one of them has touched. Disk is what tables and their indexes grow by, and the write-ahead log
what the cycle adds to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np
import sqlalchemy as sa

from benchmarks.bench_parts import MODES, brokers, copy_of
from benchmarks.measuring import asked_folder, loaded, report
from benchmarks.scenario import make_scenario
from broker.store.connection.database import Database

SIZES = ((250, 500), (1000, 500), (4000, 500), (1000, 2000))
"""Chunks and pseudo-queues."""
JOBS_A_CHUNK = 25
SEED = 1
ROUNDS = 3
_BYTES = sa.text("""
    SELECT (SELECT sum(pg_total_relation_size(relid)) FROM pg_partition_tree('broker.decisions')),
        pg_total_relation_size('broker.chunk_states'), pg_total_relation_size('broker.snapshot_blobs'),
        pg_total_relation_size('doma_panda.jobsdefined4') + pg_total_relation_size('doma_panda.filestable4'),
        pg_current_wal_insert_lsn() - '0/0'::pg_lsn""")
_LATER = (
    "UPDATE doma_panda.harvester_worker_stats SET n_workers = n_workers + 1 - 2 * (n_workers % 2)",
    "UPDATE doma_panda.jobsactive4 SET jobstatus = 'running' WHERE jobstatus = 'starting'",
    "UPDATE doma_panda.ddm_endpoint SET space_free = space_free - 1 WHERE space_free % 5 = 0",
    "UPDATE doma_panda.network_matrix_kv SET value = value + 1 WHERE key LIKE '%queued' AND value % 10 = 0",
)
"""What a minute changes: workers everywhere, jobs that start, and some storages and links."""
_KINDS = ("decisions", "states", "snapshot", "jobs", "log")


def sizes_of(database: Database) -> dict[str, int]:
    """Bytes of tables with their indexes, and of the write-ahead log since there is a server."""
    with database.begin() as connection:
        return dict(zip(_KINDS, map(int, connection.execute(_BYTES).one()), strict=True))


def move(database: Database) -> None:
    """Let the grid move on.

    Raises:
        RuntimeError: nothing of some kind has changed.
    """
    with database.begin() as connection:
        for statement in _LATER:
            if not connection.execute(sa.text(statement)).rowcount:
                raise RuntimeError(f"nothing has moved: {statement}")


def measure(database: Database, chunks: int, queues: int, mode: str) -> dict[str, Any]:
    """Cycles over copies of the database: the median of each figure."""
    found = [_measured(database, chunks, queues, mode) for _ in range(ROUNDS)]
    figures = {name: _median([one[name] for one in found]) for name in found[0] if name != "writes"}
    return {"writes": mode, **figures}


def _median(figures: Sequence[float | None]) -> float | None:
    known = [figure for figure in figures if figure is not None]
    return median(known) if known else None


def _measured(database: Database, chunks: int, queues: int, mode: str) -> dict[str, Any]:
    before: dict[str, int] = {}

    def a_minute_later(copy: Database) -> None:
        move(copy)
        before.update(sizes_of(copy))

    with copy_of(database, f"{mode}_{chunks}_{queues}") as copy:
        taken, _ = brokers(copy, 1, mode, between=a_minute_later)
        grown = {kind: size - before[kind] for kind, size in sizes_of(copy).items()}
    return {
        "writes": mode,
        "chunks": chunks,
        "pseudo_queues": queues,
        "jobs": taken["jobs"],
        "broker_cpu_s": taken["brokers_cpu_s"],
        "server_cpu_s": taken["server_cpu_s"],
        "broker_mb": taken["broker_mb"],
        "server_mb": taken["server_mb"],
        "shared_buffers_mb": taken["shared_buffers_mb"],
        "bytes_a_decision": grown["decisions"] / chunks,
        "bytes_a_state": grown["states"] / chunks,
        "bytes_a_job": grown["jobs"] / taken["jobs"] if taken["jobs"] else None,
        "snapshot_mb": grown["snapshot"] / 1e6,
        "log_mb": grown["log"] / 1e6,
    }


def formula(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """What grows with what, fitted to all sizes by relative errors."""
    jobs, decisions = ([row for row in rows if row["writes"] == mode] for mode in MODES)
    pairs = list(zip(jobs, decisions, strict=True))
    broker = _fitted(decisions, "broker_cpu_s", lambda row: (1, row["chunks"], row["chunks"] * row["pseudo_queues"]))
    server = _fitted(decisions, "server_cpu_s", lambda row: (1, row["chunks"]))
    memory = _fitted(rows, "broker_mb", lambda row: (1, row["chunks"], row["pseudo_queues"]))

    def us_a_job(figure: str) -> float:
        of_sizes = [(made[figure] - decided[figure]) / made["jobs"] for made, decided in pairs]
        return 1e6 * float(median(of_sizes))

    return {
        "broker_s_a_cycle": broker[0],
        "broker_ms_a_chunk": broker[1] * 1e3,
        "broker_us_a_pair": broker[2] * 1e6,
        "broker_us_a_job": us_a_job("broker_cpu_s"),
        "server_s_a_cycle": server[0],
        "server_ms_a_chunk": server[1] * 1e3,
        "server_us_a_job": us_a_job("server_cpu_s"),
        "broker_mb": memory[0],
        "broker_kb_a_chunk": memory[1] * 1e3,
        "broker_kb_a_pseudo_queue": memory[2] * 1e3,
    }


def _fitted(
    rows: Sequence[Mapping[str, Any]], figure: str, terms: Callable[[Mapping[str, Any]], tuple[float, ...]]
) -> list[float]:
    measured = np.array([row[figure] for row in rows])
    matrix = np.array([terms(row) for row in rows], dtype=np.float64)
    found = np.linalg.lstsq(matrix / measured[:, None], np.ones(len(rows)), rcond=None)[0]
    return [float(value) for value in found]


def main() -> None:
    """Measure and report."""
    folder = asked_folder()
    rows = []
    for chunks, queues in SIZES:
        with loaded(make_scenario(chunks, queues, JOBS_A_CHUNK * chunks, seed=SEED)) as database:
            rows += [measure(database, chunks, queues, mode) for mode in MODES]
    found = formula(rows)
    print(", ".join(f"{name} {value:.3g}" for name, value in found.items()))
    report(folder, "sizes", rows, formula=found)


if __name__ == "__main__":
    main()
