"""How fast the production task brokerage decides: rules, the question to the job brokerage, weights, draws and reasons.

One core, without the database. Besides seconds it shows the time of a (task, nucleus) cell compared, inside this run,
with that of the case of 1,000 tasks x 60 nuclei x 500 pseudo-queues: it stays near 1 or below when the cost is linear.
"""

from __future__ import annotations

import os
from typing import Any

# one core: the threads of numerical libraries would make the figure depend on the machine
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

from agents.brokerage.grid_reading import GridReader  # noqa: E402
from benchmarks.measuring import NOW, best_of, loaded, report  # noqa: E402
from benchmarks.scenario_assigning import make_assigning_scenario  # noqa: E402
from broker import resources  # noqa: E402
from broker.brokerages.production_job import rules as production_job  # noqa: E402
from broker.brokerages.production_task import rules as production_task  # noqa: E402
from broker.brokerages.production_task.assign import AssignedTask, assign_tasks  # noqa: E402
from broker.domain.task_work import TaskWork  # noqa: E402
from broker.gdpconfig import Tuning  # noqa: E402
from broker.snapshot.snapshot import Snapshot  # noqa: E402
from broker.store.connection.database import Database  # noqa: E402
from broker.store.connection.tables import TableCatalogue  # noqa: E402
from broker.store.reads.task_loading import load_task_work  # noqa: E402
from broker.store.reads.task_reads import TaskSelection  # noqa: E402

REFERENCE = (1000, 60, 500)
CASES = (REFERENCE, (250, 60, 500), (4000, 60, 500), (1000, 30, 500), (1000, 60, 1000))
ROUNDS = 5


def read(database: Database) -> tuple[Snapshot, TaskWork]:
    """The snapshot and the tasks of a cycle."""
    with database.read_snapshot() as connection:
        catalogue = TableCatalogue.read(connection, database.names)
        reader = GridReader("live", resources.path("config/sources.yaml"))
        grid = reader.read(connection, catalogue, NOW, lambda: None)
        return grid.snapshot, load_task_work(connection, catalogue, TaskSelection("atlas", NOW))


def measure(tasks: int, nuclei: int, queues: int) -> dict[str, Any]:
    """Decide one scenario several times."""
    with loaded(make_assigning_scenario(tasks, nuclei, queues, seed=1)) as database:
        snapshot, work = read(database)
    tuning, rules, jobs = Tuning.defaults(), production_task.chain(), production_job.chain()

    def decide() -> list[AssignedTask]:
        return list(assign_tasks(production_task.task_cycle(snapshot, work, tuning, rules, jobs), seed=1))

    seconds, placed = best_of(ROUNDS, decide)
    return {
        "tasks": len(work.tasks),
        "nuclei": int(snapshot.nuclei.is_nucleus.sum()),
        "pseudo_queues": len(snapshot.queues),
        "decide_s": seconds,
        "tasks_per_s": len(work.tasks) / seconds,
        "ns_per_cell": seconds / (len(work.tasks) * nuclei) * 1e9,
        "brokered": sum(task.nucleus is not None for task in placed),
        "candidates_a_task": sum(len(task.decision.candidates) for task in placed) / len(placed),
    }


def main() -> None:
    """Measure all cases and report."""
    rows = [measure(*case) for case in CASES]
    for row in rows:
        row["cell_against_reference"] = row["ns_per_cell"] / rows[0]["ns_per_cell"]
    report("task_decide", rows, target="decide_s < 1 at 1000 x 60 x 500 on one core")


if __name__ == "__main__":
    main()
