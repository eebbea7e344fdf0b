"""One broker with all production jobs against two brokers with a part each, over the same work, in one run.

The work is measured twice: with cycles that make jobs, and with cycles that only record decisions, as alongside PanDA,
where the database has less to do.

Each broker is a separate process that runs cycle after cycle, as a service does. It loads the compiled loop, reads the
grid and decides without writing, then waits for the others and runs a first cycle that writes. One broker and two must
decide the same in this first cycle. The measurement covers what follows: a backlog of new tasks, 1,000 per cycle for
each broker, because the limit of files also holds for each part. Two brokers therefore run half as many cycles each,
and start the next cycle as soon as they have finished the last, whatever the other does. Throughput is all of this work
divided by the time from the common start until the last broker is done. Apart from the jobs that the brokers make, the
grid does not change. A checkpoint runs before the first cycle and none after it, and autovacuum is off: either could
hit one run by chance and not the other.

An earlier version measured a single cycle, the first one that wrote to a fresh copy of the database. That measures what
a service meets only once: server processes read their catalogues and plan, tables grow from nothing, and full pages go
into the log after the checkpoint that made the copy. The work before the first batch and the wait for the last one,
when either the broker or the server is idle, are a large part of a single cycle. This held for both sides, but the gain
of two brokers is a rate, and half of the difference was lost in the noise.

PostgreSQL runs on the same cores, and its CPU time is reported. Besides the ratio of throughputs there are two more:
the ratio of the CPU times of the brokers alone (one against the busier of two), which is the gain if the database is no
limit; and the upper bound on these cores, reached if no core ever waits. The rounds alternate which side runs first,
and the medians are reported.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from time import perf_counter
from typing import Any

import numpy as np
import sqlalchemy as sa

from agents.service import configuration, registry
from agents.service.base import CycleContext, CycleRequest
from agents.service.configuration import JobGeneration, ProcessSettings
from agents.service.cycle import run_cycle
from benchmarks.measuring import NOW, asked_folder, loaded, report
from benchmarks.scenario import make_scenario
from benchmarks.server_use import ServerWatch, postmaster_of
from broker.decisions.answers.agent_cycle import run_leased
from broker.domain.parts import MARK, Part, led_by, parts_of
from broker.engine.compiled import loading
from broker.store.connection.database import Database
from broker.store.service.leases import Lease

AGENT = "production_job"
TASKS, QUEUES, JOBS = 1000, 500, 50_000
"""Tasks (one chunk each) of a cycle of one broker, pseudo-queues of the grid, and jobs of such a cycle."""
CYCLES = 8
"""Measured cycles after the first, of all brokers together."""
SEED = 1
ROUNDS = 5
MODES: dict[str, JobGeneration] = {"jobs": "broker", "decisions": "jedi"}
"""What the cycles write, and the matching setting of who makes the jobs."""
_TASKS = "SELECT jeditaskid FROM doma_panda.jedi_tasks ORDER BY 1"
_DECISIONS = """
    SELECT jeditaskid, datasetid, ramcount, outcome, CAST(assigned AS text) FROM broker.stored_decisions
    ORDER BY 1, 2, 3"""
_QUIET = {"autovacuum": "off", "checkpoint_timeout": "1h", "max_wal_size": "16GB"}
"""Server settings that keep background work out of the measurement."""


def work(url: str, part: Part, mode: str, cycles: int) -> None:
    """Run a broker in its own process: get ready, run cycles for each line of input, and print what they took.

    ``cycles``: the cycles of all brokers together after the first one; 0: a single cycle over all tasks. Otherwise the
    first cycle takes as many tasks as each later cycle of a single broker, and the first line starts it alone.
    """
    agents = configuration.load(configuration.config_file("agents.yaml", None), registry.NAMES)
    agent = registry.make(AGENT, {}, ProcessSettings(job_generation=MODES[mode]))
    if find_spec("numba") is not None:
        loading.mode = "always"  # a service has loaded it long ago
    with Database(url) as database:
        lease = Lease(part.lease_of(AGENT), "rehearsal", 0)
        run_cycle(agent, CycleContext(database, NOW, SEED, 600.0, CycleRequest(dry_run=True), lease=lease))
        with database.begin() as connection:
            tasks = connection.exec_driver_sql(_TASKS).scalars().all()
        for batch in _requests(tasks, cycles, part):
            print("ready", flush=True)
            sys.stdin.readline()
            cpu_before_s, start_s = _own_cpu_s(), perf_counter()
            sums: dict[str, float] = {}
            for request in batch:
                record = run_leased(agent, agents, database, NOW, SEED, request, part)
                for name, value in {**record.timings, **record.counts}.items():
                    sums[name] = sums.get(name, 0) + value
            figures = {"wall_s": perf_counter() - start_s, "cpu_s": _own_cpu_s() - cpu_before_s, **sums}
            figures["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(json.dumps(figures), flush=True)


def _requests(tasks: Sequence[int], cycles: int, part: Part) -> Iterator[list[CycleRequest]]:
    """Yield the requests that a broker runs for each line of input."""
    if not cycles:
        yield [CycleRequest()]
        return
    shuffled = np.random.default_rng(SEED).permutation(tasks).tolist()  # the scenario alternates the kinds of tasks
    first_count = len(tasks) // (1 + cycles)
    yield [CycleRequest(task_ids=tuple(shuffled[:first_count]))]
    cycles_each, remainder = divmod(cycles, part.of)
    if remainder:
        raise ValueError(f"{cycles} cycles are not the same number for each of {part.of} brokers")
    yield [CycleRequest(task_ids=tuple(shuffled[first_count + offset :: cycles_each])) for offset in range(cycles_each)]


def _own_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


@contextmanager
def copy_of(database: Database, name: str) -> Iterator[Database]:
    """Make a copy of the database, dropped at the end."""
    url = sa.make_url(database.url)
    database.engine.dispose()
    with Database(url.set(database="template1").render_as_string(hide_password=False)) as admin:
        with admin.autocommit() as connection:
            connection.exec_driver_sql(f'CREATE DATABASE {name} TEMPLATE "{url.database}"')
        with Database(url.set(database=name).render_as_string(hide_password=False)) as copy:
            yield copy
        with admin.autocommit() as connection:
            connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")


def brokers(
    database: Database,
    parts: int,
    mode: str,
    cycles: int = 0,
    between: Callable[[Database], None] | None = None,
) -> tuple[dict[str, float], list[tuple[Any, ...]]]:
    """Run the brokers of all parts at once; return the figures, and the decisions with the jobs by chunk and queue.

    ``cycles``: 0: each broker runs one cycle over all of its work. Otherwise each runs one unmeasured cycle over a part
    of it, and then its share of the cycles over the rest; the decisions returned are those of the first cycle.
    ``between``: called when all brokers are ready for the measurement.
    """
    postmaster = postmaster_of(database)
    command = [sys.executable, "-m", "benchmarks.bench_parts", "--part", mode, str(cycles)]
    processes = [
        subprocess.Popen(
            [*command, str(part), database.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        for part in parts_of(parts)
    ]
    _wait_for(processes)
    if cycles:
        with database.autocommit() as connection:
            connection.exec_driver_sql("CHECKPOINT")
        _run(processes)
        decisions = _stored_decisions(database)
        _wait_for(processes)
    if between is not None:
        between(database)
    database.engine.dispose()
    # until they end: the server's work before the request does not count
    with ServerWatch(postmaster) as server:
        start_s = perf_counter()
        reports = _run(processes)
        wall_s = perf_counter() - start_s
    for process in processes:
        process.communicate()
    if not cycles:
        decisions = _stored_decisions(database)
    return _figures(reports, wall_s, server), decisions


def _figures(reports: Sequence[Mapping[str, float]], wall_s: float, server: ServerWatch) -> dict[str, float]:
    """The figures of all brokers and of the server."""
    cpu_s = [report["cpu_s"] for report in reports]
    return {
        "chunks": sum(report["chunks"] for report in reports),
        "wall_s": wall_s,
        "brokers_cpu_s": sum(cpu_s),
        "busiest_cpu_s": max(cpu_s),
        "server_cpu_s": server.cpu_s,
        "jobs": sum(report["jobs"] for report in reports),
        "first_done_s": min(report["wall_s"] for report in reports),
        "broker_mb": max(report["peak_mb"] for report in reports),
        "server_mb": server.own_mb,
        "shared_buffers_mb": server.shared_mb,
    }


def _wait_for(processes: Sequence[subprocess.Popen[str]]) -> None:
    for process in processes:
        _read_line(process)


def _run(processes: Sequence[subprocess.Popen[str]]) -> list[dict[str, float]]:
    """Let all brokers run their next cycles; return the report of each."""
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    return [json.loads(_read_line(process)) for process in processes]


def _stored_decisions(database: Database) -> list[tuple[Any, ...]]:
    with database.begin() as connection:
        return [tuple(row) for row in connection.exec_driver_sql(_DECISIONS)]


def _read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError("a broker of the benchmark ended; see its messages above")
    return line


def ratios(one: list[dict[str, Any]], two: list[dict[str, Any]]) -> dict[str, float]:
    """Return how much more two brokers do than one, as medians over the rounds."""
    pairs = list(zip(one, two, strict=True))
    cores = os.cpu_count() or 1

    def upper_bound(a: dict[str, Any], b: dict[str, Any]) -> float:
        return float(a["wall_s"] * cores / (b["brokers_cpu_s"] + b["server_cpu_s"]))

    return {
        "throughput": statistics.median(a["wall_s"] / b["wall_s"] for a, b in pairs),
        "brokers_alone": statistics.median(a["busiest_cpu_s"] / b["busiest_cpu_s"] for a, b in pairs),
        "most_here": statistics.median(upper_bound(a, b) for a, b in pairs),
    }


def measure(database: Database, mode: str, number: int) -> Iterator[dict[str, Any]]:
    """Measure one round, one broker and two; which goes first alternates.

    Raises:
        RuntimeError: the decisions of the first cycle differ, or the numbers of chunks in the other cycles.
    """
    results = {}
    for parts in (1, 2) if number % 2 else (2, 1):
        with copy_of(database, f"{mode}_{number}_{parts}") as copy:
            results[parts] = brokers(copy, parts, mode, CYCLES)
    (one, decisions_of_one), (two, decisions_of_two) = results[1], results[2]
    if decisions_of_one != decisions_of_two or not decisions_of_one:
        raise RuntimeError("two brokers with a part each did not decide what one decides")
    if one["chunks"] != two["chunks"]:
        raise RuntimeError(f"one broker decided {one['chunks']} chunks, two of them {two['chunks']}")
    yield from ({"writes": mode, "round": number, "brokers": parts, **results[parts][0]} for parts in (1, 2))


def main() -> None:
    """Measure and report."""
    if "--part" in sys.argv:
        mode, cycles, part, url = sys.argv[-4:]
        work(url, led_by(f"{AGENT}{MARK}{part}")[1], mode, int(cycles))
        return
    folder = asked_folder()
    rows: list[dict[str, Any]] = []
    scenario = make_scenario(TASKS * (1 + CYCLES), QUEUES, JOBS * (1 + CYCLES), seed=SEED)
    with loaded(scenario, settings=_QUIET) as database:
        for number in range(1, ROUNDS + 1):
            for mode in MODES:
                rows += measure(database, mode, number)
    by_mode = {}
    for mode in MODES:
        mode_rows = [row for row in rows if row["writes"] == mode]
        by_mode[mode] = ratios(mode_rows[::2], mode_rows[1::2])
        print(f"two brokers over one, {mode}: " + ", ".join(f"{name} {x:.2f} x" for name, x in by_mode[mode].items()))
    target = f"throughput >= 1.8 on 2 quiet cores; {CYCLES * TASKS} tasks"
    report(folder, "parts", rows, ratios=by_mode, cores=os.cpu_count(), target=target)


if __name__ == "__main__":
    main()
