"""A grid of analysis queues, tasks and analysis jobs, and what cycles of the analysis brokerage decide on it.

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
    """A task of a user for one core, without a nucleus."""
    own = {"prodsourcelabel": "user", "username": "alice", "tasktype": "anal", "nucleus": None, "gshare": SHARE}
    return task(**(own | {"corecount": 1, "resource_type": "SCORE", "processingtype": "panda-client"} | columns))


def user_jobs(where: str, first: int, user: str = "alice", share: str = SHARE, **counts: int) -> list[dict[str, Any]]:
    """So many jobs of a user of each status at a queue."""
    statuses = [status for status, count in counts.items() for _ in range(count)]
    return [
        {
            "pandaid": first + at,
            "jobdefinitionid": 1,
            "jobstatus": status,
            "computingsite": where,
            "gshare": share,
            "vo": "atlas",
            "prodsourcelabel": "user",
            "produsername": user,
            "corecount": 1,
            "resource_type": "SCORE",
        }
        for at, status in enumerate(statuses)
    ]


def analysis(files: int = 4, here: tuple[str, ...] = ("ALPHA", "BETA", "GAMMA"), **tables: Any) -> Any:
    """A grid of four open analysis queues and one closed one, and a task whose input is at the sites ``here``."""
    one_core = {"corecount": 1, "capability": "score", "type": "analysis"}
    own = {
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
        "dataset_replicas": [replica(site, files, files) for site in here],
        "dataset_metadata": [{"scope": "mc", "name": "mc.input", "rule_groupings": ["ALL"]}],
    }
    return scenario(**(own | tables))


def chosen(decision: dict[str, Any]) -> dict[str, float]:
    return {one["name"]: one["weight"] for one in decision["candidates"]}


def finished(where: str, first: int, status: str, count: int, **columns: Any) -> list[dict[str, Any]]:
    """Jobs of the task that ended an hour ago."""
    ended = {"jeditaskid": TASK, "modificationtime": "2026-08-01T11:00:00", "jobstatus": status, **columns}
    return [row | ended for row in user_jobs(where, first, finished=count)]


def config_row(key: str, value: object, kind: str = "integer", component: str = "anal_jobbroker") -> dict[str, Any]:
    """A row of the CONFIG table."""
    app = "pandaserver" if component == "prio_mgr" else "jedi"
    return {"app": app, "component": component, "key": key, "value": str(value), "type": kind, "vo": "atlas"}


def several(*tasks: dict[str, Any], files: int = 4, **tables: Any) -> Any:
    """The grid with as many tasks, TASK and up, each with a dataset of its own that has the same replicas.

    What a task has under ``taskparams`` goes to its parameters.
    """
    rows: dict[str, list[dict[str, Any]]] = {
        "jedi_tasks": [], "jedi_datasets": [], "jedi_dataset_contents": [], "jedi_taskparams": []
    }  # fmt: skip
    for number, columns in enumerate(tasks):
        own = dict(columns)
        ids = {"jeditaskid": TASK + number, "datasetid": DATASET + number}
        parameters = own.pop("taskparams", None)
        rows["jedi_tasks"].append(user_task(**{"jeditaskid": TASK + number} | own))
        rows["jedi_datasets"].append(dataset(files, **ids))
        rows["jedi_dataset_contents"] += [
            row | ids | {"fileid": row["fileid"] + 1000 * number} for row in input_files(files, 2 * 1024**3)
        ]
        if parameters is not None:
            rows["jedi_taskparams"].append({"jeditaskid": TASK + number, "taskparams": json.dumps(parameters)})
    return analysis(files, **(rows | tables))


def decisions(database: Database, loaded: Any, **request: Any) -> list[dict[str, Any]]:
    """What one cycle decided, by task."""
    record, told = one_cycle(database, loaded, agent="analysis_job", **request)
    assert record.outcome == "done", record.error
    assert not [note for note in record.notes if note.startswith("rule ")], record.notes
    return sorted(told, key=lambda decision: int(decision["jeditaskid"]))


def decided(database: Database, loaded: Any, **request: Any) -> dict[str, Any]:
    """What one cycle decided on the only task."""
    (decision,) = decisions(database, loaded, **request)
    return decision
