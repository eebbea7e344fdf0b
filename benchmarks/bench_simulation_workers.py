"""What a second worker brings to ``broker simulate``: processes, and workers of a Dask cluster, against one process.

Each way runs the same simulations in turn, in the opposite order in the next round, so that other load on the machine
affects all ways alike. CPU efficiency is the CPU time of one process over that of all processes of the other way: it
shows the cost of starting processes, sending data and sharing caches. Processes are started for each comparison and
count from then on; a cluster is started beforehand. Wall-clock efficiency is the time of one process over (workers x
time); it is meaningful only on an otherwise idle machine.
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
class SimulationMode:
    """A way to run simulations.

    Attributes:
        name: the name in the report.
        workers: how many workers simulate at the same time.
        run: runs all simulations.
        cpu_s: returns the CPU seconds used so far by all processes that take part.
    """

    name: str
    workers: int
    run: Callable[[Sequence[Case]], None]
    cpu_s: Callable[[], float]


def own_cpu_s() -> float:
    """Return the CPU seconds of this process and of its ended children."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def in_processes(count: int) -> Callable[[Sequence[Case]], None]:
    """Return a function that runs cases in ``count`` processes, as ``--processes`` does."""
    return lambda cases: _run(cases, count, None)


def _run(cases: Sequence[Case], processes: int, dask: str | None) -> None:
    simulate_all(cases, processes, lambda place, result: None, dask)


@contextmanager
def cluster() -> Iterator[SimulationMode]:
    """Start Dask workers; each has run a simulation, so it has imported what it needs."""
    from distributed import Client, LocalCluster

    make_cluster: Any = LocalCluster
    connect: Any = Client
    with (
        make_cluster(n_workers=WORKERS, threads_per_worker=1, dashboard_address=None) as running,
        connect(running) as client,
    ):
        short = GridChoice("full", GridParameters(days=0.02, queues=4, cores=200, nuclei=1, warm_up_s=60.0))
        client.run(_run, [Case("seed", "seed", 1, short)], 1, None)

        def cpu_s() -> float:
            return own_cpu_s() + float(sum(client.run(own_cpu_s).values()))

        yield SimulationMode(
            f"{WORKERS} workers of Dask", WORKERS, lambda cases: _run(cases, 1, running.scheduler_address), cpu_s
        )


def measure(way: SimulationMode, cases: Sequence[Case]) -> tuple[float, float]:
    """Return the CPU seconds and wall seconds of one way."""
    cpu_start_s, clock_start_s = way.cpu_s(), perf_counter()
    way.run(cases)
    return way.cpu_s() - cpu_start_s, perf_counter() - clock_start_s


def row_of(
    way: SimulationMode, times: Sequence[tuple[float, float]], times_alone: Sequence[tuple[float, float]]
) -> dict[str, Any]:
    """Return the row of a way, with its efficiencies against one process, over all rounds."""
    (cpu, clock), (cpu_alone, clock_alone) = (
        (sum(part) for part in zip(*pairs, strict=True)) for pairs in (times, times_alone)
    )
    efficiency = {"efficiency_cpu": cpu_alone / cpu, "efficiency_clock": clock_alone / (way.workers * clock)}
    return {"way": way.name, "rounds": len(times), "cpu_s": cpu, "clock_s": clock, **efficiency}


def main() -> None:
    """Measure and report; ``--short`` simulates a fifth of the time, where starting processes is a large part."""
    # imported here because every started process imports this module, and the simulation does not need these
    from benchmarks.measuring import folder_argument, report

    parser = argparse.ArgumentParser(description=__doc__)
    folder_argument(parser)
    parser.add_argument("--short", action="store_true", help="a fifth of the time")
    options = parser.parse_args()
    grid = GRID
    if options.short:
        grid = GridChoice("full", GridParameters(days=0.1, queues=20, cores=4000, nuclei=5, warm_up_s=600.0))
    cases = [Case("seed", "seed", seed, grid) for seed in range(1, SEEDS + 1)]
    _run(cases[:1], 1, None)  # does the imports and the one-time work
    with cluster() as on_cluster:
        ways = [
            SimulationMode("one process", 1, in_processes(1), own_cpu_s),
            SimulationMode(f"{WORKERS} processes", WORKERS, in_processes(WORKERS), own_cpu_s),
            on_cluster,
        ]
        times_by_way: dict[str, list[tuple[float, float]]] = {way.name: [] for way in ways}
        for number in range(ROUNDS):
            for way in ways if number % 2 == 0 else ways[::-1]:
                times_by_way[way.name].append(measure(way, cases))
    rows = [row_of(way, times_by_way[way.name], times_by_way[ways[0].name]) for way in ways]
    load = [round(average, 1) for average in os.getloadavg()]
    facts = {"target": "efficiency >= 0.85 a worker", "simulations": len(cases), "load": load}
    report(options.folder, "simulation_workers", rows, **facts)


if __name__ == "__main__":
    main()
