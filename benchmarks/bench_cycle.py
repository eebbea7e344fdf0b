"""A whole cycle that makes 100,000 jobs, against the bare SQL that such a cycle cannot avoid.

The cycle loads, decides, cuts and writes. It is measured in two ways: as ``broker run production_job`` in a separate
process, with its peak memory, and as in the service, where the process has read the grid and decided once before the
measurement, so that nothing is imported, loaded or read for the first time. The bare SQL is COPY of the same rows into
``jobsdefined4``, COPY of the same (file, job) pairs into a temporary table, and one UPDATE ... FROM of the file rows.
Each runs on its own copy of the database, in turn. The figures are medians over the rounds of the ratios of wall time
and of the CPU time of broker and server together.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from benchmarks.bench_parts import brokers, copy_of
from benchmarks.measuring import asked_folder, cpu_of, loaded, report
from benchmarks.scenario import NOW, make_scenario
from broker.store.connection.database import Database

TASKS, QUEUES, JOBS = 1000, 500, 100_000
SEED = 1
ROUNDS = 3
_JOBS_OUT = "COPY (SELECT * FROM doma_panda.jobsdefined4 WHERE jeditaskid = ANY(%s)) TO STDOUT (FORMAT BINARY)"
_JOBS_IN = "COPY doma_panda.jobsdefined4 FROM STDIN (FORMAT BINARY)"
_FILES_OUT = """
    COPY (SELECT jeditaskid, datasetid, fileid, pandaid FROM doma_panda.jedi_dataset_contents WHERE pandaid IS NOT NULL)
    TO STDOUT (FORMAT BINARY)"""
_STAGE = "CREATE TEMPORARY TABLE staged (jeditaskid bigint, datasetid bigint, fileid bigint, pandaid bigint)"
_FILES_IN = "COPY staged FROM STDIN (FORMAT BINARY)"
_UPDATE = """
    UPDATE doma_panda.jedi_dataset_contents AS c
    SET status = 'running', pandaid = s.pandaid, attemptnr = c.attemptnr + 1
    FROM staged AS s
    WHERE c.jeditaskid = s.jeditaskid AND c.datasetid = s.datasetid AND c.fileid = s.fileid AND c.status = 'ready'"""


def run_cycle(url: str) -> tuple[float, dict[str, Any], float]:
    """Run the command; return the seconds of the process, its timings, and its peak memory in MB."""
    with tempfile.TemporaryDirectory() as folder:
        timings = Path(folder) / "timings.json"
        command = [sys.executable, "-m", "broker.cli.main", "--db", url, "run", "production_job", "--at", NOW]
        command += ["--seed", str(SEED), "--timings", str(timings)]
        start_s = perf_counter()
        process = os.posix_spawn(command[0], command, os.environ, file_actions=_silent_stdout())
        _, status, usage = os.wait4(process, 0)
        seconds = perf_counter() - start_s
        if os.waitstatus_to_exitcode(status):
            raise RuntimeError("the cycle failed; run the command by hand: " + " ".join(command))
        return seconds, json.loads(timings.read_text(encoding="utf-8")), usage.ru_maxrss / 1024


def _silent_stdout() -> list[tuple[int, int, str, int, int]]:
    return [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]


def export_rows(database: Database) -> tuple[list[bytes], list[bytes]]:
    """Export the job rows that the cycle wrote, and its (file, job) pairs."""
    with database.begin() as connection:
        raw = Database.raw(connection)
        tasks = [row[0] for row in raw.execute("SELECT jeditaskid FROM doma_panda.jedi_tasks")]
        with raw.cursor() as cursor:
            with cursor.copy(_JOBS_OUT.replace("%s", "ARRAY[" + ",".join(map(str, tasks)) + "]")) as copy:
                jobs = [bytes(block) for block in copy]
            with cursor.copy(_FILES_OUT) as copy:
                files = [bytes(block) for block in copy]
    return jobs, files


def bare_sql(database: Database, jobs: list[bytes], files: list[bytes]) -> tuple[float, float]:
    """Run the bare SQL in one transaction; return wall seconds, and CPU seconds of this process and the server."""
    with database.begin() as connection:
        backend = Database.raw(connection).info.backend_pid
    cpu_before_s, start_s = process_time() + cpu_of(backend), perf_counter()
    with database.begin() as connection, Database.raw(connection).cursor() as cursor:
        if cursor.connection.info.backend_pid != backend:
            raise RuntimeError("the bare SQL went over another connection than the one that is measured")
        for statement, blocks in ((_JOBS_IN, jobs), (_FILES_IN, files)):
            if statement is _FILES_IN:
                cursor.execute(_STAGE)
            with cursor.copy(statement) as copy:
                for block in blocks:
                    copy.write(block)
        cursor.execute(_UPDATE)
    return perf_counter() - start_s, process_time() + cpu_of(backend) - cpu_before_s


def measure(database: Database, number: int) -> dict[str, Any]:
    """Measure one round: the command, the service, and the bare SQL."""
    with copy_of(database, f"command_{number}") as copy:
        process_s, timings, peak_mb = run_cycle(copy.url)
        jobs, files = export_rows(copy)
    with copy_of(database, f"service_{number}") as copy:
        service, _ = brokers(copy, 1, "jobs")
    with copy_of(database, f"bare_{number}") as copy:
        bare_s, bare_cpu_s = bare_sql(copy, jobs, files)
    stages = {name: timings[name] for name in ("load_s", "decide_s", "cut_s", "write_s", "total_s")}
    service_cpu_s = service["brokers_cpu_s"] + service["server_cpu_s"]
    return {
        "jobs": timings["jobs"],
        **stages,
        "process_s": process_s,
        "service_s": service["wall_s"],
        "service_broker_cpu_s": service["brokers_cpu_s"],
        "service_server_cpu_s": service["server_cpu_s"],
        "bare_sql_s": bare_s,
        "bare_sql_cpu_s": bare_cpu_s,
        "cycle_over_bare": timings["total_s"] / bare_s,
        "service_over_bare": service["wall_s"] / bare_s,
        "service_cpu_over_bare": service_cpu_s / bare_cpu_s,
        "peak_mb": peak_mb,
    }


def main() -> None:
    """Measure and report."""
    folder = asked_folder()
    with loaded(make_scenario(TASKS, QUEUES, JOBS, seed=SEED)) as database:
        rows = [measure(database, number) for number in range(ROUNDS)]
    names = ("cycle_over_bare", "service_over_bare", "service_cpu_over_bare")
    medians = {name: statistics.median(row[name] for row in rows) for name in names}
    print(", ".join(f"{name} {value:.2f} x" for name, value in medians.items()))
    report(folder, "cycle", rows, medians=medians, target="service_over_bare <= 2.5, peak_mb < 1024")


if __name__ == "__main__":
    main()
