"""What right-sizing brings in the simulation: memory asked over used, kills, and work delivered, by seed.

Every grid is run with what tasks asked for, with what PanDA's formula makes of their first jobs, with the learned
quantile, with both, and with a prior of the kind before these.
``python -m benchmarks.bench_right_sizing [SCENARIO.yaml] [--grids wrong] [--seeds 1 2 3] [--warm-up 0 48]``: a scenario
of a calibrated grid, else the grid 2026 as it is (``2026``), with jobs that use half as much (``half``), and with
requests that are three times too high in the mean and too low for a few tasks (``wrong``). A warm-up leaves out the
jobs that start in its hours: in a service that has run for a month, other tasks of a kind have been seen.
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
WAYS: tuple[Requests, ...] = ("asked", "scouts", "learned", "both", "prior")
SIZE = GridParameters(days=5.0, queues=10, cores=2000, nuclei=2, users=20, warm_up_s=0.0)
Make = Callable[[int], Scenario]


def of_2026(part: float, spread: float = 1.0) -> Make:
    """The grid 2026 with jobs that use so much of what they use there.

    Args:
        part: of the memory.
        spread: between tasks, in times of the logarithm's there.
    """

    def make(seed: int) -> Scenario:
        scenario = generate_2026(SIZE, seed)
        tasks = tuple(
            dataclasses.replace(task, memory_factor=part * task.memory_factor**spread) for task in scenario.tasks
        )
        return dataclasses.replace(scenario, tasks=tasks)

    return make


#: Grids by their names. In the last one some 5 of 1,000 tasks use more than a job may, as in the grid 2026.
GRIDS: dict[str, Make] = {"2026": of_2026(1.0), "half": of_2026(0.5), "wrong": of_2026(0.4, 2.0)}


def figures(make: Make, seed: int, way: Requests, warm_ups_h: Sequence[int]) -> dict[int, tuple[float, ...]]:
    """By hours of warm-up, of the jobs that started after it: memory asked over used, killed for it of 1,000 that ran.

    Then, of the whole run, work delivered in HS06 h and jobs lost for good.
    """
    loop = ClosedLoop(dataclasses.replace(make(seed), requests=way), find_policy("least_loaded"), seed)
    run = loop.run()
    tally, finished = loop.grid.tally, run.runs.of("finished")
    delivered = float(run.runs.hs06s[finished].sum()) / 3600.0
    found: dict[int, tuple[float, ...]] = {}
    for warm_up_h in warm_ups_h:
        counted = [one for hour, one in tally.memory.items() if hour >= warm_up_h]
        asked, used = sum(one.asked_gb_h for one in counted), sum(one.used_gb_h for one in counted)
        killed = 1000.0 * sum(one.killed for one in counted) / max(1, sum(one.ran for one in counted))
        found[warm_up_h] = (asked / used if used else np.nan, killed, delivered, float(tally.failed_jobs))
    return found


def line(found: Floats, base: Floats) -> str:
    """The means over the seeds, each with its standard error; work delivered against that of the base."""
    change = 100.0 * (found[:, 2] / base[:, 2] - 1.0)
    errors = np.column_stack([found[:, :2], change]).std(axis=0, ddof=1) / len(found) ** 0.5
    asked, killed, delivered, lost = found.mean(axis=0)
    return "; ".join((
        f"{asked:.3f} +- {errors[0]:.3f}", f"{killed:.2f} +- {errors[1]:.2f}", f"{delivered:,.0f}", f"{lost:.1f}",
        f"{change.mean():+.1f} +- {errors[2]:.1f} %",
    ))  # fmt: skip


def main() -> None:
    """Print a line for each grid, way and warm-up: means over the seeds with their standard errors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenario", nargs="?")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS), help="two or more")
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS, help="the first is the base")
    parser.add_argument("--warm-up", type=int, nargs="+", default=[0, 48], help="hours; jobs that start later count")
    parser.add_argument("--grids", nargs="+", default=list(GRIDS), choices=GRIDS, help="without a scenario")
    given = parser.parse_args()
    grids = {name: GRIDS[name] for name in given.grids}
    if given.scenario:
        grids = {given.scenario: read_scenario(Path(given.scenario).read_text(encoding="utf-8"), given.scenario)}
    print("grid; requests; warm-up h; asked/used; killed of 1,000 runs; delivered HS06 h; lost; delivered against base")
    for name, make in grids.items():
        base: dict[int, Floats] = {}
        for way in given.ways:
            seeds = [figures(make, seed, way, given.warm_up) for seed in given.seeds]
            for warm_up_h in given.warm_up:
                found = np.array([one[warm_up_h] for one in seeds])
                print(
                    "; ".join((name, way, str(warm_up_h), line(found, base.setdefault(warm_up_h, found)))), flush=True
                )


if __name__ == "__main__":
    main()
