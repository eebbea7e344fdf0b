"""Tasks encoded in blocks give the same bytes as tasks encoded one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from broker.codec import column_texts
from broker.codec.compression import unpack_work
from broker.codec.task_work_codec import TaskWorkEncoder, encode_task_work, task_of
from broker.domain.arrays import RowsByKind, texts
from broker.domain.task_work import (
    AssigningTable,
    OutputTable,
    PartReplicaTable,
    PartTable,
    RemainingTable,
    TaskWork,
)
from broker.domain.work import InputTable, ReplicaTable, Work, WorkTable
from tests.codec.test_work_encoding import table

NUCLEI = texts(['q"],', "B", "Zürich"])


def random_work(random: np.random.Generator, tasks: int) -> TaskWork:
    """Tasks with up to three outputs, parts and chunks each; the rows of a task are neighbours."""
    jeditaskid = random.permutation(100)[:tasks]

    def random_owners(count: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.repeat(np.arange(count), random.integers(4, size=count))

    outputs, parts = random.permutation(random_owners(tasks)), random_owners(tasks)
    replicas, chunks = random_owners(len(parts)), random_owners(tasks)
    inputs = random_owners(len(chunks))
    held = random_owners(len(inputs))
    shuffled = random.permutation(tasks)  # chunks have their own order
    hint = Work(
        table(random, WorkTable, len(chunks), jeditaskid=jeditaskid[shuffled][chunks]),
        table(random, InputTable, len(inputs), chunk=inputs),
        table(random, ReplicaTable, len(held), input=held),
    )
    return TaskWork(
        table(random, AssigningTable, tasks, jeditaskid=jeditaskid),
        table(random, OutputTable, len(outputs), task=outputs),
        table(random, PartTable, len(parts), task=parts),
        table(random, PartReplicaTable, len(replicas), part=replicas),
        table(random, RemainingTable, 0),
        hint,
    )


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 9))
def test_each_task_is_encoded_as_if_it_were_alone(seed: int, tasks: int) -> None:
    random = np.random.default_rng(seed)
    work, all_work = random_work(random, tasks), random.random((2, 3))
    kind = random.integers(0, 2, tasks)
    share = random.choice([0.0, 0.1, 1e300], size=(tasks, 3))
    placed_work = [None, np.zeros(3), random.choice([0.0, 2.5], size=3)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(column_texts, "OWNERS_OF_A_BLOCK", 4)
        encoder = TaskWorkEncoder(work, NUCLEI, RowsByKind(all_work, kind))
        for row in [*range(tasks), *random.permutation(tasks).tolist()]:
            encoded = encoder.encode(row, share[row], placed_work[row % 3])
            encoded_alone = encode_task_work(
                task_of(work, row), NUCLEI, all_work[kind[row]], share[row], placed_work[row % 3]
            )
            assert unpack_work(encoded, 10**7).decode() == unpack_work(encoded_alone, 10**7).decode()
            assert encoded == encoded_alone
