"""A whole cycle that makes 100,000 jobs, against the bare SQL that such a cycle cannot do without.

The cycle loads, decides, cuts and writes, as ``broker run production_job`` in a process of its own, whose peak memory
is measured. The bare SQL, on a copy of the same database, is COPY of the same rows into ``jobsdefined4``, COPY of the
same (file, job) pairs into a temporary table, and one UPDATE ... FROM of the file rows. The figure is the ratio.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import sqlalchemy as sa

from benchmarks.measuring import loaded, report
from benchmarks.scenario import NOW, make_scenario
from broker.store.connection.database import Database

TASKS, QUEUES, JOBS = 1000, 500, 100_000
SEED = 1
TWIN = "twin"
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
    """Seconds of the process, its timings, and its peak memory in MB."""
    with tempfile.TemporaryDirectory() as folder:
        timings = Path(folder) / "timings.json"
        command = [sys.executable, "-m", "broker.cli.main", "--db", url, "run", "production_job", "--at", NOW]
        command += ["--seed", str(SEED), "--timings", str(timings)]
        started = perf_counter()
        process = os.posix_spawn(command[0], command, os.environ, file_actions=_silent())
        _, status, usage = os.wait4(process, 0)
        seconds = perf_counter() - started
        if os.waitstatus_to_exitcode(status):
            raise RuntimeError("the cycle failed; run the command by hand: " + " ".join(command))
        return seconds, json.loads(timings.read_text(encoding="utf-8")), usage.ru_maxrss / 1024


def _silent() -> list[tuple[int, int, str, int, int]]:
    return [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]


def exported(database: Database) -> tuple[list[bytes], list[bytes]]:
    """The job rows that the cycle wrote, and its (file, job) pairs."""
    with database.begin() as connection:
        raw = Database.raw(connection)
        tasks = [row[0] for row in raw.execute("SELECT jeditaskid FROM doma_panda.jedi_tasks")]
        with raw.cursor() as cursor:
            with cursor.copy(_JOBS_OUT.replace("%s", "ARRAY[" + ",".join(map(str, tasks)) + "]")) as copy:
                jobs = [bytes(block) for block in copy]
            with cursor.copy(_FILES_OUT) as copy:
                files = [bytes(block) for block in copy]
    return jobs, files


def bare_sql(database: Database, jobs: list[bytes], files: list[bytes]) -> float:
    """Seconds of the bare SQL in one transaction."""
    started = perf_counter()
    with database.begin() as connection, Database.raw(connection).cursor() as cursor:
        for statement, blocks in ((_JOBS_IN, jobs), (_FILES_IN, files)):
            if statement is _FILES_IN:
                cursor.execute(_STAGE)
            with cursor.copy(statement) as copy:
                for block in blocks:
                    copy.write(block)
        cursor.execute(_UPDATE)
    return perf_counter() - started


@contextmanager
def twin_of(database: Database) -> Iterator[Database]:
    """A copy of the database, as it is now."""
    name = sa.make_url(database.url).database
    database.engine.dispose()
    admin = Database(sa.make_url(database.url).set(database="template1").render_as_string(hide_password=False))
    with admin.autocommit() as connection:
        connection.exec_driver_sql(f'CREATE DATABASE {TWIN} TEMPLATE "{name}"')
    admin.close()
    twin = Database(sa.make_url(database.url).set(database=TWIN).render_as_string(hide_password=False))
    try:
        yield twin
    finally:
        twin.close()


def main() -> None:
    """Measure and report."""
    with loaded(make_scenario(TASKS, QUEUES, JOBS, seed=SEED)) as database, twin_of(database) as twin:
        process_s, timings, peak_mb = run_cycle(database.url)
        jobs, files = exported(database)
        bare_s = bare_sql(twin, jobs, files)
    stages = {name: timings[name] for name in ("load_s", "decide_s", "cut_s", "write_s", "total_s")}
    row = {"jobs": timings["jobs"], **stages, "process_s": process_s, "bare_sql_s": bare_s}
    row |= {"cycle_over_bare": timings["total_s"] / bare_s, "peak_mb": peak_mb}
    report("cycle", [row], target="cycle_over_bare <= 3, peak_mb < 1024")


if __name__ == "__main__":
    main()
