"""Synthetic grids for the task brokerage: tasks that wait for a nucleus, and others that keep the nuclei busy."""

from __future__ import annotations

from typing import Any

from benchmarks.columns import Columns, ColumnScenario, from_rows
from benchmarks.scenario import HOURS_AGO, make_scenario
from benchmarks.scenario_work import FIRST_DATASET, FIRST_TASK

FILES_A_TASK = 12
OTHER_TASKS = 500
FIRST_OUTPUT = FIRST_DATASET + 50_000_000
Row = dict[str, Any]


def make_assigning_scenario(tasks: int, nuclei: int, pseudo_queues: int, seed: int) -> ColumnScenario:
    """Make a scenario with the given numbers of tasks in ``assigning``, nuclei and pseudo-queues.

    Raises:
        ValueError: there are fewer sites than nuclei.
    """
    all_tasks = tasks + OTHER_TASKS
    scenario = make_scenario(all_tasks, pseudo_queues, all_tasks * FILES_A_TASK, seed)
    tables: dict[str, Columns] = dict(scenario.tables)
    sites = tables["site"]["site_name"]
    if len(sites) < nuclei:
        raise ValueError(f"{pseudo_queues} pseudo-queues make {len(sites)} sites, too few for {nuclei} nuclei")
    roles = ["nucleus" if number < nuclei else "satellite" for number in range(len(sites))]
    tables["site"] = {**tables["site"], "role": roles}
    is_waiting = [number < tasks for number in range(all_tasks)]
    task_columns = tables["jedi_tasks"]
    tables["jedi_tasks"] = {
        **task_columns,
        "status": ["assigning" if flag else old for flag, old in zip(is_waiting, task_columns["status"], strict=True)],
        "nucleus": [None if flag else old for flag, old in zip(is_waiting, task_columns["nucleus"], strict=True)],
        "modificationtime": [HOURS_AGO] * all_tasks,
    }
    tables["jedi_datasets"] = _with_outputs(tables["jedi_datasets"], tasks)
    return ColumnScenario(scenario.now, tables)


def _with_outputs(datasets: Columns, tasks: int) -> Columns:
    rows: list[Row] = []
    for number in range(tasks):
        for order, kind in enumerate(("output", "log")):
            rows.append(
                {
                    "jeditaskid": FIRST_TASK + number,
                    "datasetid": FIRST_OUTPUT + 2 * number + order,
                    "datasetname": f"mc23.{FIRST_TASK + number}.{kind}",
                    "type": kind,
                    "status": "defined",
                    "storagetoken": "ATLASDATADISK",
                }
            )
    output_columns = from_rows(rows)
    return {name: [*values, *output_columns.get(name, [None] * len(rows))] for name, values in datasets.items()} | {
        "storagetoken": [*[None] * len(datasets["datasetid"]), *output_columns["storagetoken"]]
    }
