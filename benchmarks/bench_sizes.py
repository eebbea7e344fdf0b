"""What a production cycle takes of a machine, for several sizes: CPU time, memory and disk of broker and server.

The broker is a process that has loaded the compiled loop and decided once before, as in service. Then the grid advances
by a minute, and the broker runs one cycle that reads, decides, cuts and writes. Each size is measured three times with
jobs made, and three times with decisions only, as alongside PanDA; the medians are reported. The memory of the broker
is the peak of its process. The memory of the server is the private memory of all its processes; the shared buffers that
one of them has touched are reported separately. Disk is the growth of tables and their indexes, and what the cycle adds
to the write-ahead log.
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
"""What changes in a minute: workers everywhere, jobs that start, and some storages and links."""
_KINDS = ("decisions", "states", "snapshot", "jobs", "log")


def sizes_of(database: Database) -> dict[str, int]:
    """Return the bytes of tables with their indexes, and of the write-ahead log since the server was created."""
    with database.begin() as connection:
        return dict(zip(_KINDS, map(int, connection.execute(_BYTES).one()), strict=True))


def move(database: Database) -> None:
    """Advance the grid by a minute.

    Raises:
        RuntimeError: a statement has changed nothing.
    """
    with database.begin() as connection:
        for statement in _LATER:
            if not connection.execute(sa.text(statement)).rowcount:
                raise RuntimeError(f"nothing has moved: {statement}")


def measure(database: Database, chunks: int, queues: int, mode: str) -> dict[str, Any]:
    """Measure cycles over copies of the database; return the median of each figure."""
    rounds = [_measure_round(database, chunks, queues, mode) for _ in range(ROUNDS)]
    figures = {name: _median([row[name] for row in rounds]) for name in rounds[0] if name != "writes"}
    return {"writes": mode, **figures}


def _median(figures: Sequence[float | None]) -> float | None:
    values = [figure for figure in figures if figure is not None]
    return median(values) if values else None


def _measure_round(database: Database, chunks: int, queues: int, mode: str) -> dict[str, Any]:
    sizes_before: dict[str, int] = {}

    def advance_a_minute(copy: Database) -> None:
        move(copy)
        sizes_before.update(sizes_of(copy))

    with copy_of(database, f"{mode}_{chunks}_{queues}") as copy:
        figures, _ = brokers(copy, 1, mode, between=advance_a_minute)
        growth = {kind: size - sizes_before[kind] for kind, size in sizes_of(copy).items()}
    return {
        "writes": mode,
        "chunks": chunks,
        "pseudo_queues": queues,
        "jobs": figures["jobs"],
        "broker_cpu_s": figures["brokers_cpu_s"],
        "server_cpu_s": figures["server_cpu_s"],
        "broker_mb": figures["broker_mb"],
        "server_mb": figures["server_mb"],
        "shared_buffers_mb": figures["shared_buffers_mb"],
        "bytes_a_decision": growth["decisions"] / chunks,
        "bytes_a_state": growth["states"] / chunks,
        "bytes_a_job": growth["jobs"] / figures["jobs"] if figures["jobs"] else None,
        "snapshot_mb": growth["snapshot"] / 1e6,
        "log_mb": growth["log"] / 1e6,
    }


def formula(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Fit the cost per chunk, pair and job to all sizes by relative errors."""
    jobs, decisions = ([row for row in rows if row["writes"] == mode] for mode in MODES)
    pairs = list(zip(jobs, decisions, strict=True))
    broker = _fit(decisions, "broker_cpu_s", lambda row: (1, row["chunks"], row["chunks"] * row["pseudo_queues"]))
    server = _fit(decisions, "server_cpu_s", lambda row: (1, row["chunks"]))
    memory = _fit(rows, "broker_mb", lambda row: (1, row["chunks"], row["pseudo_queues"]))

    def us_a_job(figure: str) -> float:
        differences = [(with_jobs[figure] - without[figure]) / with_jobs["jobs"] for with_jobs, without in pairs]
        return 1e6 * float(median(differences))

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


def _fit(
    rows: Sequence[Mapping[str, Any]], figure: str, terms: Callable[[Mapping[str, Any]], tuple[float, ...]]
) -> list[float]:
    values = np.array([row[figure] for row in rows])
    matrix = np.array([terms(row) for row in rows], dtype=np.float64)
    solution = np.linalg.lstsq(matrix / values[:, None], np.ones(len(rows)), rcond=None)[0]
    return [float(value) for value in solution]


def main() -> None:
    """Measure and report."""
    folder = asked_folder()
    rows = []
    for chunks, queues in SIZES:
        with loaded(make_scenario(chunks, queues, JOBS_A_CHUNK * chunks, seed=SEED)) as database:
            rows += [measure(database, chunks, queues, mode) for mode in MODES]
    coefficients = formula(rows)
    print(", ".join(f"{name} {value:.3g}" for name, value in coefficients.items()))
    report(folder, "sizes", rows, formula=coefficients)


if __name__ == "__main__":
    main()
