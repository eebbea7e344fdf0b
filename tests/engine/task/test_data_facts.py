"""The location of task input: the best copy of each part at each nucleus, and unavailable input."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from broker.engine.task.data_facts import TaskData, gather_task_data, reading_nuclei
from broker.engine.task.steps import InputReading
from tests.engine.task.task_works import GB, Copy, Part, nuclei, task_work
from tests.snapshot.raw_grid import endpoint, uses

GRID = nuclei()
NAMES = [str(name) for name in GRID.nuclei.name]


def by_nucleus(values: Any) -> dict[str, float]:
    return {name: value for name, value in zip(NAMES, values.tolist(), strict=True) if value}


def gather(*parts: Part, **columns: Any) -> TaskData:
    return gather_task_data(task_work(parts, tasks=columns), GRID)


@pytest.mark.parametrize(
    ("parts", "disk", "anywhere"),
    [
        ([Part([Copy("A_DISK")])], {"A": 10}, {"A": 10}),
        ([Part([Copy("A_TAPE", is_tape=True)])], {}, {"A": 10}),
        # of two copies at a nucleus the one with most files counts; they do not add up
        ([Part([Copy("A_DISK", 3, complete=False), Copy("A_TAPE", 7, True, False)])], {"A": 3}, {"A": 7}),
        # a complete copy on disk takes precedence
        ([Part([Copy("A_DISK", 5), Copy("A_TAPE", 7, True)])], {"A": 5}, {"A": 5}),
        # parts add up
        ([Part([Copy("A_DISK"), Copy("B_DISK")]), Part([Copy("B_DISK", 4)])], {"A": 10, "B": 14}, {"A": 10, "B": 14}),
        # endpoints without a site and of satellites
        ([Part([Copy("ELSEWHERE")])], {}, {}),
        ([Part([Copy("S_DISK")])], {"S": 10}, {"S": 10}),
        ([Part([Copy("A_DISK", np.nan)])], {}, {}),
    ],
)
def test_the_best_copy_of_each_part(parts: Sequence[Part], disk: dict[str, float], anywhere: dict[str, float]) -> None:
    data = gather(*parts)
    assert (by_nucleus(data.disk_files[0]), by_nucleus(data.any_files[0])) == (disk, anywhere)
    assert by_nucleus(data.disk_bytes[0]) == {name: files * GB for name, files in disk.items()}
    assert (data.total_files.tolist(), data.total_bytes.tolist()) == ([10 * len(parts)], [10 * len(parts) * GB])


def test_tasks_are_independent() -> None:
    data = gather_task_data(task_work([Part([Copy("A_DISK")])], [], [Part([Copy("B_DISK", 4)])]), GRID)
    assert data.examined.tolist() == [True, False, True]
    assert [by_nucleus(row) for row in data.disk_files] == [{"A": 10}, {}, {"B": 4}]
    assert data.fault.tolist() == ["", "", ""]


@pytest.mark.parametrize(
    ("parts", "staged", "fault"),
    [
        ([], False, ""),
        ([Part([Copy("A_DISK")])], False, ""),
        ([Part([])], False, "no_complete_replica"),
        ([Part([Copy("A_DISK", 9, complete=False)])], False, "no_complete_replica"),
        ([Part([Copy("A_DISK")]), Part([])], False, "no_complete_replica"),
        # if the input is being staged, an incomplete copy is enough
        ([Part([Copy("A_DISK", 9, complete=False)])], True, ""),
        ([Part([], catalogued=False)], False, "unknown_dataset"),
        ([Part([], catalogued=False)], True, "unknown_dataset"),
        # an endpoint that is not on record is not known to be closed
        ([Part([Copy("ELSEWHERE")])], False, ""),
        ([Part([Copy("SHUT")])], False, "replica_unreadable"),
        ([Part([Copy("SHUT"), Copy("A_DISK")])], False, ""),
        ([Part([Copy("SHUT"), Copy("A_DISK", 9, complete=False)])], False, "replica_unreadable"),
    ],
)
def test_unavailable_input(parts: Sequence[Part], staged: bool, fault: str) -> None:
    grid = nuclei(
        ddm_endpoint=[endpoint("A_DISK", "A"), endpoint("SHUT", "A", detailed_status='{"read_wan": "OFF"}')],
        panda_ddm_relation=[uses("A_Q", "A_DISK")],
    )
    data = gather_task_data(task_work(parts, tasks={"input_prestaging": staged}), grid)
    assert data.fault.tolist() == [fault]


def test_which_nuclei_read_an_endpoint() -> None:
    """Over LAN, in any scope, by a queue of production."""
    grid = nuclei(
        panda_ddm_relation=[
            uses("A_Q", "B_DISK", scope="analysis"),
            uses("B_Q", "B_DISK", roles="write_lan"),
            uses("C_Q", "A_DISK", roles="read_lan"),
        ]
    )
    table = reading_nuclei(grid)
    storages = [str(name) for name in grid.storages.name]
    assert [NAMES[at] for at in np.flatnonzero(table[:, storages.index("B_DISK")])] == ["A"]
    assert [NAMES[at] for at in np.flatnonzero(table[:, storages.index("A_DISK")])] == ["C"]


@pytest.mark.parametrize(
    ("container_source", "faults"),
    [("each_dataset", ["no_complete_replica", ""]), ("one_dataset", ["", ""])],
)
def test_one_complete_dataset_may_be_enough_for_a_container(container_source: str, faults: list[str]) -> None:
    data = as_containers({"container_source": container_source})
    assert data.fault.tolist() == faults


@pytest.mark.parametrize(("container_totals", "files"), [("sum", [30, 4]), ("last_dataset", [20, 4])])
def test_the_size_of_a_container(container_totals: str, files: list[float]) -> None:
    assert as_containers({"container_totals": container_totals}).total_files.tolist() == files


def as_containers(options: dict[str, str]) -> TaskData:
    """A task whose container has two datasets, only the second with a complete copy, and a plain task."""
    work = task_work(
        [Part([Copy("A_DISK", 5, complete=False)]), Part([Copy("B_DISK")], files=20)], [Part([Copy("C_DISK")], files=4)]
    )
    parts = dataclasses.replace(work.parts, datasetid=np.array([7, 7, 7]))
    return gather_task_data(dataclasses.replace(work, parts=parts), GRID, InputReading().configured(options))
