"""One broker with all of the production jobs against two with a part each, over the same work, in one run.

Each broker is a process of its own. It has read the grid once and decided without writing before it is measured, as
one that has been running for a while; then it runs one cycle that reads, decides, cuts and writes. The throughput of
two brokers is that of the work of both over the time until the later one is done. PostgreSQL runs on the same cores:
its processor time is shown, and beside the ratio of throughputs stands that of processor times of the brokers alone,
which is what two machines with a database of their own power would see. The rounds go in turn; the median is told.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import sqlalchemy as sa

from agents.service import configuration, registry
from agents.service.base import CycleContext, CycleRequest
from agents.service.cycle import run_cycle
from agents.service.process import ProcessSettings
from benchmarks.measuring import NOW, loaded, report
from benchmarks.scenario import make_scenario
from broker.app.agent_cycle import run_leased
from broker.domain.parts import Part, parts_of
from broker.store.connection.database import Database
from broker.store.service.leases import Lease

AGENT = "production_job"
TASKS, QUEUES, JOBS = 1000, 500, 100_000
SEED = 1
ROUNDS = 3
_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
_JOBS_AT_QUEUES = """
    SELECT jeditaskid, computingsite, count(*) FROM doma_panda.jobsdefined4
    WHERE jeditaskid IN (SELECT jeditaskid FROM doma_panda.jedi_tasks) GROUP BY 1, 2 ORDER BY 1, 2"""


def work(url: str, part: Part) -> None:
    """A broker: get ready, say so, wait for a line, run one cycle, and tell what it took. Runs in its own process."""
    agents = configuration.load(configuration.config_file("agents.yaml", None), registry.NAMES)
    agent = registry.make(AGENT, {}, ProcessSettings())
    with Database(url) as database:
        lease = Lease(part.lease_of(AGENT), "rehearsal", 0)
        run_cycle(agent, CycleContext(database, NOW, SEED, 600.0, CycleRequest(dry_run=True), lease=lease))
        print("ready", flush=True)
        sys.stdin.readline()
        before, started = _own_cpu_s(), perf_counter()
        record = run_leased(agent, agents, database, NOW, SEED, CycleRequest(), part)
        told = {"wall_s": perf_counter() - started, "cpu_s": _own_cpu_s() - before, **record.timings, **record.counts}
        print(json.dumps(told), flush=True)


def _own_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _server_cpu_s(postmaster: int) -> float:
    """Processor time of the server and of those of its processes that have ended."""
    fields = Path(f"/proc/{postmaster}/stat").read_text(encoding="ascii").rpartition(") ")[2].split()
    return sum(map(int, fields[11:15])) / _CLOCK_TICKS


@contextmanager
def copy_of(database: Database, name: str) -> Iterator[Database]:
    """A copy of the database; gone at the end."""
    url = sa.make_url(database.url)
    database.engine.dispose()
    with Database(url.set(database="template1").render_as_string(hide_password=False)) as admin:
        with admin.autocommit() as connection:
            connection.exec_driver_sql(f'CREATE DATABASE {name} TEMPLATE "{url.database}"')
        with Database(url.set(database=name).render_as_string(hide_password=False)) as copy:
            yield copy
        with admin.autocommit() as connection:
            connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")


def brokers(database: Database, parts: int) -> tuple[dict[str, float], list[tuple[Any, ...]]]:
    """One cycle of each part at once: what it took, and the jobs by task and queue."""
    with database.begin() as connection:
        folder = connection.exec_driver_sql("SHOW data_directory").scalar_one()
    postmaster = int((Path(folder) / "postmaster.pid").read_text(encoding="ascii").split()[0])
    command = [sys.executable, "-m", "benchmarks.bench_parts", "--part"]
    processes = [
        subprocess.Popen(
            [*command, str(part), database.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        for part in parts_of(parts)
    ]
    for process in processes:
        _line(process)
    database.engine.dispose()
    server_s, started = _server_cpu_s(postmaster), perf_counter()
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    told = [json.loads(_line(process)) for process in processes]
    wall_s = perf_counter() - started
    for process in processes:
        process.communicate()
    server_s = _server_cpu_s(postmaster) - server_s
    with database.begin() as connection:
        jobs = [tuple(row) for row in connection.exec_driver_sql(_JOBS_AT_QUEUES)]
    cpu = [one["cpu_s"] for one in told]
    figures = {"jobs": sum(one["jobs"] for one in told), "wall_s": wall_s, "brokers_cpu_s": sum(cpu)}
    return figures | {"busiest_cpu_s": max(cpu), "server_cpu_s": server_s}, jobs


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError("a broker of the benchmark ended; see its messages above")
    return line


def main() -> None:
    """Measure and report."""
    if "--part" in sys.argv:
        number, of = map(int, sys.argv[-2].split("/"))
        work(sys.argv[-1], Part(number, of))
        return
    rows: list[dict[str, Any]] = []
    with loaded(make_scenario(TASKS, QUEUES, JOBS, seed=SEED)) as database:
        for number in range(ROUNDS):
            made: list[list[tuple[Any, ...]]] = []
            for parts in (1, 2):
                with copy_of(database, f"round_{number}_{parts}") as copy:
                    figures, jobs = brokers(copy, parts)
                rows.append({"round": number + 1, "brokers": parts, **figures})
                made.append(jobs)
            if made[0] != made[1]:
                raise RuntimeError("two brokers with a part each made other jobs than one")
    one, two = rows[::2], rows[1::2]
    throughput = statistics.median(a["wall_s"] / b["wall_s"] for a, b in zip(one, two, strict=True))
    brokers_alone = statistics.median(a["busiest_cpu_s"] / b["busiest_cpu_s"] for a, b in zip(one, two, strict=True))
    print(f"throughput of two brokers over one: {throughput:.2f} x; without the database's part: {brokers_alone:.2f} x")
    facts = {"throughput_ratio": throughput, "brokers_alone_ratio": brokers_alone, "cores": os.cpu_count()}
    report("parts", rows, **facts, target="throughput_ratio >= 1.8 on 2 quiet cores")


if __name__ == "__main__":
    main()
