"""One broker with all of the production jobs against two with a part each, over the same work, in one run.

Once the cycles make jobs, and once they only record what they decided, as alongside PanDA; then the database has less
to do.

Each broker is a process of its own. It has loaded the compiled loop, read the grid once and decided without writing
before it is measured, as one that has been running for a while; then it runs one cycle that reads, decides, cuts and
writes. The throughput of two brokers is that of the work of both over the time until the later one is done. PostgreSQL
runs on the same cores: its processor time is shown, and beside the ratio of throughputs stand two more: that of the
processor times of the brokers alone (one against the busier of two), which is what they gain where the database is no
limit; and the most that these cores allow, which is reached when none of them waits. The rounds go in turn; the median
is told.
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
from importlib.util import find_spec
from time import perf_counter
from typing import Any

import sqlalchemy as sa

from agents.service import configuration, registry
from agents.service.base import CycleContext, CycleRequest
from agents.service.cycle import run_cycle
from agents.service.process import JobGeneration, ProcessSettings
from benchmarks.measuring import NOW, loaded, report
from benchmarks.scenario import make_scenario
from benchmarks.server_use import ServerWatch, postmaster_of
from broker.app.agent_cycle import run_leased
from broker.domain.parts import MARK, Part, led_by, parts_of
from broker.engine.compiled import loading
from broker.store.connection.database import Database
from broker.store.service.leases import Lease

AGENT = "production_job"
TASKS, QUEUES, JOBS = 1000, 500, 100_000
SEED = 1
ROUNDS = 3
MODES: dict[str, JobGeneration] = {"jobs": "broker", "decisions": "jedi"}
"""What is written, by who makes the jobs."""
_DECIDED = """
    SELECT jeditaskid, datasetid, ramcount, outcome, CAST(assigned AS text) FROM broker.stored_decisions
    ORDER BY 1, 2, 3"""


def work(url: str, part: Part, mode: str) -> None:
    """A broker: get ready, say so, wait for a line, run one cycle, and tell what it took. Runs in its own process."""
    agents = configuration.load(configuration.config_file("agents.yaml", None), registry.NAMES)
    agent = registry.make(AGENT, {}, ProcessSettings(job_generation=MODES[mode]))
    if find_spec("numba") is not None:
        loading.mode = "always"  # a service has it loaded long since
    with Database(url) as database:
        lease = Lease(part.lease_of(AGENT), "rehearsal", 0)
        run_cycle(agent, CycleContext(database, NOW, SEED, 600.0, CycleRequest(dry_run=True), lease=lease))
        print("ready", flush=True)
        sys.stdin.readline()
        before, started = _own_cpu_s(), perf_counter()
        record = run_leased(agent, agents, database, NOW, SEED, CycleRequest(), part)
        told = {"wall_s": perf_counter() - started, "cpu_s": _own_cpu_s() - before, **record.timings, **record.counts}
        told["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps(told), flush=True)


def _own_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


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


def brokers(database: Database, parts: int, mode: str) -> tuple[dict[str, float], list[tuple[Any, ...]]]:
    """One cycle of each part at once: what it took, and the jobs by chunk and queue."""
    postmaster = postmaster_of(database)
    command = [sys.executable, "-m", "benchmarks.bench_parts", "--part", mode]
    processes = [
        subprocess.Popen(
            [*command, str(part), database.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        for part in parts_of(parts)
    ]
    for process in processes:
        _line(process)
    database.engine.dispose()
    # until they end: what their servers did for them before they were asked does not count
    with ServerWatch(postmaster) as server:
        started = perf_counter()
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        told = [json.loads(_line(process)) for process in processes]
        wall_s = perf_counter() - started
    for process in processes:
        process.communicate()
    with database.begin() as connection:
        jobs = [tuple(row) for row in connection.exec_driver_sql(_DECIDED)]
    cpu = [one["cpu_s"] for one in told]
    figures = {"chunks": sum(one["chunks"] for one in told), "wall_s": wall_s, "brokers_cpu_s": sum(cpu)}
    figures |= {"busiest_cpu_s": max(cpu), "server_cpu_s": server.cpu_s, "jobs": sum(one["jobs"] for one in told)}
    figures |= {"broker_mb": max(one["peak_mb"] for one in told)}
    return figures | {"server_mb": server.own_mb, "shared_buffers_mb": server.shared_mb}, jobs


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError("a broker of the benchmark ended; see its messages above")
    return line


def ratios(one: list[dict[str, Any]], two: list[dict[str, Any]]) -> dict[str, float]:
    """How much more two brokers do than one, as medians over the rounds."""
    pairs = list(zip(one, two, strict=True))
    cores = os.cpu_count() or 1

    def most(a: dict[str, Any], b: dict[str, Any]) -> float:
        return float(a["wall_s"] * cores / (b["brokers_cpu_s"] + b["server_cpu_s"]))

    return {
        "throughput": statistics.median(a["wall_s"] / b["wall_s"] for a, b in pairs),
        "brokers_alone": statistics.median(a["busiest_cpu_s"] / b["busiest_cpu_s"] for a, b in pairs),
        "most_here": statistics.median(most(a, b) for a, b in pairs),
    }


def measure(database: Database, mode: str, number: int) -> Iterator[dict[str, Any]]:
    """One round: one broker, then two.

    Raises:
        RuntimeError: they did not decide the same.
    """
    decided = []
    for parts in (1, 2):
        with copy_of(database, f"{mode}_{number}_{parts}") as copy:
            figures, found = brokers(copy, parts, mode)
        decided.append(found)
        yield {"writes": mode, "round": number, "brokers": parts, **figures}
    if decided[0] != decided[1] or not decided[0]:
        raise RuntimeError("two brokers with a part each did not decide what one decides")


def main() -> None:
    """Measure and report."""
    if "--part" in sys.argv:
        mode, part, url = sys.argv[-3:]
        work(url, led_by(f"{AGENT}{MARK}{part}")[1], mode)
        return
    rows: list[dict[str, Any]] = []
    with loaded(make_scenario(TASKS, QUEUES, JOBS, seed=SEED)) as database:
        for number in range(1, ROUNDS + 1):
            for mode in MODES:
                rows += measure(database, mode, number)
    found = {}
    for mode in MODES:
        of_mode = [row for row in rows if row["writes"] == mode]
        found[mode] = ratios(of_mode[::2], of_mode[1::2])
        print(f"two brokers over one, {mode}: " + ", ".join(f"{name} {x:.2f} x" for name, x in found[mode].items()))
    report("parts", rows, ratios=found, cores=os.cpu_count(), target="throughput >= 1.8 on 2 quiet cores")


if __name__ == "__main__":
    main()
