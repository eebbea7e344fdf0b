"""Cycles of every brokerage, stored, to be decided again."""

from __future__ import annotations

from typing import Any

from broker.store.connection.database import Database
from tests.brokerages.small_grid import TASK, dataset, input_files, jobs as jobs_at, one_cycle, replica, scenario, task
from tests.brokerages.task_grid import broker_tasks, outputs, pseudo_input, task_scenario, waiting
from tests.brokerages.test_analysis_scenarios import analysis

SEED = 5
ALPHA, BETA, GAMMA = "ALPHA_MCORE", "BETA/MCORE", "GAMMA_MCORE"


def input_of(task_id: int, files: int) -> tuple[Any, list[Any]]:
    own = {"jeditaskid": task_id, "datasetid": task_id + 1000}
    rows = [{**row, **own, "fileid": task_id * 100 + at} for at, row in enumerate(input_files(files, 2 * 1024**3))]
    return dataset(files, **own), rows


def store_jobs(database: Database, **tables: list[dict[str, Any]]) -> None:
    """Two tasks of one share, of which the first takes room from the second, and one without any queue.

    Args:
        database: with the schema.
        tables: further ones that the grid has.
    """
    inputs = [input_of(TASK + number, 150) for number in range(3)]
    loaded = scenario(
        jedi_tasks=[task(), task(jeditaskid=TASK + 1), task(jeditaskid=TASK + 2, ramcount=90_000, gshare="Other")],
        jedi_datasets=[master for master, _ in inputs],
        jedi_dataset_contents=[row for _, rows in inputs for row in rows],
        dataset_replicas=[replica("ALPHA", 150, 150), replica("BETA", 150, 150)],
        jobsactive4=[*jobs_at("ALPHA_MCORE", 1, running=49), *jobs_at("BETA", 100, running=30)],
        **tables,
    )
    assert one_cycle(database, loaded, seed=SEED)[0].outcome == "done"


def flow_scenario() -> Any:
    """Two tasks that read their input at two sites, one whose input is anywhere, and one that fits no queue."""
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
    """Two tasks of one share, of which the second finds the work of the first."""
    broker_tasks(
        database,
        task_scenario(
            jedi_tasks=[waiting(), waiting(jeditaskid=TASK + 1, currentpriority=400)],
            jedi_datasets=[
                *(pseudo_input(jeditaskid=TASK + at, datasetid=8000 + at * 10) for at in range(2)),
                *(row for at in range(2) for row in outputs(TASK + at, 8100 + at * 10)),
            ],
            jedi_dataset_contents=[
                {**row, "jeditaskid": TASK + at, "datasetid": 8000 + at * 10, "fileid": at * 50 + number}
                for at in range(2)
                for number, row in enumerate(input_files(5, 0, type="pseudo_input", fsize=None))
            ],
        ),
        seed=SEED,
    )


def store_analyses(database: Database) -> None:
    """A task of a user."""
    loaded = analysis()
    assert one_cycle(database, loaded, seed=SEED, agent="analysis_job")[0].outcome == "done"


STORED = {"production_job": store_jobs, "production_task": store_tasks, "analysis_job": store_analyses}
"""What stores a cycle, by brokerage."""
