"""What right-sizing brings in the simulation: memory asked over used, kills, and work delivered, by seed.

Every grid is run with what tasks asked for, with what PanDA's formula makes of their first jobs, with the learned
quantile, with both, and with a prior of the kind before these.
``python -m benchmarks.bench_right_sizing [SCENARIO.yaml]``: a scenario of a calibrated grid, else the grid 2026 as it
is, and with jobs that use half as much.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np  # noqa: E402

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


def of_2026(part: float) -> Make:
    """The grid 2026 with jobs that use so much of what they use there."""

    def make(seed: int) -> Scenario:
        made = generate_2026(SIZE, seed)
        tasks = tuple(dataclasses.replace(task, memory_factor=task.memory_factor * part) for task in made.tasks)
        return dataclasses.replace(made, tasks=tasks)

    return make


def figures(make: Make, seed: int, way: Requests) -> tuple[float, float, float, float]:
    """Memory asked over used, jobs killed for it of 1,000 that ran, work delivered in HS06 h, jobs lost for good."""
    loop = ClosedLoop(dataclasses.replace(make(seed), requests=way), find_policy("least_loaded"), seed)
    run = loop.run()
    tally, finished = loop.grid.tally, run.runs.of("finished")
    killed = 1000.0 * tally.over_memory / max(1, len(run.runs))
    delivered = float(run.runs.hs06s[finished].sum()) / 3600.0
    return tally.memory_asked_gb_h / tally.memory_used_gb_h, killed, delivered, float(tally.failed_jobs)


def main() -> None:
    """Print a line for each grid and way: the mean over the seeds, and the standard error of the difference."""
    grids: dict[str, Make] = {"2026": of_2026(1.0), "2026, half used": of_2026(0.5)}
    if sys.argv[1:]:
        grids = {sys.argv[1]: read_scenario(Path(sys.argv[1]).read_text(encoding="utf-8"), sys.argv[1])}
    print("grid; requests; asked/used; killed of 1,000 runs; delivered HS06 h; jobs lost; delivered against asked")
    for name, make in grids.items():
        base = None
        for way in WAYS:
            found = np.array([figures(make, seed, way) for seed in SEEDS])
            base = found if base is None else base
            change = 100.0 * (found[:, 2] / base[:, 2] - 1.0)
            error = change.std(ddof=1) / len(SEEDS) ** 0.5
            asked, killed, delivered, lost = found.mean(axis=0)
            shown = (
                f"{asked:.2f}",
                f"{killed:.1f}",
                f"{delivered:,.0f}",
                f"{lost:.1f}",
                f"{change.mean():+.1f} +- {error:.1f} %",
            )
            print("; ".join((name, way, *shown)), flush=True)


if __name__ == "__main__":
    main()
