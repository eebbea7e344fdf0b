"""The stored work of a task gives the same facts again, and unreadable work is refused."""

from __future__ import annotations

import dataclasses
import zlib
from typing import Any

import numpy as np
import pytest

from broker.brokerages.production_job import brokerage as production_job
from broker.brokerages.production_task import brokerage as production_task
from broker.codec.task_work_codec import decode_task_work, encode_task_work, task_of
from broker.codec.work_codec import WorkCorruptError
from broker.domain.task_work import TaskWork
from broker.store.connection.database import Database
from tests.brokerages.production_task.test_assign import cycle_of
from tests.brokerages.small_grid import GB, TASK, dataset, input_files, replica
from tests.brokerages.task_engine import task_cycle
from tests.brokerages.task_grid import busy, outputs, pseudo_input, task_scenario, waiting


def assert_tables_equal(left: Any, right: Any) -> None:
    for field in dataclasses.fields(left):
        np.testing.assert_array_equal(getattr(left, field.name), getattr(right, field.name), err_msg=field.name)


@pytest.fixture
def cycle(database: Database) -> Any:
    """Two tasks, one with pseudo input and one with data at two sites, and a busy task at ALPHA."""
    second = TASK + 1
    task, work = busy(101, "ALPHA", 700)
    scenario = task_scenario(
        jedi_tasks=[waiting(), waiting(jeditaskid=second, iointensity=900), task],
        jedi_datasets=[
            pseudo_input(),
            *outputs(),
            dataset(10, jeditaskid=second, datasetid=8500, nevents=1000),
            *outputs(second, 8600),
            work,
        ],
        jedi_dataset_contents=[
            *input_files(5, 0, type="pseudo_input", fsize=None),
            *(
                {**row, "jeditaskid": second, "datasetid": 8500, "fileid": row["fileid"] + 50}
                for row in input_files(10, 2 * GB)
            ),
        ],
        dataset_replicas=[replica("ALPHA", 10, 10), replica("BETA", 5, 10)],
    )
    return cycle_of(database, scenario)


@pytest.mark.parametrize("row", [0, 1])
def test_a_decoded_task_is_decided_as_among_others(cycle: Any, row: int) -> None:
    packed = encode_task_work(
        task_of(cycle.work, row), cycle.snapshot.nuclei.name, cycle.all_work_hs06s.every[row], cycle.remaining_work(row)
    )
    decoded = decode_task_work(packed)
    assert len(decoded.tasks) == 1
    cycle_of_one = task_cycle(cycle.snapshot, decoded, cycle.tuning, production_task.chain(), production_job.chain())
    before, after = cycle.result(row), cycle_of_one.result(0)
    assert after.weight == pytest.approx(before.weight) and after.feasible.tolist() == before.feasible.tolist()
    assert cycle_of_one.facts.expected_output_gb == pytest.approx(cycle.facts.expected_output_gb)
    for name in ("any_bytes", "disk_files", "able_queues", "usable_gb"):
        assert getattr(cycle_of_one.facts, name)[0] == pytest.approx(getattr(cycle.facts, name)[row])


def test_columns_are_lossless(cycle: Any) -> None:
    work: TaskWork = task_of(cycle.work, 1)
    zero = np.zeros(len(cycle.snapshot.nuclei))
    decoded = decode_task_work(encode_task_work(work, cycle.snapshot.nuclei.name, zero, zero))
    for name in ("tasks", "outputs", "parts", "replicas"):
        assert_tables_equal(getattr(decoded, name), getattr(work, name))
    for name in ("chunks", "inputs", "replicas"):
        assert_tables_equal(getattr(decoded.hint, name), getattr(work.hint, name))
    assert len(decoded.parts) == 1 and len(decoded.replicas) == 2


@pytest.mark.parametrize(
    "data",
    [b"", b"no zlib", zlib.compress(b"{"), zlib.compress(b"{}"), zlib.compress(b"[]"), zlib.compress(b'{"a":1}')],
)
def test_damaged_work_is_refused(data: bytes) -> None:
    with pytest.raises(WorkCorruptError, match=r"cannot be read|no column"):
        decode_task_work(data)
