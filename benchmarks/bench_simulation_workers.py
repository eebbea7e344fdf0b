"""What a second worker brings to ``broker simulate``: processes, and workers of a Dask cluster, against one process.

The same simulations are run by each way in turn, and in the opposite order in the next round, so that whatever else the
machine does falls on all ways alike. Efficiency in CPU is the CPU time of one process over that of all processes of the
other way: it says what starting them, sending and sharing caches cost. Processes are started for each comparison, and
count from then on; a cluster is there before. Efficiency by the clock is the time of one process over (workers x time),
and tells something only where nothing else is at work.
"""

from __future__ import annotations

import argparse
import os
import resource
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

from broker.simulation.model.comparing import Case, simulate_all  # noqa: E402
from broker.simulation.model.generated_grid import GridParameters  # noqa: E402
from broker.simulation.model.scenario_file import GridChoice  # noqa: E402

WORKERS = 2
ROUNDS = 2
SEEDS = 6
GRID = GridChoice("full", GridParameters(days=0.5, queues=20, cores=4000, nuclei=5, warm_up_s=14_400.0))


@dataclass(frozen=True)
class Way:
    """A way to run simulations.

    Attributes:
        name: of it.
        workers: that simulate at one time.
        run: runs all.
        cpu_s: CPU seconds until now of all processes that take part.
    """

    name: str
    workers: int
    run: Callable[[Sequence[Case]], None]
    cpu_s: Callable[[], float]


def own_cpu_s() -> float:
    """CPU seconds of this process and of all that it started and that ended."""
    found = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in found)


def in_processes(count: int) -> Callable[[Sequence[Case]], None]:
    """Run in so many processes, as ``--processes`` does."""
    return lambda cases: _run(cases, count, None)


def _run(cases: Sequence[Case], processes: int, dask: str | None) -> None:
    simulate_all(cases, processes, lambda place, result: None, dask)


@contextmanager
def cluster() -> Iterator[Way]:
    """Workers of Dask that have run a simulation each, and so have imported what they need."""
    from distributed import Client, LocalCluster

    made: Any = LocalCluster
    connect: Any = Client
    with made(n_workers=WORKERS, threads_per_worker=1, dashboard_address=None) as running, connect(running) as client:
        short = GridChoice("full", GridParameters(days=0.02, queues=4, cores=200, nuclei=1, warm_up_s=60.0))
        client.run(_run, [Case("seed", "seed", 1, short)], 1, None)

        def cpu_s() -> float:
            return own_cpu_s() + float(sum(client.run(own_cpu_s).values()))

        yield Way(f"{WORKERS} workers of Dask", WORKERS, lambda cases: _run(cases, 1, running.scheduler_address), cpu_s)


def measure(way: Way, cases: Sequence[Case]) -> tuple[float, float]:
    """CPU seconds and seconds by the clock of one way."""
    cpu, clock = way.cpu_s(), perf_counter()
    way.run(cases)
    return way.cpu_s() - cpu, perf_counter() - clock


def row_of(way: Way, spent: Sequence[tuple[float, float]], alone: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """A way with its efficiencies against one process, over all rounds."""
    (cpu, clock), (cpu_alone, clock_alone) = ((sum(part) for part in zip(*one, strict=True)) for one in (spent, alone))
    efficiency = {"efficiency_cpu": cpu_alone / cpu, "efficiency_clock": clock_alone / (way.workers * clock)}
    return {"way": way.name, "rounds": len(spent), "cpu_s": cpu, "clock_s": clock, **efficiency}


def main() -> None:
    """Measure; ``--short`` simulates a fifth of the time, of which starting processes is a large part."""
    # not above: every process that is started imports this module, and the simulation needs none of that
    from benchmarks.measuring import folder_argument, report

    parser = argparse.ArgumentParser(description=__doc__)
    folder_argument(parser)
    parser.add_argument("--short", action="store_true", help="a fifth of the time")
    asked = parser.parse_args()
    grid = GRID
    if asked.short:
        grid = GridChoice("full", GridParameters(days=0.1, queues=20, cores=4000, nuclei=5, warm_up_s=600.0))
    cases = [Case("seed", "seed", seed, grid) for seed in range(1, SEEDS + 1)]
    _run(cases[:1], 1, None)  # imports, and what is made once
    with cluster() as on_cluster:
        ways = [
            Way("one process", 1, in_processes(1), own_cpu_s),
            Way(f"{WORKERS} processes", WORKERS, in_processes(WORKERS), own_cpu_s),
            on_cluster,
        ]
        spent: dict[str, list[tuple[float, float]]] = {way.name: [] for way in ways}
        for number in range(ROUNDS):
            for way in ways if number % 2 == 0 else ways[::-1]:
                spent[way.name].append(measure(way, cases))
    rows = [row_of(way, spent[way.name], spent[ways[0].name]) for way in ways]
    load = [round(one, 1) for one in os.getloadavg()]
    facts = {"target": "efficiency >= 0.85 a worker", "simulations": len(cases), "load": load}
    report(asked.folder, "simulation_workers", rows, **facts)


if __name__ == "__main__":
    main()
