"""How fast the production job brokerage decides: what a cycle does between reading and writing, on one core.

The report shows each stage, and the time of ten rules in plain Python over the same pairs in this run as a multiple of
the whole. It also compares the time per (task, queue) cell with the case of 1,000 tasks x 500 pseudo-queues: the ratio
stays near 1 if the cost is linear in both.
"""

from __future__ import annotations

import os
from typing import Any

# use one core: threads of numerical libraries would make the figures depend on the machine
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

from benchmarks.measuring import asked_folder, loaded, read_cycle, report  # noqa: E402
from benchmarks.scenario import make_scenario  # noqa: E402
from benchmarks.stages import measure_stages  # noqa: E402
from broker.brokerages.production_job.brokerage import chain  # noqa: E402
from broker.engine.job.cycle import JobCycle  # noqa: E402
from broker.gdpconfig import Tuning  # noqa: E402

REFERENCE = (1000, 500)
OTHER_TASKS = (250, 500, 2000, 4000)
OTHER_QUEUES = (125, 250, 1000, 2000, 4000)
CASES = (REFERENCE, *((tasks, 500) for tasks in OTHER_TASKS), *((1000, queues) for queues in OTHER_QUEUES))
ROUNDS = 5
JOBS_OF_A_TASK = 50


def measure(tasks: int, queues: int) -> dict[str, Any]:
    """Decide one scenario with 50 jobs per task several times."""
    with loaded(make_scenario(tasks, queues, JOBS_OF_A_TASK * tasks, seed=1)) as database:
        snapshot, work = read_cycle(database)
    tuning, rules = Tuning.defaults(), chain()
    return measure_stages(lambda alone: JobCycle(snapshot, work.work, tuning, rules, independent=alone), work, ROUNDS)


def main() -> None:
    """Measure all cases and report."""
    folder = asked_folder()
    rows = [measure(*case) for case in CASES]
    for row in rows:
        row["cell_against_reference"] = row["ns_per_cell"] / rows[0]["ns_per_cell"]
    report(folder, "decide", rows, seconds="CPU time of all threads", reference="benchmarks/plain_rules.py")


if __name__ == "__main__":
    main()
