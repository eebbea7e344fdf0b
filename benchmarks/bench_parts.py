"""One broker with all of the production jobs against two with a part each, over the same work, in one run.

Once the cycles make jobs, and once they only record what they decided, as alongside PanDA; then the database has less
to do.

Each broker is a process of its own that runs cycle after cycle, as a service does: it has loaded the compiled loop,
read the grid and decided without writing, then waits for the others and runs a first cycle that writes. What is
decided in the first cycle has to be the same for one broker and for two. Measured is what comes after it: a backlog of
tasks that nobody looked at before, 1,000 a cycle for each broker, as the limit of files holds for each part too. So
two brokers run half as many cycles each, and go on to the next when they are done with the one before, whatever the
other does. Throughput is all of that work over the time from the moment at which all of them begin it until the last
one is done. The grid stays as it is but for the jobs that they make. A checkpoint is made before the first cycle and
none after it, and autovacuum sleeps: either would fall into one run by chance and not into the other.

It was a single cycle of each at first, and the first that wrote anything to a fresh copy of the database. That measures
what a service meets once: the server's processes read their catalogues and plan, tables grow from nothing, whole pages
go into the log after the checkpoint that made the copy; and the work before the first batch and the wait for the last
one, when either the broker or the server has nothing to do, are a large part of a single cycle. All of it was so for
both sides, but what two brokers gain is a rate, and half of the difference to be told was lost in the noise.

PostgreSQL runs on the same cores: its processor time is shown, and beside the ratio of throughputs stand two more: that
of the processor times of the brokers alone (one against the busier of two), which is what they gain where the database
is no limit; and the most that these cores allow, which is reached when none of them waits. The rounds go in turn, and
so does who is first; the median is told.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
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
"""Tasks with a chunk each of a cycle of one broker, pseudo-queues of the grid, and jobs of such a cycle."""
CYCLES = 8
"""Measured after the first, of all brokers together."""
SEED = 1
ROUNDS = 5
MODES: dict[str, JobGeneration] = {"jobs": "broker", "decisions": "jedi"}
"""What is written, by who makes the jobs."""
_TASKS = "SELECT jeditaskid FROM doma_panda.jedi_tasks ORDER BY 1"
_DECIDED = """
    SELECT jeditaskid, datasetid, ramcount, outcome, CAST(assigned AS text) FROM broker.stored_decisions
    ORDER BY 1, 2, 3"""
_QUIET = {"autovacuum": "off", "checkpoint_timeout": "1h", "max_wal_size": "16GB"}
"""Settings of the server by which nothing happens by chance."""


def work(url: str, part: Part, mode: str, cycles: int) -> None:
    """A broker: get ready, then run a cycle for each line that says so, and tell what it took. Runs in its own process.

    ``cycles``: of all brokers together after the first one; 0: there is but one, over all tasks. Else the first takes
    as many tasks as each of the others would with one broker, and the first line is for it alone.
    """
    agents = configuration.load(configuration.config_file("agents.yaml", None), registry.NAMES)
    agent = registry.make(AGENT, {}, ProcessSettings(job_generation=MODES[mode]))
    if find_spec("numba") is not None:
        loading.mode = "always"  # a service has it loaded long since
    with Database(url) as database:
        lease = Lease(part.lease_of(AGENT), "rehearsal", 0)
        run_cycle(agent, CycleContext(database, NOW, SEED, 600.0, CycleRequest(dry_run=True), lease=lease))
        with database.begin() as connection:
            tasks = connection.exec_driver_sql(_TASKS).scalars().all()
        for some in _requests(tasks, cycles, part):
            print("ready", flush=True)
            sys.stdin.readline()
            before, started = _own_cpu_s(), perf_counter()
            sums: dict[str, float] = {}
            for request in some:
                record = run_leased(agent, agents, database, NOW, SEED, request, part)
                for name, value in {**record.timings, **record.counts}.items():
                    sums[name] = sums.get(name, 0) + value
            told = {"wall_s": perf_counter() - started, "cpu_s": _own_cpu_s() - before, **sums}
            told["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(json.dumps(told), flush=True)


def _requests(tasks: Sequence[int], cycles: int, part: Part) -> Iterator[list[CycleRequest]]:
    """What a broker is asked for, line by line."""
    if not cycles:
        yield [CycleRequest()]
        return
    mixed = np.random.default_rng(SEED).permutation(tasks).tolist()  # tasks are made in turn of several kinds
    first = len(tasks) // (1 + cycles)
    yield [CycleRequest(task_ids=tuple(mixed[:first]))]
    own, unequal = divmod(cycles, part.of)
    if unequal:
        raise ValueError(f"{cycles} cycles are not the same number for each of {part.of} brokers")
    yield [CycleRequest(task_ids=tuple(mixed[first + at :: own])) for at in range(own)]


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


def brokers(
    database: Database,
    parts: int,
    mode: str,
    cycles: int = 0,
    between: Callable[[Database], None] | None = None,
) -> tuple[dict[str, float], list[tuple[Any, ...]]]:
    """Brokers of all parts at once: what they took, and what was decided with the jobs by chunk and queue.

    ``cycles``: 0: each broker runs one cycle over all of its work. Else each runs one over a part of it, which is not
    told, and then its share of so many cycles over the rest; what is given back as decided is of the first.
    ``between``: done when all of them are ready for what is measured.
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
        decided = _decided(database)
        _wait_for(processes)
    if between is not None:
        between(database)
    database.engine.dispose()
    # until they end: what their servers did for them before they were asked does not count
    with ServerWatch(postmaster) as server:
        started = perf_counter()
        told = _run(processes)
        wall_s = perf_counter() - started
    for process in processes:
        process.communicate()
    if not cycles:
        decided = _decided(database)
    cpu = [one["cpu_s"] for one in told]
    figures = {"chunks": sum(one["chunks"] for one in told), "wall_s": wall_s, "brokers_cpu_s": sum(cpu)}
    figures |= {"busiest_cpu_s": max(cpu), "server_cpu_s": server.cpu_s, "jobs": sum(one["jobs"] for one in told)}
    figures |= {"first_done_s": min(one["wall_s"] for one in told), "broker_mb": max(one["peak_mb"] for one in told)}
    return figures | {"server_mb": server.own_mb, "shared_buffers_mb": server.shared_mb}, decided


def _wait_for(processes: Sequence[subprocess.Popen[str]]) -> None:
    for process in processes:
        _line(process)


def _run(processes: Sequence[subprocess.Popen[str]]) -> list[dict[str, float]]:
    """Let all brokers run what is next; what each tells of it."""
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    return [json.loads(_line(process)) for process in processes]


def _decided(database: Database) -> list[tuple[Any, ...]]:
    with database.begin() as connection:
        return [tuple(row) for row in connection.exec_driver_sql(_DECIDED)]


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
    """One round: one broker and two, by turns the one first or the others.

    Raises:
        RuntimeError: they did not decide the same in the first cycle, or not as many chunks in the others.
    """
    found = {}
    for parts in (1, 2) if number % 2 else (2, 1):
        with copy_of(database, f"{mode}_{number}_{parts}") as copy:
            found[parts] = brokers(copy, parts, mode, CYCLES)
    (one, decided), (two, also) = found[1], found[2]
    if decided != also or not decided:
        raise RuntimeError("two brokers with a part each did not decide what one decides")
    if one["chunks"] != two["chunks"]:
        raise RuntimeError(f"one broker decided {one['chunks']} chunks, two of them {two['chunks']}")
    yield from ({"writes": mode, "round": number, "brokers": parts, **found[parts][0]} for parts in (1, 2))


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
    found = {}
    for mode in MODES:
        of_mode = [row for row in rows if row["writes"] == mode]
        found[mode] = ratios(of_mode[::2], of_mode[1::2])
        print(f"two brokers over one, {mode}: " + ", ".join(f"{name} {x:.2f} x" for name, x in found[mode].items()))
    target = f"throughput >= 1.8 on 2 quiet cores; {CYCLES * TASKS} tasks"
    report(folder, "parts", rows, ratios=found, cores=os.cpu_count(), target=target)


if __name__ == "__main__":
    main()
