"""A grid of analysis queues, with user tasks and jobs, and cycles of the analysis brokerage on it.

ALPHA_MCORE, GAMMA_MCORE, GAMMA_TEST: analysis queues of one core; BETA: unified; GAMMA_OFF: an analysis queue, offline.
"""

from __future__ import annotations

import json
from typing import Any

from broker.store.connection.database import Database
from tests.brokerages.small_grid import DATASET, TASK, dataset, input_files, one_cycle, queue, replica, scenario, task

SHARE = "User Analysis"
ALL = {"ALPHA_MCORE", "BETA/SCORE", "GAMMA_MCORE", "GAMMA_TEST"}


def user_task(**columns: Any) -> dict[str, Any]:
    """Make a single-core user task without a nucleus."""
    defaults = {"prodsourcelabel": "user", "username": "alice", "tasktype": "anal", "nucleus": None, "gshare": SHARE}
    return task(**(defaults | {"corecount": 1, "resource_type": "SCORE", "processingtype": "panda-client"} | columns))


def user_jobs(
    queue_name: str, first: int, user: str = "alice", share: str = SHARE, **counts: int
) -> list[dict[str, Any]]:
    """Make the given numbers of a user's jobs at a queue, by status."""
    statuses = [status for status, count in counts.items() for _ in range(count)]
    return [
        {
            "pandaid": first + number,
            "jobdefinitionid": 1,
            "jobstatus": status,
            "computingsite": queue_name,
            "gshare": share,
            "vo": "atlas",
            "prodsourcelabel": "user",
            "produsername": user,
            "corecount": 1,
            "resource_type": "SCORE",
        }
        for number, status in enumerate(statuses)
    ]


def analysis(files: int = 4, sites: tuple[str, ...] = ("ALPHA", "BETA", "GAMMA"), **tables: Any) -> Any:
    """Make a grid of four open analysis queues and a closed one, and a task whose input is at ``sites``."""
    one_core = {"corecount": 1, "capability": "score", "type": "analysis"}
    defaults = {
        "schedconfig_json": [
            queue("ALPHA_MCORE", **one_core),
            queue("BETA", type="unified", capability="ucore"),
            queue("GAMMA_MCORE", **one_core),
            queue("GAMMA_OFF", status="offline", **one_core),
            queue("GAMMA_TEST", **one_core),
        ],
        "jedi_tasks": [user_task()],
        "jedi_datasets": [dataset(files)],
        "jedi_dataset_contents": input_files(files, 2 * 1024**3),
        "dataset_replicas": [replica(site, files, files) for site in sites],
        "dataset_metadata": [{"scope": "mc", "name": "mc.input", "rule_groupings": ["ALL"]}],
    }
    return scenario(**(defaults | tables))


def weights_of(decision: dict[str, Any]) -> dict[str, float]:
    return {candidate["name"]: candidate["weight"] for candidate in decision["candidates"]}


def ended_jobs(queue_name: str, first: int, status: str, count: int, **columns: Any) -> list[dict[str, Any]]:
    """Make jobs of the task that ended an hour ago."""
    changes = {"jeditaskid": TASK, "modificationtime": "2026-08-01T11:00:00", "jobstatus": status, **columns}
    return [row | changes for row in user_jobs(queue_name, first, finished=count)]


def config_row(key: str, value: object, kind: str = "integer", component: str = "anal_jobbroker") -> dict[str, Any]:
    """Make a row of the CONFIG table."""
    app = "pandaserver" if component == "prio_mgr" else "jedi"
    return {"app": app, "component": component, "key": key, "value": str(value), "type": kind, "vo": "atlas"}


def analysis_tasks(*tasks: dict[str, Any], files: int = 4, **tables: Any) -> Any:
    """Make the grid with several tasks, numbered from TASK, each with its own dataset but the same replicas.

    The value of ``taskparams`` becomes the parameters of the task.
    """
    rows: dict[str, list[dict[str, Any]]] = {
        "jedi_tasks": [], "jedi_datasets": [], "jedi_dataset_contents": [], "jedi_taskparams": []
    }  # fmt: skip
    for number, columns in enumerate(tasks):
        task_columns = dict(columns)
        ids = {"jeditaskid": TASK + number, "datasetid": DATASET + number}
        parameters = task_columns.pop("taskparams", None)
        rows["jedi_tasks"].append(user_task(**{"jeditaskid": TASK + number} | task_columns))
        rows["jedi_datasets"].append(dataset(files, **ids))
        rows["jedi_dataset_contents"] += [
            row | ids | {"fileid": row["fileid"] + 1000 * number} for row in input_files(files, 2 * 1024**3)
        ]
        if parameters is not None:
            rows["jedi_taskparams"].append({"jeditaskid": TASK + number, "taskparams": json.dumps(parameters)})
    return analysis(files, **(rows | tables))


def decide_all(database: Database, grid: Any, **request: Any) -> list[dict[str, Any]]:
    """Run one cycle and return its decisions, ordered by task."""
    record, decisions = one_cycle(database, grid, agent="analysis_job", **request)
    assert record.outcome == "done", record.error
    assert not [note for note in record.notes if note.startswith("rule ")], record.notes
    return sorted(decisions, key=lambda decision: int(decision["jeditaskid"]))


def decide_one(database: Database, grid: Any, **request: Any) -> dict[str, Any]:
    """Run one cycle and return its decision on the only task."""
    (decision,) = decide_all(database, grid, **request)
    return decision
