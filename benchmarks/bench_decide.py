"""How fast the production job brokerage decides: all rules, weights and reasons, on one core, without the database.

Besides tasks per second it shows the time of a (task, queue) cell compared, inside this run, with that of the case of
1,000 tasks x 500 pseudo-queues: it stays near 1 when the cost is linear in both.
"""

from __future__ import annotations

import os
from typing import Any

# one core: the threads of numerical libraries would make the figure depend on the machine
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

from benchmarks.measuring import best_of, loaded, read_cycle, report  # noqa: E402
from benchmarks.scenario import make_scenario  # noqa: E402
from broker.brokerages.production_job.rules import chain  # noqa: E402
from broker.engine.job.cycle import JobCycle  # noqa: E402
from broker.gdpconfig import Tuning  # noqa: E402

REFERENCE = (1000, 500)
OTHER_TASKS = (250, 500, 2000, 4000)
OTHER_QUEUES = (125, 250, 1000, 2000, 4000)
CASES = (REFERENCE, *((tasks, 500) for tasks in OTHER_TASKS), *((1000, queues) for queues in OTHER_QUEUES))
ROUNDS = 7


def measure(tasks: int, queues: int) -> dict[str, Any]:
    """Decide one scenario several times."""
    with loaded(make_scenario(tasks, queues, tasks, seed=1)) as database:
        snapshot, work = read_cycle(database)
    tuning, rules = Tuning.defaults(), chain()

    def decide() -> int:
        cycle = JobCycle(snapshot, work.work, tuning, rules, independent=True)
        return sum(1 for result in cycle.results() if not result.reason)

    seconds, brokered = best_of(ROUNDS, decide)
    chunks, candidates = len(work.work.chunks), len(snapshot.queues)
    return {
        "tasks": chunks,
        "pseudo_queues": candidates,
        "decide_s": seconds,
        "tasks_per_s": chunks / seconds,
        "ns_per_cell": seconds / (chunks * candidates) * 1e9,
        "brokered": brokered,
    }


def main() -> None:
    """Measure all cases and report."""
    rows = [measure(*case) for case in CASES]
    for row in rows:
        row["cell_against_reference"] = row["ns_per_cell"] / rows[0]["ns_per_cell"]
    report("decide", rows, target="tasks_per_s >= 10000 at 1000 x 500 on one core")


if __name__ == "__main__":
    main()
