"""Whether a fit with Harvester workers predicts the waits of jobs better than a fit without.

The truth has workers: each queue has its own wait in the batch system, unknown to the calibration, and Harvester
submits on demand. The calibration uses the days before the last but one, with workers on and off, and both fits predict
the waits of that day. With workers off, each job starts after a delay like that of workers at the median queue.

Run: python -m benchmarks.hidden_workers [--truths 3] [--first 1] [--seeds 3] [--load 0.75] [--policy least_loaded]
"""

from __future__ import annotations

import argparse
import dataclasses
import math
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import numpy as np

from benchmarks.hidden_truth import START, at, rows_of, store, truth
from broker.cli.output import print_table
from broker.simulation.answers.week_checks import CheckRequest, check_week
from broker.simulation.model.calibration.site_fit import SiteFit, fit_site
from broker.simulation.model.calibration.week_check import Forecast
from broker.simulation.model.generated_grid import GridParameters
from broker.simulation.model.loop import ClosedLoop
from broker.simulation.model.policies.base import find_policy
from broker.simulation.model.scenario import Scenario
from broker.simulation.model.scenario_parts import Workers
from broker.simulation.statements.site_history import site_history
from broker.whatif.answers.stored_cases import scratch_database

SIZE = GridParameters(
    days=5.0, queues=3, cores=200, nuclei=1, load=0.75, outage_mean_days=0.0, warm_up_s=0.0, median_jobs=10.0,
    spread_jobs=0.8,
)  # fmt: skip
#: The range of the median waits in the batch systems of the queues of a truth.
SHORTEST_S, LONGEST_S = 120.0, 1800.0
WAITS = ("wait_p50_s", "wait_p90_s")
WAYS = ("on", "off")
HEADS = ("truth", "queue", "figure", "jobs", "measured s", "on", "off", "ln, on", "ln, off")


def truth_with_workers(seed: int, size: GridParameters = SIZE) -> Scenario:
    """Make the hidden grid with workers: median batch waits are spaced geometrically and shuffled by the seed."""
    scenario = truth(seed, size)
    medians = np.geomspace(SHORTEST_S, LONGEST_S, len(scenario.queues))
    np.random.default_rng(seed).shuffle(medians)
    queues = tuple(
        dataclasses.replace(queue, worker_wait=(median, 0.8))
        for queue, median in zip(scenario.queues, medians.tolist(), strict=True)
    )
    return dataclasses.replace(scenario, queues=queues, workers=Workers(enabled=True))


def rows_with_workers(seed: int, policy: str, size: GridParameters = SIZE) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of PanDA's tables for a truth with workers, with the workers that took a slot and left it."""
    loop = ClosedLoop(truth_with_workers(seed, size), find_policy(policy), seed)
    pool = loop.grid.workers
    if pool is None:
        raise RuntimeError("the truth has no workers")
    pool.ended = []
    rows = rows_of(loop.run())
    names = [queue.name for queue in loop.scenario.queues]
    workers: list[tuple[Any, ...]] = [
        ("h", number, "finished", names[worker.queue], at(worker.submitted_s), at(worker.started_s),
         at(worker.ended_s), worker.cores, worker.jobs, at(worker.ended_s))
        for number, worker in enumerate(pool.ended, 1)
    ]  # fmt: skip
    return {**rows, "harvester_workers": workers}


def both_ways(seed: int, policy: str, seeds: int, size: GridParameters = SIZE) -> dict[str, list[Forecast]]:
    """Return the cells of the last day but one, predicted with workers ``on`` and ``off`` after a calibration.

    Raises:
        RuntimeError: the fit has no workers.
    """
    rows = rows_with_workers(seed, policy, size)
    last, end = START + timedelta(days=size.days - 2), START + timedelta(days=size.days - 1)
    with scratch_database("hidden_workers") as database:
        with database.begin() as connection:
            store(connection, database, rows)
        with database.read_snapshot() as connection:
            fit = fit_site(site_history(connection, database.names, START, last))
            if fit.lost_workers is None:
                raise RuntimeError("the fit has no workers")
            fits: dict[str, SiteFit] = {"on": fit, "off": dataclasses.replace(fit, lost_workers=None)}
            request = CheckRequest(last, end, policy, seeds)
            return {way: check_week(connection, database.names, site_fit, request)[0] for way, site_fit in fits.items()}


def mean_error(cells: Sequence[Forecast], figure: str) -> float:
    """Return the mean of abs(ln(simulated / measured)) of a figure over the queues; NaN if there is none."""
    errors = [abs(cell.error) for cell in cells if cell.figure == figure]
    return float(np.mean(errors)) if errors else math.nan


def rows_of_waits(seed: int, cells_by_way: Mapping[str, Sequence[Forecast]]) -> list[tuple[Any, ...]]:
    """Return the rows of a truth: waits by queue, measured and as predicted both ways."""
    rows = []
    for on, off in zip(*(cells_by_way[way] for way in WAYS), strict=True):
        if on.figure in WAITS:
            figures = f"{on.measured:.0f}", f"{on.simulated:.0f}", f"{off.simulated:.0f}"
            rows.append((seed, on.queue, on.figure, on.jobs, *figures, f"{on.error:+.2f}", f"{off.error:+.2f}"))
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Print waits by truth and queue, with workers on and off, and the mean errors of both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--policy", default="least_loaded", help="that places the jobs, of the truth and of the forecast"
    )
    parser.add_argument("--seeds", type=int, default=3, help="of the forecast")
    parser.add_argument("--truths", type=int, default=3, help="so many hidden truths")
    parser.add_argument("--first", type=int, default=1, help="seed of the first of them")
    parser.add_argument("--load", type=float, default=SIZE.load)
    options = parser.parse_args(arguments)
    size = dataclasses.replace(SIZE, load=options.load)
    all_cells: dict[str, list[Forecast]] = {way: [] for way in WAYS}
    for seed in range(options.first, options.first + options.truths):
        cells_by_way = both_ways(seed, options.policy, options.seeds, size)
        print_table(HEADS, rows_of_waits(seed, cells_by_way))
        for way in WAYS:
            all_cells[way] += cells_by_way[way]
    for figure in WAITS:
        errors = ", ".join(f"{way} {mean_error(all_cells[way], figure):.2f}" for way in WAYS)
        print(f"{figure}: mean abs(ln(simulated / measured)): {errors}")


if __name__ == "__main__":
    main()
