"""Chunks encoded in blocks give the same bytes as chunks encoded one by one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from broker.codec import column_texts, work_codec
from broker.codec.compression import unpack_work
from broker.codec.work_codec import WorkEncoder, chunk_of, encode_work
from broker.domain.analysis import AnalysisWork
from broker.domain.arrays import CLASS, objects, texts
from broker.domain.counted_load import ChunkPlan, CountedLoad, QueueJobs, forms_of
from broker.domain.work import (
    AcceptedCores,
    HeldParts,
    InputTable,
    PlacementConstraints,
    RebrokeredFrom,
    ReplicaTable,
    Work,
    WorkTable,
)

NUMBERS = (0.0, -0.0, 1.0, -2.5, 1e300, 5e-324, float("nan"), float("inf"), float("-inf"), 2.0**53)
TEXTS = (None, "", "a", 'q"\\\n],"', "Zürich", "\ud800", "nan", "1")
OBJECTS: Mapping[Any, tuple[Any, ...]] = {
    AcceptedCores: (None, AcceptedCores(1.0), AcceptedCores(1.0, 8.0, (3.0,))),
    RebrokeredFrom: (None, RebrokeredFrom((("A", 1.5), ("],", 2.0)))),
    HeldParts: (None, HeldParts(((0, 1.0, 2.5),)), HeldParts(((1, 2.0, 1e15), (4, 1.0, 0.0)))),
    PlacementConstraints: (None, PlacementConstraints(), PlacementConstraints("p", ("A",), ("B", "C"))),
}
QUEUES, OTHERS = ("A%d", 'q"],%', "Zürich", "D"), ("Z", "D")
PLAN = ChunkPlan(("A",), (1,), (0.5,), ("",), 2, "highs 1")
LOADS = (
    CountedLoad(),
    CountedLoad(of_share={"A": 2}),
    CountedLoad(of_share={'],"': 1}, of_user={"B": 3}, plan=PLAN),
    CountedLoad(QueueJobs(QUEUES, np.array([0.0, 2.0, 1e6, 0.0])), new_users=QueueJobs(QUEUES, np.ones(4))),
    CountedLoad(QueueJobs(OTHERS, np.array([0.0, 2.0])), of_type=QueueJobs(QUEUES, np.zeros(4))),
)
CUTS = (None, "{}", '{"settings":{"\\u00e9":[1,null,true]},"held":{"0":[1]}}')


def column(random: np.random.Generator, field: dataclasses.Field[Any], size: int) -> Any:
    """Random values of a column; often all rows have the same one."""
    numbers = random.integers(1000, size=size) if random.random() < 0.6 else np.full(size, random.integers(1000))
    kind = str(field.type)
    if kind == "Floats":
        return np.array(NUMBERS)[numbers % len(NUMBERS)]
    if kind == "Ints":
        return np.array([0, -1, 7, 2**63 - 1, -(2**63)])[numbers % 5]
    if kind == "Bools":
        return numbers % 2 == 0
    if CLASS in field.metadata:
        values = OBJECTS[field.metadata[CLASS]]
        return objects(values[number % len(values)] for number in numbers.tolist())
    return texts(TEXTS[number % len(TEXTS)] for number in numbers.tolist())


def table(random: np.random.Generator, kind: Any, size: int, **columns: Any) -> Any:
    """A table of random columns."""
    return kind(
        **{field.name: columns.get(field.name, column(random, field, size)) for field in dataclasses.fields(kind)}
    )


def random_work(seed: int, chunks: int, analysis: bool) -> Work:
    """Chunks with up to three inputs each, and inputs with up to three replicas."""
    random = np.random.default_rng(seed)
    chunk = np.repeat(np.arange(chunks), random.integers(4, size=chunks))
    owner = np.repeat(np.arange(len(chunk)), random.integers(4, size=len(chunk)))
    return Work(
        table(random, WorkTable, chunks),
        table(random, InputTable, len(chunk), chunk=chunk),
        table(random, ReplicaTable, len(owner), input=owner),
        analysis_request=table(random, AnalysisWork, chunks) if analysis else None,
    )


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 9), st.booleans())
def test_each_chunk_is_encoded_as_if_it_were_alone(seed: int, chunks: int, analysis: bool) -> None:
    work, order = random_work(seed, chunks, analysis), np.random.default_rng(seed).permutation(chunks).tolist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(column_texts, "OWNERS_OF_A_BLOCK", 4)
        encoder = WorkEncoder(work)
        for row in [*range(chunks), *order]:
            load, cut = LOADS[row % len(LOADS)], CUTS[(row + seed) % len(CUTS)]
            encoded, encoded_alone = encoder.encode(row, load, cut), encode_work(chunk_of(work, row), load, cut)
            assert unpack_work(encoded, 10**7).decode() == unpack_work(encoded_alone, 10**7).decode()
            assert encoded == encoded_alone


def test_every_kind_of_column_is_covered() -> None:
    tables = (WorkTable, InputTable, ReplicaTable, AnalysisWork)
    kinds = {field.metadata[CLASS] for kind in tables for field in dataclasses.fields(kind) if CLASS in field.metadata}
    assert kinds == set(OBJECTS)


def test_equal_lists_of_queue_names_are_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    work, calls = random_work(1, 4, analysis=True), list[Sequence[str]]()

    def count_calls(queue_names: Sequence[str]) -> list[str]:
        calls.append(queue_names)
        return forms_of(queue_names)

    monkeypatch.setattr(work_codec, "forms_of", count_calls)
    encoder = WorkEncoder(work)
    for row in range(4):
        load = CountedLoad(QueueJobs(list(QUEUES), np.ones(4)), QueueJobs(list(QUEUES), np.ones(4)))
        assert encoder.encode(row, load) == encode_work(chunk_of(work, row), load)
    assert len(calls) == 1
