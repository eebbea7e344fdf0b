"""The rows of a task that arrives at the demonstration grid later, in the form of those of the initial tasks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import count

import numpy as np

from broker.simulation.model.demo.clock import Clock, Row
from broker.simulation.model.demo.dataset_rows import DatasetTables
from broker.simulation.model.demo.facts import DemoFacts
from broker.simulation.model.demo.task_rows import FIRST_TASK, task_parameter_row, task_row

TIMES = ("creationdate", "modificationtime", "starttime", "statechangetime")


@dataclass(frozen=True)
class NextNumbers:
    """The first unused numbers of a task, a dataset and a file."""

    task: int
    dataset: int
    file: int


def arrival_tables(
    facts: DemoFacts, place: int, numbers: NextNumbers, now: datetime, seed: int
) -> dict[str, list[Row]]:
    """The rows of a copy of the task at ``place`` of the facts, by table; a production task has a tenth of the jobs.

    Args:
        facts: the grid and its tasks.
        place: index of the task in the facts.
        numbers: first numbers of its rows.
        now: the instant (aware) at which it arrives.
        seed: seed of the sizes of its files.
    """
    clock, task = Clock(now), facts.tasks[place]
    tables = DatasetTables(
        facts,
        clock,
        np.random.default_rng([seed, 5, numbers.task]),
        quick=task.user is None,
        dataset_ids=count(numbers.dataset),
        file_ids=count(numbers.file),
    )
    tables.add_task(numbers.task - FIRST_TASK, task)
    row = task_row(facts, clock, numbers.task, task) | dict.fromkeys(TIMES, clock.now)
    return {
        "jedi_tasks": [row],
        "jedi_taskparams": [task_parameter_row(task, numbers.task)],
        "jedi_datasets": tables.datasets,
        "jedi_dataset_contents": tables.files,
        "dataset_replicas": tables.replicas,
        "dataset_metadata": tables.metadata,
    }
