"""How fast the production task brokerage decides: rules, the query to the job brokerage, weights, draws and reasons.

The figures are CPU times of each stage on one core, without the database. The report gives the time of ten rules in
plain Python over tasks and queues as a multiple of the whole, and compares the time per (task, nucleus) cell with that
of the case of 1,000 tasks x 60 nuclei x 500 pseudo-queues: the ratio stays near 1 or below if the cost is linear.
Columns with ``compiled`` are of the same cycles with the compiled loop, which does part of the stage ``decide``.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from time import process_time
from typing import Any

# use one core: threads of numerical libraries would make the figures depend on the machine
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

from agents.brokerage.grid_reading import GridReader  # noqa: E402
from benchmarks.measuring import NOW, asked_folder, loaded, report  # noqa: E402
from benchmarks.plain_rules import reference_s_per_pair  # noqa: E402
from benchmarks.scenario_assigning import make_assigning_scenario  # noqa: E402
from broker import resources  # noqa: E402
from broker.brokerages.base import Rules  # noqa: E402
from broker.brokerages.production_job import brokerage as production_job  # noqa: E402
from broker.brokerages.production_task import brokerage as production_task  # noqa: E402
from broker.brokerages.production_task.assign import AssignedTask, assign_tasks  # noqa: E402
from broker.brokerages.production_task.brokerage import TasksCycle, engine_cycle  # noqa: E402
from broker.domain.decisions import DecisionRecord  # noqa: E402
from broker.domain.task_work import TaskWork  # noqa: E402
from broker.engine.compiled import loading  # noqa: E402
from broker.gdpconfig import Tuning  # noqa: E402
from broker.snapshot.snapshot import Snapshot  # noqa: E402
from broker.store.connection.database import Database  # noqa: E402
from broker.store.connection.tables import TableCatalogue  # noqa: E402
from broker.store.decisions.decision_writing import packed  # noqa: E402
from broker.store.reads.task_loading import load_task_work  # noqa: E402
from broker.store.reads.task_reads import TaskSelection  # noqa: E402

REFERENCE = (1000, 60, 500)
CASES = (REFERENCE, (250, 60, 500), (4000, 60, 500), (1000, 30, 500), (1000, 60, 1000))
ROUNDS = 5


def read(database: Database) -> tuple[Snapshot, TaskWork]:
    """Read the snapshot and the tasks of a cycle."""
    with database.read_snapshot() as connection:
        catalogue = TableCatalogue.read(connection, database.names)
        reader = GridReader("live", resources.path("config/sources.yaml"))
        grid = reader.read(connection, catalogue, NOW, lambda: None)
        return grid.snapshot, load_task_work(connection, catalogue, TaskSelection("atlas", NOW))


def one_task_cycle(snapshot: Snapshot, work: TaskWork) -> tuple[float, float, float, list[AssignedTask]]:
    """Return the CPU seconds of the constructor, of deciding and of packing, and the tasks with their nuclei."""
    rules = Rules(production_task.chain(), {"production_job": production_job.chain()})
    start_s = process_time()
    cycle = engine_cycle(snapshot, work, Tuning.defaults(), rules)
    constructed_s = process_time()
    assigned = list(assign_tasks(cycle, seed=1))
    # a decision is made from the columns of its block on first access
    decisions = [item.decision for item in assigned]
    decided_s = process_time()
    packed([DecisionRecord(item, {}, None) for item in decisions])
    return constructed_s - start_s, decided_s - constructed_s, process_time() - decided_s, assigned


def keep_work_s(snapshot: Snapshot, work: TaskWork) -> float:
    """Return the CPU seconds of encoding the work of each task for later replays."""
    rules = Rules(production_task.chain(), {"production_job": production_job.chain()})
    cycle = TasksCycle(engine_cycle(snapshot, work, Tuning.defaults(), rules))
    assigned = list(cycle.assign(seed=1))
    start_s = process_time()
    for task in assigned:
        cycle.encode(task)
    return process_time() - start_s


def measure(tasks: int, nuclei: int, queues: int) -> dict[str, Any]:
    """Decide one scenario several times."""
    with loaded(make_assigning_scenario(tasks, nuclei, queues, seed=1)) as database:
        snapshot, work = read(database)
    loading.mode = "never"
    plain_cycles = (one_task_cycle(snapshot, work) for _ in range(ROUNDS))
    constructor_s, decide_s, pack_s, assigned = min(plain_cycles, key=lambda stages: sum(stages[:3]))
    compiled_times: tuple[float | None, ...] = (None, None, None)
    if find_spec("numba") is not None:
        loading.mode = "always"
        # the first round loads or compiles the loop
        compiled_times = min(
            (one_task_cycle(snapshot, work) for _ in range(ROUNDS + 1)), key=lambda stages: sum(stages[:3])
        )[:3]
    pairs, total_s = len(work.tasks) * nuclei, constructor_s + decide_s + pack_s
    # for each nucleus the task brokerage queries what the job brokerage would do with the task
    question_count = len(work.tasks) * len(snapshot.queues)
    reference_s = question_count * reference_s_per_pair(work.hint.chunks, snapshot.queues)
    return {
        "tasks": len(work.tasks),
        "nuclei": int(snapshot.nuclei.is_nucleus.sum()),
        "pseudo_queues": len(snapshot.queues),
        "constructor_s": constructor_s,
        "decide_s": decide_s,
        "pack_s": pack_s,
        "keep_work_s": keep_work_s(snapshot, work),
        "total_s": total_s,
        **dict(zip(("compiled_constructor_s", "compiled_decide_s", "compiled_pack_s"), compiled_times, strict=True)),
        "tasks_per_s": len(work.tasks) / total_s,
        "ns_per_cell": total_s / pairs * 1e9,
        "times_reference": reference_s / total_s,
        "brokered": sum(task.nucleus is not None for task in assigned),
        "candidates_a_task": sum(len(task.decision.candidates) for task in assigned) / len(assigned),
    }


def main() -> None:
    """Measure all cases and report."""
    folder = asked_folder()
    rows = [measure(*case) for case in CASES]
    for row in rows:
        row["cell_against_reference"] = row["ns_per_cell"] / rows[0]["ns_per_cell"]
    report(folder, "task_decide", rows, seconds="CPU time of all threads", reference="benchmarks/plain_rules.py")


if __name__ == "__main__":
    main()
