"""Simulated tasks and waiting jobs as rows of PanDA's tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from broker.domain.grid import COUNTED_STATUSES
from broker.domain.instants import naive
from broker.lifecycle.model.jobs import JEDI
from broker.simulation.model.information import GridView
from broker.simulation.model.job_states import TaskState
from broker.simulation.model.policies.base import WaitingJobs
from broker.simulation.model.real.chunk_work import (
    FILES_OF_A_TASK,
    FIRST_DATASET,
    SCOPE,
    dataset_name,
    ram_mb,
    task_row,
)
from broker.simulation.model.real.grid_rows import endpoint, instant
from broker.simulation.model.real.grid_tables import FIRST_COUNTED, Row, Tables
from broker.simulation.model.real.task_work import FIRST_OUTPUT, OUTPUT_TOKEN
from broker.simulation.model.real.user_figures import user_name
from broker.simulation.model.scenario import VO, Scenario

_RUNNING = COUNTED_STATUSES.index("running")
_LONG_AGO = "2026-08-01T00:00:00"


def task_tables(scenario: Scenario, states: Sequence[TaskState], status: str, most: int | None = None) -> Tables:
    """The tasks with their input and its places.

    Args:
        scenario: scenario of the simulation.
        states: states of the tasks.
        status: status of the rows; ``assigning`` for tasks that need a nucleus, which have a dataset for their output.
        most: maximum input files of each task, 0 for tasks that are only counted; None for all.
    """
    assigning = status == "assigning"
    datasets = [_input(state) for state in states] + [_output(state) for state in states if assigning]
    return {
        "jedi_tasks": [_task(scenario, state, status) for state in states],
        "jedi_datasets": datasets,
        "jedi_dataset_contents": [row for state in states for row in _files(state, most)],
        "dataset_replicas": [row for state in states for row in _replicas(scenario, state)] if most != 0 else [],
        "dataset_metadata": [_metadata(state) for state in states if state.task.sources] if most != 0 else [],
    }


def rebrokered_rows(scenario: Scenario, states: Iterable[TaskState]) -> list[Row]:
    """Rows of the brokerage's memory: the queues that jobs of the tasks were taken back from."""
    return [
        {"jeditaskid": state.task.number, "datasetid": FIRST_DATASET + state.task.number,
         "queue": scenario.queues[queue].name, "rebrokered_at": instant(time_s)}
        for state in states
        for queue, time_s in state.left.items()
    ]  # fmt: skip


def _task(scenario: Scenario, state: TaskState, status: str) -> Row:
    number = state.task.number
    row = {key: _whole(value) for key, value in task_row(scenario, state).items()}
    identity = {"jeditaskid": number, "taskname": f"simulated.{number}", "ramcount": _whole(ram_mb(state)),
             "tasktype": "anal" if state.kind.analysis else "prod", "parent_tid": number}  # fmt: skip
    nucleus = {"nucleus": None} if status == "assigning" else {}
    return {**row, **identity, **nucleus, "status": status, "creationdate": _LONG_AGO, "modificationtime": _LONG_AGO}


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) else value


def _input(state: TaskState) -> Row:
    jobs, arrived = state.task.jobs, _stored(state.task.arrival_s)
    return {
        "jeditaskid": state.task.number,
        "datasetid": FIRST_DATASET + state.task.number,
        "datasetname": dataset_name(state),
        "containername": dataset_name(state),
        "type": "input" if state.task.sources else "pseudo_input",
        "vo": VO,
        "status": "ready",
        "state": "closed",
        "nfiles": jobs,
        "nfilestobeused": jobs,
        "nfilesused": 0,
        "nfileswaiting": 0,
        "nevents": jobs * state.kind.events,
        "neventsused": (jobs - state.jobs_left) * state.kind.events,
        "creationtime": arrived,
        "modificationtime": arrived,
    }


def _output(state: TaskState) -> Row:
    number = state.task.number
    return {
        "jeditaskid": number,
        "datasetid": FIRST_OUTPUT + number,
        "datasetname": f"{SCOPE}.{number}.output",
        "type": "output",
        "vo": VO,
        "status": "defined",
        "storagetoken": OUTPUT_TOKEN,
    }


def _files(state: TaskState, most: int | None) -> list[Row]:
    number, kind = state.task.number, state.kind
    row = {
        "jeditaskid": number,
        "datasetid": FIRST_DATASET + number,
        "type": "input" if state.task.sources else "pseudo_input",
        "status": "ready",
        "fsize": int(kind.input_gb * 1e9),
        "scope": SCOPE,
        "nevents": kind.events,
        "ramcount": int(ram_mb(state)),
        "attemptnr": 0,
        "keeptrack": 1,
    }
    first = number * FILES_OF_A_TASK
    return [
        {**row, "fileid": first + index, "lfn": f"{SCOPE}.{first + index}"} for index in state.unassigned[::-1][:most]
    ]


def _replicas(scenario: Scenario, state: TaskState) -> list[Row]:
    files, size = state.task.jobs, state.task.jobs * int(state.kind.input_gb * 1e9)
    return [
        {"scope": SCOPE, "name": dataset_name(state).split(":")[1], "rse": endpoint(scenario.sites[site].name),
         "is_tape": False, "available_files": files, "total_files": files, "available_bytes": size,
         "total_bytes": size, "state": "AVAILABLE"}
        for site in state.task.sources
    ]  # fmt: skip


def _metadata(state: TaskState) -> Row:
    return {
        "scope": SCOPE,
        "name": dataset_name(state).split(":")[1],
        "did_type": "DATASET",
        "length": state.task.jobs,
        "is_open": False,
        "rule_groupings": ["DATASET"],
    }


def waiting_tables(scenario: Scenario, view: GridView, waiting: WaitingJobs) -> Tables:
    """The waiting jobs, numbered by position from 1 on; the running jobs; and the last activity of submissions."""
    submissions: dict[tuple[int, float], int] = {}
    active: list[Row] = []
    archived: dict[tuple[int, int, int], Row] = {}
    for place, state in enumerate(waiting.task):
        since_s, queue = waiting.since_s[place], waiting.queue[place]
        submission = submissions.setdefault((state.task.number, since_s), len(submissions) + 1)
        row = _job(scenario, state, queue, submission)
        changed = dict.fromkeys(("creationtime", "modificationtime", "statechangetime"), _stored(since_s))
        active.append({**row, **changed, "pandaid": place + 1, "jobstatus": "activated",
                       "currentpriority": int(waiting.priority[place])})  # fmt: skip
        moved_s = state.active_s.get(queue)
        if moved_s is not None:
            last = dict.fromkeys(("modificationtime", "statechangetime"), _stored(moved_s))
            archived[state.task.number, queue, submission] = {**row, **last, "jobstatus": "finished"}
    states = {state.task.number: state for state in waiting.task}
    running = list(_running(scenario, view))
    counted = [*running, *archived.values()]
    for number, row in enumerate(counted):
        row["pandaid"] = FIRST_COUNTED + number
    tables = task_tables(scenario, list(states.values()), "running", 0)
    return {**tables, "jobsactive4": [*active, *running], "jobsarchived4": list(archived.values())}


def _job(scenario: Scenario, state: TaskState, queue: int, submission: int) -> Row:
    task, analysis = state.task, state.kind.analysis
    return {
        "jeditaskid": task.number,
        "jobdefinitionid": submission,
        "jobsetid": submission,
        "computingsite": scenario.queues[queue].name,
        "gshare": scenario.shares[task.share][0],
        "prodsourcelabel": "user" if analysis else "managed",
        "produsername": user_name(task.user) if analysis else "production",
        "processingtype": state.kind.processingtype,
        "lockedby": JEDI,
        "relocationflag": 0,
        "eventservice": 0,
        "workqueue_id": 1,
        "vo": VO,
    }


def _running(scenario: Scenario, view: GridView) -> Iterable[Row]:
    now = _stored(view.now_s)
    for queue, share in np.argwhere(view.counts[:, :, _RUNNING] > 0).tolist():
        row = {
            "computingsite": scenario.queues[queue].name, "gshare": scenario.shares[share][0], "workqueue_id": 1,
            "jobstatus": "running", "modificationtime": now, "creationtime": now, "statechangetime": now, "vo": VO,
        }  # fmt: skip
        yield from (dict(row) for _ in range(int(view.counts[queue, share, _RUNNING])))


def _stored(time_s: float) -> str:
    return naive(instant(time_s)).isoformat()
