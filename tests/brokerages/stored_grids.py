"""Stored cycles of every brokerage, for tests that decide them again."""

from __future__ import annotations

from typing import Any

from broker.store.connection.database import Database
from tests.brokerages.small_grid import TASK, dataset, input_files, jobs as jobs_at, one_cycle, replica, scenario, task
from tests.brokerages.task_grid import broker_tasks, outputs, pseudo_input, task_scenario, waiting
from tests.brokerages.test_analysis_scenarios import analysis

SEED = 5
ALPHA, BETA, GAMMA = "ALPHA_MCORE", "BETA/MCORE", "GAMMA_MCORE"


def input_of(task_id: int, files: int) -> tuple[Any, list[Any]]:
    ids = {"jeditaskid": task_id, "datasetid": task_id + 1000}
    rows = [
        {**row, **ids, "fileid": task_id * 100 + number} for number, row in enumerate(input_files(files, 2 * 1024**3))
    ]
    return dataset(files, **ids), rows


def store_jobs(database: Database, **tables: list[dict[str, Any]]) -> None:
    """Store a cycle of two tasks of one share, the first of which takes room from the second, and one without a queue.

    Args:
        database: with the schema.
        tables: additional tables of the grid.
    """
    inputs = [input_of(TASK + number, 150) for number in range(3)]
    grid = scenario(
        jedi_tasks=[task(), task(jeditaskid=TASK + 1), task(jeditaskid=TASK + 2, ramcount=90_000, gshare="Other")],
        jedi_datasets=[master for master, _ in inputs],
        jedi_dataset_contents=[row for _, rows in inputs for row in rows],
        dataset_replicas=[replica("ALPHA", 150, 150), replica("BETA", 150, 150)],
        jobsactive4=[*jobs_at("ALPHA_MCORE", 1, running=49), *jobs_at("BETA", 100, running=30)],
        **tables,
    )
    assert one_cycle(database, grid, seed=SEED)[0].outcome == "done"


def flow_scenario() -> Any:
    """Make four tasks with input at two sites: two of one share, two of another, the last of which fits no queue."""
    inputs = [input_of(TASK + number, 60) for number in range(4)]
    return scenario(
        jedi_tasks=[
            task(currentpriority=600),
            task(jeditaskid=TASK + 1, cputime=40_000),
            task(jeditaskid=TASK + 2, gshare="Other"),
            task(jeditaskid=TASK + 3, ramcount=90_000, gshare="Other"),
        ],
        jedi_datasets=[master for master, _ in inputs],
        jedi_dataset_contents=[row for _, rows in inputs for row in rows],
        dataset_replicas=[replica("ALPHA", 150, 150), replica("BETA", 150, 150)],
        jobsactive4=[
            *jobs_at(ALPHA, 1, running=20, activated=5),
            *jobs_at("BETA", 100, running=30, activated=20),
            *jobs_at(GAMMA, 200, running=10, activated=2),
            *jobs_at(GAMMA, 300, "Other", running=3),
        ],
        global_shares=[
            {"name": "MC Simulation", "value": 40, "parent": None, "vo": "atlas"},
            {"name": "Other", "value": 60, "parent": None, "vo": "atlas"},
        ],
    )


def store_tasks(database: Database) -> None:
    """Store a cycle of two tasks of one share, the second of which sees the work of the first."""
    broker_tasks(
        database,
        task_scenario(
            jedi_tasks=[waiting(), waiting(jeditaskid=TASK + 1, currentpriority=400)],
            jedi_datasets=[
                *(pseudo_input(jeditaskid=TASK + number, datasetid=8000 + number * 10) for number in range(2)),
                *(row for number in range(2) for row in outputs(TASK + number, 8100 + number * 10)),
            ],
            jedi_dataset_contents=[
                {**row, "jeditaskid": TASK + number, "datasetid": 8000 + number * 10, "fileid": number * 50 + place}
                for number in range(2)
                for place, row in enumerate(input_files(5, 0, type="pseudo_input", fsize=None))
            ],
        ),
        seed=SEED,
    )


def store_analyses(database: Database) -> None:
    """Store a cycle of one user task."""
    grid = analysis()
    assert one_cycle(database, grid, seed=SEED, agent="analysis_job")[0].outcome == "done"


STORED = {"production_job": store_jobs, "production_task": store_tasks, "analysis_job": store_analyses}
"""What stores a cycle, by brokerage."""
