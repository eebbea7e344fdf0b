"""How fast the simulation is: the event core against SimPy, a cycle of the broker in the loop, and ``flow``.

The figures are CPU seconds of one process. SimPy is compared only if it is installed; the project does not need it.
"""

from __future__ import annotations

import argparse
import os
import resource
from time import process_time
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

from benchmarks.measuring import folder_argument, report  # noqa: E402
from broker.simulation.model.events import EventQueue  # noqa: E402
from broker.simulation.model.generated_grid import GridParameters, generate  # noqa: E402
from broker.simulation.model.loop import ClosedLoop  # noqa: E402
from broker.simulation.model.policies.base import find_policy  # noqa: E402

EVENTS = 200_000
ENTITIES = 1000


def own_events() -> float:
    """Return events per second of our event core, with entities that schedule themselves again."""
    events = EventQueue()
    rounds = EVENTS // ENTITIES

    def wait_again(left: int, gap_s: float) -> None:
        if left:
            events.after(gap_s, wait_again, left - 1, gap_s)

    for number in range(ENTITIES):
        events.at(0.0, wait_again, rounds, 1.0 + number / ENTITIES)
    start_s = process_time()
    events.run(1e9)
    return events.events / (process_time() - start_s)


def simpy_events() -> float | None:
    """Return events per second of the same in SimPy, or None if it is not installed."""
    try:
        import simpy
    except ImportError:
        return None
    environment = simpy.Environment()

    def entity(gap_s: float) -> Any:
        for _ in range(EVENTS // ENTITIES):
            yield environment.timeout(gap_s)

    for number in range(ENTITIES):
        environment.process(entity(1.0 + number / ENTITIES))
    start_s = process_time()
    environment.run()
    return EVENTS / (process_time() - start_s)


def grid(policy: str, parameters: GridParameters) -> dict[str, Any]:
    """Run one simulation, decisions included."""
    scenario = generate(parameters, 1)
    run = ClosedLoop(scenario, find_policy(policy), 1).run()
    jobs = sum(task.jobs for task in scenario.tasks)
    return {
        "policy": policy,
        "queues": parameters.queues,
        "jobs": jobs,
        "days": parameters.days,
        "cpu_s": run.total_s,
        "decide_s": run.decide_s,
        "jobs_per_s": jobs / run.total_s,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def main() -> None:
    """Measure and report; ``--full`` simulates a grid of 200 queues, 100,000 cores and 500,000 jobs."""
    parser = argparse.ArgumentParser(description=__doc__)
    folder_argument(parser)
    parser.add_argument("--full", action="store_true", help="200 queues, 100,000 cores and 500,000 jobs")
    options = parser.parse_args()
    own_rate, simpy_rate = own_events(), simpy_events()
    print(f"events a second: {own_rate:,.0f}; SimPy: {'not installed' if simpy_rate is None else f'{simpy_rate:,.0f}'}")
    if options.full:
        rows = [grid("seed", GridParameters(days=3.0, queues=200, cores=100_000, jobs=500_000))]
    else:
        small = GridParameters(days=0.5, queues=20, cores=4000, warm_up_s=3600.0)
        rows = [grid(policy, small) for policy in ("random", "least_loaded", "seed", "flow")]
    report(
        options.folder,
        "simulation",
        rows,
        target="500,000 jobs, 200 queues, 3 days with seed in 300 s on one core, below 2 GB",
    )


if __name__ == "__main__":
    main()
