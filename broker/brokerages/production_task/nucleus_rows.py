"""The nuclei of a cycle, ready to be written: with the endpoint and storage token of every output and log dataset.

Source: PanDA production brokerage, write-back.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from broker.brokerages.production_task.assign import AssignedTask
from broker.domain.task_placements import NucleusAssignment, OutputPlace, TaskPlacement, WaitingTask
from broker.engine.task.cycle import TaskCycle
from broker.rules.production_task.storage_tokens import placed_token


def nucleus_rows(placed: Sequence[AssignedTask], cycle: TaskCycle) -> TaskPlacement:
    """Everything that the tasks in ``placed`` want to have written."""
    tasks = cycle.work.tasks
    assigned, waiting = [], []
    for task in placed:
        jeditaskid = int(tasks.jeditaskid[task.row])
        seen = tasks.nucleus[task.row]
        if task.nucleus is None:
            waiting.append(WaitingTask(jeditaskid, seen, task.decision.reason))
            continue
        name = str(cycle.snapshot.nuclei.name[task.nucleus])
        assigned.append(NucleusAssignment(jeditaskid, seen, name, _places(cycle, task.row, task.nucleus)))
    return TaskPlacement(tuple(assigned), tuple(waiting))


def _places(cycle: TaskCycle, row: int, nucleus: int) -> tuple[OutputPlace, ...]:
    """The datasets of a task and their endpoints; distributed ones, and those without an endpoint, stay as they are."""
    outputs, endpoints = cycle.work.outputs, cycle.endpoints
    first, last = np.searchsorted(outputs.task, (row, row + 1))
    places = []
    for at in range(int(first), int(last)):
        token = int(endpoints.token[at])
        storage = int(endpoints.written[token, nucleus]) if token >= 0 else -1
        if storage >= 0:
            seen = outputs.storagetoken[at]
            endpoint = str(cycle.snapshot.storages.name[storage])
            places.append(OutputPlace(int(outputs.datasetid[at]), seen, placed_token(seen, endpoint)))
    return tuple(places)
