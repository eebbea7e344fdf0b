"""Random tables of tasks and nuclei with values near the limits of the rules, and NULL."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from broker.domain.grid import NucleusTable
from broker.domain.task_work import AssigningTable, TaskFacts
from tests.rules.nucleus.nucleus_builders import (
    DAY_S,
    GB,
    NOW_S,
    NUCLEUS_FACTS,
    TASK_FACTS,
    make_assigning,
    make_nuclei,
    make_task_facts,
)
from tests.rules.random_tables import literals_in_tests

N = None
POOLS: dict[str, list[Any]] = {
    "gshare": [N, "Simulation"],
    "taskpriority": [N, 500, 900, 1000],
    "currentpriority": [N, 500, 900, 1000],
    "iointensity": [N, 0, 200, 201, 500],
    "frozentime_s": [N, NOW_S - 6 * DAY_S, NOW_S - DAY_S / 2, NOW_S],
    "t1weight": [-1, 0, 3],
    "full_chain": [0, 1, 2, 3],
    "state": [N, "ACTIVE", "INACTIVE"],
    "bare": [0, 1, 2],
    "backlog_files": [N, 0, 2000, 2001],
    "usable_gb": [N, 0, 1024.0, 100 * 1024.0, np.inf],
    "expected_output_gb": [0, 1024.0],
    "left_gb": [0, 1024.0, 99 * 1024.0, 100 * 1024.0, np.inf],
    "able_queues": [0, 1, 3],
    "queues": [0, 3, 5],
    "total_bytes": [0, GB, 100 * GB],
    "total_files": [0, 10, 200],
    "any_bytes": [0, GB, 9 * GB, 100 * GB],
    "any_files": [0, 10, 19, 200],
    "disk_bytes": [0, 100 * GB],
    "disk_files": [0, 200],
    "bound_to": [-1, -1, 0, 1],
}

for _column_name, _values in literals_in_tests("POOLS", "production_task", "nucleus"):
    POOLS[_column_name] = [*POOLS.get(_column_name, ()), *_values]


def random_nuclei(seed: int, tasks: int, nuclei: int) -> tuple[AssigningTable, NucleusTable, TaskFacts]:
    """Draw the tables of a seed."""
    rng = np.random.default_rng(seed)

    def random_columns(cls: Any, size_of: Any) -> dict[str, Any]:
        values = {}
        for field in dataclasses.fields(cls):
            pool = [False, True] if str(field.type) == "Bools" else POOLS.get(field.name)
            if pool is not None:
                values[field.name] = [pool[index] for index in rng.integers(0, len(pool), size_of(field.name))]
        return values

    sizes = {name: tasks for name in TASK_FACTS} | {name: nuclei for name in NUCLEUS_FACTS}
    return (
        make_assigning(tasks, **random_columns(AssigningTable, lambda _: tasks)),
        make_nuclei(nuclei, **random_columns(NucleusTable, lambda _: nuclei)),
        make_task_facts(tasks, nuclei, **random_columns(TaskFacts, lambda name: sizes.get(name, tasks * nuclei))),
    )
