"""Vetoes on the assignment of a task: parents of full chains."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from broker.domain.arrays import texts
from broker.domain.grid import OutputEndpoints
from broker.domain.task_work import AssigningTable, OutputTable
from broker.engine.task.steps import TaskVeto
from tests.rules.nucleus.nucleus_builders import make_assigning

NONE = np.empty(0, dtype=np.int64)
PLACES = np.empty((0, 1), dtype=np.int64)


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"full_chain": 0, "parent_missing": True}, ""),
        ({"full_chain": 1, "parent_missing": True}, "parent_missing"),
        ({"full_chain": 1}, ""),
        ({"full_chain": 1, "parent_nucleus": "A", "parent_full_chain": 1}, ""),
        ({"full_chain": 1, "parent_nucleus": "GONE", "parent_full_chain": 1}, "parent_missing"),
        ({"full_chain": 1, "parent_nucleus": "GONE", "parent_full_chain": 0}, ""),
        ({"full_chain": 0, "parent_nucleus": "GONE", "parent_full_chain": 1}, ""),
    ],
)
def test_a_full_chain_needs_its_parent(columns: dict[str, Any], reason: str) -> None:
    table = make_assigning(1, **columns)
    tasks = AssigningTable(**{column.name: getattr(table, column.name).ravel() for column in dataclasses.fields(table)})
    outputs, none = OutputTable(NONE, NONE, texts([])), np.zeros((1, 1), dtype=np.bool_)
    endpoints = OutputEndpoints(NONE, PLACES, PLACES, PLACES, np.zeros(1, dtype=np.bool_))

    def reasons(step: TaskVeto) -> list[str]:
        codes: list[str] = step.reasons(tasks, outputs, endpoints, none, none, texts(["A"])).tolist()
        return codes

    assert reasons(TaskVeto().configured({"causes": ["parent_missing"]})) == [reason]
    assert reasons(TaskVeto()) == [""]
