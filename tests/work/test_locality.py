from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from broker.domain.arrays import floats, objects, texts
from broker.work import locality
from broker.work.catalogue import Catalogue, PlacedDatasets, ReplicaRows
from broker.work.chunks import ChunkTable, InputFiles
from broker.work.input_files import DatasetUse, FileTable, joined
from broker.work.locality import InputPlaces, NamedFiles, RankLimits, place_inputs, real_datasets, wanted_ranks
from tests.work.files_for_tests import dataset_table, file_table, one_chunk
from tests.work.plain_places import plain_replicas

FILES = file_table([{"fileid": 10 * (at + 1), "size": at + 1} for at in range(5)])  # ids 10..50, sizes 1..5
EMPTY = ReplicaRows(
    np.empty(0, dtype=np.int64),
    texts([]),
    np.empty(0, dtype=np.bool_),
    np.empty(0, dtype=np.bool_),
    floats([]),
    floats([]),
)


def placed_datasets(*rows: dict[str, Any]) -> PlacedDatasets:
    defaults: dict[str, Any] = {"dataset": 0, "rse": "A", "tape": False, "vp": False, "available": 5, "total": 5}
    filled = [defaults | row for row in rows]
    complete = [row["available"] == row["total"] or row["vp"] for row in filled]
    return PlacedDatasets(
        np.array([row["dataset"] for row in filled], dtype=np.int64),
        texts(row["rse"] for row in filled),
        np.array([row["tape"] for row in filled], dtype=np.bool_),
        np.array([row["vp"] for row in filled], dtype=np.bool_),
        floats(row["available"] for row in filled),
        floats(row["available"] for row in filled),
        floats(row["total"] for row in filled),
        np.array(complete, dtype=np.bool_),
        objects(row.get("spans") for row in filled),
    )


def places(
    datasets_placed: PlacedDatasets,
    limits: RankLimits | None = None,
    named: NamedFiles | None = None,
    *,
    merging: bool = False,
    nfiles: int | None = 5,
    files: FileTable = FILES,
) -> InputPlaces:
    zero, flag = np.zeros(1, dtype=np.int64), np.array([merging])
    chunks = ChunkTable(zero, zero, np.zeros(1), flag, ~flag, ~flag)
    datasets = dataset_table([{"nfiles": nfiles, "name": "mc:a"}])
    answer = Catalogue((("mc", "a"),), EMPTY, {0: ("ALL",)}, {}, {})
    inputs = one_chunk((files, DatasetUse()))
    return place_inputs(
        chunks, datasets, inputs, answer, {0: 0}, datasets_placed, datasets.nfiles, limits or {}, named or {}
    )


def stats(input_places: InputPlaces) -> list[tuple[Any, ...]]:
    table = input_places.replicas
    columns = (table.rse, table.complete, table.holds_all, table.chunk_files, table.chunk_bytes)
    return list(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize(
    ("row", "nfiles", "expected"),
    [
        ({}, 5, ("A", True, True, 5, 15)),
        ({}, None, ("A", True, True, 5, 15)),
        ({"available": 6, "total": 6}, 5, ("A", True, True, 5, 15)),
        # complete by its own count, but shorter than the dataset: the first 5 of 6 files
        ({}, 6, ("A", True, False, 5, 15)),
        ({"available": 3}, 5, ("A", False, False, 3, 6)),
        ({"available": 0}, 5, ("A", False, False, 0, 0)),
        ({"available": None}, 5, ("A", False, False, 0, 0)),
        ({"available": 0, "vp": True}, 5, ("A", True, True, 5, 15)),
    ],
)
def test_files_at_a_replica(row: dict[str, Any], nfiles: int | None, expected: tuple[Any, ...]) -> None:
    assert stats(places(placed_datasets(row), {(0, 3): 30, (0, 5): 50}, nfiles=nfiles)) == [expected]


def test_ranks_count_all_files_of_the_dataset_and_not_only_of_the_chunk() -> None:
    # the third file of the dataset has id 20, as others precede it
    assert stats(places(placed_datasets({"available": 3}), {(0, 3): 20})) == [("A", False, False, 2, 3)]


def test_any_replica_holds_everything_for_merging() -> None:
    assert stats(places(placed_datasets({"available": 1}), merging=True)) == [("A", False, True, 5, 15)]


def test_named_files_are_exactly_where_they_are_named() -> None:
    datasets_placed = placed_datasets({"available": 3}, {"rse": "B", "available": 0})
    named: NamedFiles = {0: {10: frozenset({"B"}), 50: frozenset({"A", "C"})}}
    input_places = places(datasets_placed, {(0, 3): 30}, named)
    assert stats(input_places) == [
        ("A", False, False, 3, 2 + 3 + 5),
        ("B", False, False, 1, 1),
        ("C", False, False, 1, 5),
    ]
    assert input_places.replicas.found.tolist()[2:] == [0]
    assert np.isnan(input_places.replicas.total).tolist() == [False, False, True]  # named files alone are no replica
    assert [None if held is None else held.tolist() for held in input_places.held] == [
        [False, True, True, False, True],
        [True, False, False, False, False],
        [False, False, False, False, True],
    ]


def test_named_files_do_not_matter_at_a_complete_replica() -> None:
    named: NamedFiles = {0: {10: frozenset({"B"})}}
    input_places = places(placed_datasets({}), {}, named)
    assert stats(input_places)[0] == ("A", True, True, 5, 15)
    assert input_places.held[0] is None


def test_a_name_in_several_event_ranges_is_one_file() -> None:
    files = file_table([{"fileid": 10, "lfn": 1, "size": 7}, {"fileid": 20, "lfn": 1, "size": 7}])
    assert stats(places(placed_datasets({"available": 1}), {(0, 1): 20}, files=files)) == [("A", False, False, 1, 7)]


def test_the_input_table() -> None:
    table = places(placed_datasets({})).inputs
    assert (table.scope.tolist(), table.name.tolist()) == (["mc"], ["a"])
    assert (table.files.tolist(), table.bytes.tolist(), table.dataset_files.tolist()) == ([5], [15], [5])
    assert (table.is_master.tolist(), table.is_pseudo.tolist()) == ([True], [False])
    assert (table.distributed.tolist(), table.catalogued.tolist()) == ([False], [True])


def test_pseudo_datasets_have_no_replicas() -> None:
    inputs = one_chunk((FILES, DatasetUse()), (FILES, DatasetUse(pseudo=True)))
    assert real_datasets(inputs).tolist() == [0]
    zero, flag = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.bool_)
    chunks = ChunkTable(zero, zero, np.zeros(1), flag, flag, flag)
    datasets = dataset_table([{"nfiles": 5}, {"nfiles": 5}])
    answer = Catalogue((("s", "ds0"),), EMPTY, {}, {}, {})
    datasets_placed = placed_datasets({}, {"dataset": 1})
    input_places = place_inputs(chunks, datasets, inputs, answer, {0: 0}, datasets_placed, datasets.nfiles, {}, {})
    assert input_places.replicas.input.tolist() == [0]
    assert input_places.inputs.catalogued.tolist() == [False, False]
    assert input_places.inputs.distributed.tolist() == [True, True]


def test_ranks_are_requested_for_partial_replicas_only() -> None:
    datasets_placed = placed_datasets(
        {}, {"rse": "B", "available": 3}, {"rse": "C", "available": 0}, {"rse": "D", "available": 3}
    )
    assert wanted_ranks(datasets_placed, floats([5])) == [(0, 3)]
    assert wanted_ranks(placed_datasets({}), floats([6])) == [(0, 5)]


@st.composite
def some_inputs(draw: st.DrawFn) -> InputFiles:
    """Chunks of a few datasets, some with a secondary; names recur, also in separate runs."""
    parts: list[tuple[int, int, FileTable]] = []
    for chunk in range(draw(st.integers(0, 4))):
        for _ in range(draw(st.integers(1, 2))):
            names = draw(st.lists(st.integers(1, 5), max_size=6))
            files = file_table(
                [{"fileid": 10 * position - 5, "lfn": name, "size": name} for position, name in enumerate(names)]
            )
            parts.append((chunk, draw(st.integers(0, 3)), files))
    offsets = np.cumsum([0, *(len(files) for _, _, files in parts)])
    uses = tuple(DatasetUse(pseudo=draw(st.integers(0, 5)) == 0) for _ in parts)
    chunk, dataset = (np.array([part[position] for part in parts], dtype=np.int64) for position in (0, 1))
    masters = np.ones(len(parts), dtype=np.bool_)
    return InputFiles(chunk, dataset, masters, uses, offsets, joined([files for _, _, files in parts]))


NUMBERS = st.sampled_from([None, 0, 1, 3, 5])
PLACE = st.fixed_dictionaries(
    {
        "dataset": st.integers(0, 3),
        "rse": st.sampled_from("ABC"),
        "tape": st.booleans(),
        "vp": st.sampled_from([False, False, True]),
        "available": NUMBERS,
        "total": NUMBERS,
        "spans": st.sampled_from([None, None, (), ((0, 1),), ((1, 3),), ((0, 1), (3, 5))]),
    }
)
NAMED = st.dictionaries(
    st.integers(0, 3),
    st.dictionaries(st.sampled_from([-5, 5, 25, 99]), st.frozensets(st.sampled_from("ABCD"))),
    max_size=2,
)


@pytest.mark.slow
@settings(max_examples=300)
@given(
    inputs=some_inputs(),
    rows=st.lists(PLACE, max_size=8, unique_by=lambda row: (row["dataset"], row["rse"])),
    sizes=st.lists(NUMBERS, min_size=4, max_size=4),
    last=st.lists(st.integers(-1, 60), min_size=12, max_size=12),
    named=NAMED,
    merging=st.lists(st.booleans(), min_size=4, max_size=4),
    at_once=st.sampled_from([1, 3, 1000]),
)
def test_inputs_are_placed_together_as_one_by_one(
    inputs: InputFiles,
    rows: list[dict[str, Any]],
    sizes: list[int | None],
    last: list[int],
    named: NamedFiles,
    merging: list[bool],
    at_once: int,
) -> None:
    datasets_placed = placed_datasets(*sorted(rows, key=lambda row: (row["dataset"], row["rse"])))
    limits = {
        (dataset, count): last[3 * dataset + index] for dataset in range(4) for index, count in enumerate((1, 3, 5))
    }
    zeros, flags = np.zeros(4, dtype=np.int64), np.array(merging)
    chunks = ChunkTable(zeros, zeros, np.zeros(4), flags, ~flags, ~flags)
    datasets = dataset_table([{"nfiles": size} for size in sizes])
    answer = Catalogue(tuple(("s", f"ds{index}") for index in range(4)), EMPTY, {}, {}, {})
    did_of = {index: index for index in range(4)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(locality, "FILES_AT_ONCE", at_once)
        input_places = place_inputs(
            chunks, datasets, inputs, answer, did_of, datasets_placed, datasets.nfiles, limits, named
        )
    expected = plain_replicas(chunks, inputs, datasets_placed, datasets.nfiles.tolist(), limits, named)
    table = input_places.replicas
    held = [None if mask is None else mask.tolist() for mask in input_places.held]
    columns = [getattr(table, field.name) for field in dataclasses.fields(table) if field.name != "held_parts"]
    assert [column.dtype.kind for column in columns] == list("iObbffbbff")
    replica_rows = list(zip(*(column.tolist() for column in columns), held, strict=True))
    assert repr(replica_rows) == repr([(*row[:8], *map(float, row[8:10]), row[10]) for row in expected])
    assert all(mask is None or mask.dtype == np.bool_ for mask in input_places.held)
