from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from broker.domain.arrays import floats, texts
from broker.work.catalogue import (
    Catalogue,
    ReplicaRows,
    distinct_dids,
    files_of_dids,
    is_catalogued,
    is_distributed,
    place_datasets,
)
from tests.work.files_for_tests import dataset_table
from tests.work.plain_places import plain_datasets

Rows = list[dict[str, Any]]


def catalogue(rows: Rows, **metadata: Any) -> Catalogue:
    filled = [{"did": 0, "tape": False, "vp": False, "available": 10, "total": 10} | row for row in rows]
    replicas = ReplicaRows(
        np.array([row["did"] for row in filled], dtype=np.int64),
        texts(row["rse"] for row in filled),
        np.array([row["tape"] for row in filled], dtype=np.bool_),
        np.array([row["vp"] for row in filled], dtype=np.bool_),
        floats(row["available"] for row in filled),
        floats(row["total"] for row in filled),
    )
    return Catalogue(
        (), replicas, metadata.get("groupings", {}), metadata.get("lengths", {}), metadata.get("parts", {})
    )


def placed_rows(answer: Catalogue) -> list[tuple[Any, ...]]:
    datasets = place_datasets(answer, np.array([4]), np.array([0]))
    columns = (
        datasets.rse,
        datasets.is_tape,
        datasets.is_vp,
        datasets.available,
        datasets.in_whole_parts,
        datasets.total,
        datasets.complete,
    )
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_datasets_of_one_name_are_requested_once() -> None:
    datasets = dataset_table([{"name": "mc:a"}, {"name": "b"}, {"name": "mc:a/"}])
    dids, codes = distinct_dids(datasets, np.array([0, 1, 2]))
    assert dids == (("mc", "a"), ("b", "b"))
    assert codes.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({}, (False, False, 10, 10, 10, True)),
        ({"available": 9}, (False, False, 9, 9, 10, False)),
        ({"available": 0, "total": 0}, (False, False, 0, 0, 0, True)),
        ({"tape": True}, (True, False, 10, 10, 10, True)),
        ({"available": 0, "vp": True}, (False, True, 0, 0, 10, True)),
    ],
)
def test_replicas_of_a_dataset(row: dict[str, Any], expected: tuple[Any, ...]) -> None:
    assert placed_rows(catalogue([{"rse": "A"} | row])) == [("A", *expected)]


@pytest.mark.parametrize("row", [{"available": None}, {"total": None}, {"available": None, "total": None}])
def test_a_replica_with_unknown_numbers_is_not_complete(row: dict[str, Any]) -> None:
    ((_, _, _, available, _, total, complete),) = placed_rows(catalogue([{"rse": "A"} | row]))
    assert complete is False
    assert math.isnan(available) or math.isnan(total)


PARTS = {"parts": {0: (1, 2)}}


def test_a_container_sums_its_constituents() -> None:
    rows: Rows = [
        {"did": 1, "rse": "A", "available": 10, "total": 10},
        {"did": 2, "rse": "A", "available": 5, "total": 5},
        {"did": 1, "rse": "B", "available": 10, "total": 10},
        {"did": 2, "rse": "B", "available": 4, "total": 5},
        {"did": 1, "rse": "C", "available": 10, "total": 10},
    ]
    assert placed_rows(catalogue(rows, **PARTS)) == [
        ("A", False, False, 15, 15, 15, True),
        ("B", False, False, 14, 10, 15, False),
        ("C", False, False, 10, 10, 15, False),
    ]


def test_a_constituent_without_replicas_counts_by_its_length() -> None:
    answer = catalogue([{"did": 1, "rse": "A"}], lengths={2: 7.0}, **PARTS)
    assert placed_rows(answer) == [("A", False, False, 10, 10, 17, False)]


def test_replicas_are_sorted_by_dataset_and_endpoint() -> None:
    answer = catalogue([{"did": 0, "rse": "B"}, {"did": 0, "rse": "A"}, {"did": 1, "rse": "C"}])
    datasets = place_datasets(answer, np.array([2, 5]), np.array([1, 0]))
    assert datasets.dataset.tolist() == [2, 5, 5]
    assert datasets.rse.tolist() == ["C", "A", "B"]


@pytest.mark.parametrize(
    ("groupings", "container", "distributed"),
    [
        (None, False, True),
        (None, True, True),
        ((), False, True),
        (("NONE",), False, True),
        (("NONE", "ALL"), False, False),
        (("DATASET",), False, False),
        (("DATASET",), True, True),
        (("ALL",), True, False),
    ],
)
def test_selection_of_distributed_datasets(
    groupings: tuple[str, ...] | None, container: bool, distributed: bool
) -> None:
    answer = catalogue([], groupings={} if groupings is None else {0: groupings}, parts={0: (1,)} if container else {})
    assert is_distributed(answer, 0, frozenset()) is distributed


@pytest.mark.parametrize(("with_replicas", "distributed"), [(0, False), (1, False), (2, True)])
def test_without_metadata_a_dataset_with_a_replica_is_not_distributed(with_replicas: int, distributed: bool) -> None:
    """For a container, a replica of one constituent is enough."""
    answer = catalogue([{"did": with_replicas, "rse": "A"}], parts={0: (1,)})
    assert is_distributed(answer, 0, frozenset({with_replicas})) is distributed


@pytest.mark.parametrize(
    ("lengths", "parts", "nfiles", "files"),
    [
        ({0: 7.0}, {}, 5.0, 7.0),
        ({0: 3.0}, {}, 5.0, 3.0),
        ({0: 0.0}, {}, 5.0, 0.0),
        ({}, {}, 5.0, 5.0),
        ({}, {}, math.nan, math.nan),
        ({0: 9.0, 1: 4.0, 2: 4.0}, {0: (1, 2)}, 5.0, 9.0),
        ({1: 4.0, 2: 4.0}, {0: (1, 2)}, 5.0, 8.0),
        ({1: 4.0}, {0: (1, 2)}, 5.0, 5.0),  # the length of one constituent is unknown, so the sum is too
        ({1: 0.0}, {0: (1,)}, 5.0, 0.0),
    ],
)
def test_number_of_files_of_a_dataset(
    lengths: dict[int, float], parts: dict[int, tuple[int, ...]], nfiles: float, files: float
) -> None:
    answer = catalogue([], lengths=lengths, parts=parts)
    (count,) = files_of_dids(answer, np.array([0]), np.array([nfiles])).tolist()
    assert count == pytest.approx(files, nan_ok=True)


def test_datasets_known_to_the_catalogue() -> None:
    answer = catalogue([{"did": 3, "rse": "A"}], groupings={1: ()}, parts={2: (3,), 4: (5,)})
    is_known = [is_catalogued(answer, did, frozenset({3})) for did in range(6)]
    assert is_known == [False, True, True, True, False, False]


NUMBERS = st.sampled_from([None, 0, 1, 5, 10])
REPLICA = st.fixed_dictionaries(
    {
        "did": st.integers(0, 5),
        "rse": st.sampled_from(["A", "B", "b", "\u00e9"]),
        "tape": st.booleans(),
        "vp": st.sampled_from([False, False, True]),
        "available": NUMBERS,
        "total": NUMBERS,
    }
)


@pytest.mark.slow
@settings(max_examples=300)
@given(
    rows=st.lists(REPLICA, max_size=12, unique_by=lambda row: (row["did"], row["rse"])),
    parts=st.dictionaries(
        st.integers(0, 3), st.lists(st.integers(0, 5), max_size=3, unique=True).map(tuple), max_size=3
    ),
    lengths=st.dictionaries(st.integers(0, 5), st.sampled_from([1.0, 7.0])),
    did_of=st.lists(st.integers(0, 5), max_size=6),
)
def test_datasets_are_placed_together_as_one_by_one(
    rows: Rows, parts: dict[int, tuple[int, ...]], lengths: dict[int, float], did_of: list[int]
) -> None:
    answer = catalogue(rows, parts=parts, lengths=lengths)
    dataset_ids = [3 * number + 1 for number in range(len(did_of))]
    datasets = place_datasets(answer, np.array(dataset_ids, dtype=np.int64), np.array(did_of, dtype=np.int64))
    columns = [getattr(datasets, field.name) for field in dataclasses.fields(datasets)]
    assert [column.dtype.kind for column in columns] == list("iObbfffbO")
    all_rows = list(zip(*(column.tolist() for column in columns), strict=True))
    assert repr(all_rows) == repr(plain_datasets(answer, dataset_ids, did_of))
