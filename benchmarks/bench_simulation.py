"""How fast the simulation is: the event core against SimPy, a cycle of the broker in the loop, and ``flow``.

CPU seconds of one process. SimPy is compared where it is installed; the project does not need it.
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
    """Events a second of our core: entities that wait for themselves."""
    events = EventQueue()
    rounds = EVENTS // ENTITIES

    def again(left: int, gap_s: float) -> None:
        if left:
            events.after(gap_s, again, left - 1, gap_s)

    for number in range(ENTITIES):
        events.at(0.0, again, rounds, 1.0 + number / ENTITIES)
    started = process_time()
    events.run(1e9)
    return events.events / (process_time() - started)


def simpy_events() -> float | None:
    """Events a second of the same in SimPy, None where it is not installed."""
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
    started = process_time()
    environment.run()
    return EVENTS / (process_time() - started)


def grid(policy: str, parameters: GridParameters) -> dict[str, Any]:
    """One simulation, decisions included."""
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
    """Measure; with ``--full`` the grid of 200 queues, 100,000 cores and 500,000 jobs."""
    parser = argparse.ArgumentParser(description=__doc__)
    folder_argument(parser)
    parser.add_argument("--full", action="store_true", help="200 queues, 100,000 cores and 500,000 jobs")
    asked = parser.parse_args()
    ours, other = own_events(), simpy_events()
    print(f"events a second: {ours:,.0f}; SimPy: {'not installed' if other is None else f'{other:,.0f}'}")
    if asked.full:
        rows = [grid("seed", GridParameters(days=3.0, queues=200, cores=100_000, jobs=500_000))]
    else:
        small = GridParameters(days=0.5, queues=20, cores=4000, warm_up_s=3600.0)
        rows = [grid(policy, small) for policy in ("random", "least_loaded", "seed", "flow")]
    report(
        asked.folder,
        "simulation",
        rows,
        target="500,000 jobs, 200 queues, 3 days with seed in 300 s on one core, below 2 GB",
    )


if __name__ == "__main__":
    main()
