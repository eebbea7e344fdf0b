"""What right-sizing brings in the simulation: memory requested over used, kills, and work delivered, by seed.

Every grid runs with the requests of the tasks, with PanDA's formula for their first jobs, with the learned quantile,
with both, and with an additional prior by kind of task.
``python -m benchmarks.bench_right_sizing [SCENARIO.yaml] [--grids wrong] [--seeds 1 2 3] [--warm-up 0 48]``: a scenario
of a calibrated grid, or else the grid 2026 unchanged (``2026``), with jobs that use half as much (``half``), and with
requests that are three times too high on average and too low for a few tasks (``wrong``). A warm-up leaves out the jobs
that start in its hours: a service that has run for a month has seen other tasks of a kind.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
from collections.abc import Callable, Sequence
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np  # noqa: E402

from broker.domain.arrays import Floats  # noqa: E402
from broker.simulation.model.generated_grid import GridParameters  # noqa: E402
from broker.simulation.model.grid_2026 import generate_2026  # noqa: E402
from broker.simulation.model.loop import ClosedLoop  # noqa: E402
from broker.simulation.model.policies.base import find_policy  # noqa: E402
from broker.simulation.model.right_sizing import Requests  # noqa: E402
from broker.simulation.model.scenario import Scenario  # noqa: E402
from broker.simulation.model.scenario_file import read_scenario  # noqa: E402

SEEDS = (1, 2, 3)
REQUESTS: tuple[Requests, ...] = ("asked", "scouts", "learned", "both", "prior")
SIZE = GridParameters(days=5.0, queues=10, cores=2000, nuclei=2, users=20, warm_up_s=0.0)
Make = Callable[[int], Scenario]


def grid_2026_with(part: float, spread: float = 1.0) -> Make:
    """Return a maker of the grid 2026 with a different use of memory.

    Args:
        part: the factor of the memory that jobs use.
        spread: the factor of the logarithmic spread between tasks.
    """

    def make(seed: int) -> Scenario:
        scenario = generate_2026(SIZE, seed)
        tasks = tuple(
            dataclasses.replace(task, memory_factor=part * task.memory_factor**spread) for task in scenario.tasks
        )
        return dataclasses.replace(scenario, tasks=tasks)

    return make


#: Grids by name. In the last one about 5 of 1,000 tasks use more memory than a job may, as in the grid 2026.
GRIDS: dict[str, Make] = {"2026": grid_2026_with(1.0), "half": grid_2026_with(0.5), "wrong": grid_2026_with(0.4, 2.0)}


def figures(make: Make, seed: int, requests: Requests, warm_ups_h: Sequence[int]) -> dict[int, tuple[float, ...]]:
    """Return by hours of warm-up: memory requested over used, and kills for memory per 1,000 runs, of later jobs.

    Two more figures are of the whole run: the work delivered in HS06 h, and the jobs that failed for good.
    """
    loop = ClosedLoop(dataclasses.replace(make(seed), requests=requests), find_policy("least_loaded"), seed)
    run = loop.run()
    tally, finished = loop.grid.tally, run.runs.of("finished")
    delivered = float(run.runs.hs06s[finished].sum()) / 3600.0
    by_warm_up: dict[int, tuple[float, ...]] = {}
    for warm_up_h in warm_ups_h:
        hours_counted = [use for hour, use in tally.memory.items() if hour >= warm_up_h]
        requested, used = sum(use.requested_gb_h for use in hours_counted), sum(use.used_gb_h for use in hours_counted)
        killed = 1000.0 * sum(use.killed for use in hours_counted) / max(1, sum(use.ran for use in hours_counted))
        by_warm_up[warm_up_h] = (requested / used if used else np.nan, killed, delivered, float(tally.failed_jobs))
    return by_warm_up


def line(values: Floats, base: Floats) -> str:
    """Format the means over the seeds with standard errors, and the work delivered relative to the base."""
    change = 100.0 * (values[:, 2] / base[:, 2] - 1.0)
    errors = np.column_stack([values[:, :2], change]).std(axis=0, ddof=1) / len(values) ** 0.5
    ratio, killed, delivered, failed = values.mean(axis=0)
    return "; ".join((
        f"{ratio:.3f} +- {errors[0]:.3f}", f"{killed:.2f} +- {errors[1]:.2f}", f"{delivered:,.0f}", f"{failed:.1f}",
        f"{change.mean():+.1f} +- {errors[2]:.1f} %",
    ))  # fmt: skip


def main() -> None:
    """Print a line for each grid, way and warm-up: means over the seeds with their standard errors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenario", nargs="?")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS), help="two or more")
    parser.add_argument("--ways", nargs="+", default=list(REQUESTS), choices=REQUESTS, help="the first is the base")
    parser.add_argument("--warm-up", type=int, nargs="+", default=[0, 48], help="hours; jobs that start later count")
    parser.add_argument("--grids", nargs="+", default=list(GRIDS), choices=GRIDS, help="without a scenario")
    options = parser.parse_args()
    grids = {name: GRIDS[name] for name in options.grids}
    if options.scenario:
        grids = {options.scenario: read_scenario(Path(options.scenario).read_text(encoding="utf-8"), options.scenario)}
    print("grid; requests; warm-up h; asked/used; killed of 1,000 runs; delivered HS06 h; lost; delivered against base")
    for name, make in grids.items():
        base: dict[int, Floats] = {}
        for way in options.ways:
            runs = [figures(make, seed, way, options.warm_up) for seed in options.seeds]
            for warm_up_h in options.warm_up:
                values = np.array([by_warm_up[warm_up_h] for by_warm_up in runs])
                print(
                    "; ".join((name, way, str(warm_up_h), line(values, base.setdefault(warm_up_h, values)))), flush=True
                )


if __name__ == "__main__":
    main()
