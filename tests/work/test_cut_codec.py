"""How a chunk is cut, stored and read back: the same jobs come out."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings as with_settings, strategies as st

from broker.codec.cut_codec import CutEncoder, cycle_work
from broker.codec.work_codec import StoredWork, WorkCorruptError
from broker.domain.arrays import Bools
from broker.work.assemble import CycleWork
from broker.work.chunks import ChunkTable, InputFiles
from broker.work.cut_jobs import CutJobs
from broker.work.input_files import DatasetUse, FileTable, joined
from broker.work.job_model import CutLimits
from broker.work.split_settings import SplitSettings
from tests.engine.small_work import Dataset, replica, work_of
from tests.work.files_for_tests import plain_files
from tests.work.random_chunks import master_files, settings

USES = (DatasetUse(), DatasetUse(nosplit=True, repeat=True), DatasetUse(files_per_job=2), DatasetUse(event_ratio=0.5))
Parts = list[tuple[FileTable, DatasetUse]]


def cycle(chunks: list[Parts], rules: list[SplitSettings], held: tuple[Bools | None, ...] = ()) -> CycleWork:
    """Chunks with these inputs, master first; each master has a replica at A and one at B."""
    datasets = [[Dataset([replica("A"), replica("B")])] for _ in chunks]
    work = work_of(*datasets)
    parts = [part for chunk in chunks for part in chunk]
    owner = np.repeat(np.arange(len(chunks)), [len(chunk) for chunk in chunks])
    inputs = InputFiles(
        owner,
        np.arange(len(parts)),
        np.array([at == 0 for chunk in chunks for at in range(len(chunk))], dtype=np.bool_),
        tuple(use for _, use in parts),
        np.concatenate([[0], np.cumsum([len(files) for files, _ in parts])]).astype(np.int64),
        joined([files for files, _ in parts]),
    )
    place = np.arange(len(chunks))
    flags = np.zeros(len(chunks), dtype=np.bool_)
    table = ChunkTable(place, place, work.chunks.ramcount, flags, flags, flags)
    return CycleWork(work, table, inputs, tuple(rules), held or (None,) * len(work.replicas))


def stored(work: CycleWork) -> StoredWork:
    encode = CutEncoder(work).encode
    cuts = tuple(json.loads(encode(row)) for row in range(len(work.work.chunks)))
    return StoredWork(work.work, ({},) * len(cuts), cuts)


def all_jobs(work: CycleWork, row: int, limits: list[CutLimits]) -> list[CutJobs]:
    cutter = work.cutter(row)
    return [cutter.cut(3, limit) for limit in limits for _ in range(4)]


def assert_same(one: CutJobs, other: CutJobs) -> None:
    for field in dataclasses.fields(CutJobs):
        np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name), err_msg=field.name)


chunk_inputs = st.lists(
    st.tuples(master_files(at_most=8), st.sampled_from(USES), master_files(at_most=5), st.booleans()),
    min_size=1,
    max_size=3,
)


@pytest.mark.slow
@with_settings(max_examples=40, deadline=None)
@given(chunk_inputs, settings(), st.sampled_from([0.0, 2500.0, 9000.0]))
def test_the_same_jobs_are_cut(drawn: list[Any], rules: SplitSettings, scratch_mb: float) -> None:
    chunks: list[Parts] = [
        [(files, DatasetUse()), *([(more, use)] if secondary else [])] for files, use, more, secondary in drawn
    ]
    work = cycle(chunks, [rules] * len(chunks))
    again = cycle_work(stored(work))
    limits = [CutLimits(scratch_mb=scratch_mb), CutLimits(maxtime_s=7000.0, cores=8)]
    for row in range(len(chunks)):
        for one, other in zip(all_jobs(work, row, limits), all_jobs(again, row, limits), strict=True):
            assert_same(one, other)


@pytest.mark.parametrize("mask", ["", "1", "0", "1100", "0011", "0101", "1111", "0000"])
def test_which_files_a_replica_holds(mask: str) -> None:
    files = plain_files(len(mask))
    held = np.array([letter == "1" for letter in mask], dtype=np.bool_)
    work = cycle([[(files, DatasetUse())]] * 2, [SplitSettings()] * 2, (None, held, held, None))
    again = cycle_work(stored(work))
    assert again.held[0] is None and again.held[3] is None
    for one in again.held[1:3]:
        assert one is not None and one.tolist() == held.tolist()


def test_chunks_that_share_what_is_stored_of_their_cut_are_cut_as_by_themselves() -> None:
    files, other = plain_files(4), plain_files(7)
    held = tuple(np.array([letter == "1" for letter in mask]) for mask in ("0011", "1111", "1" * 7, "0" * 7) * 2)
    chunks = [[(files, DatasetUse())], [(other, DatasetUse(files_per_job=2))]] * 2
    apart = stored(cycle(chunks, [SplitSettings(files_per_job=n) for n in (2, 3, 2, 3)], held))
    shared = dataclasses.replace(apart, cuts=apart.cuts[:2] * 2)
    assert shared.cuts == apart.cuts and shared.cuts[0] is not apart.cuts[2]
    one, two = cycle_work(apart), cycle_work(shared)
    for row in range(4):
        for mine, theirs in zip(all_jobs(one, row, [CutLimits()]), all_jobs(two, row, [CutLimits()]), strict=True):
            assert_same(mine, theirs)
    assert [None if mask is None else mask.tolist() for mask in one.held] == [
        None if mask is None else mask.tolist() for mask in two.held
    ]


def test_files_that_are_alike_take_no_room() -> None:
    few, many = (
        len(CutEncoder(cycle([[(plain_files(count, nevents=9), DatasetUse())]], [SplitSettings()])).encode(0))
        for count in (10, 5000)
    )
    assert many <= few + 3


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("settings", "unheard_of"), 1),
        (("inputs",), []),
        (("inputs", 0, 1), 6),
        (("inputs", 0, 1), -1),
        (("inputs", 0, 1), 10**12),
        (("inputs", 0, 2), {"unheard_of": 1}),
        (("names",), [1, 2]),
        (("files",), {}),
        (("files", "nevents"), [1, 2]),
        (("files", "nevents"), "many"),
        (("files", "fsize_bytes"), [10**30] * 5),
        (("held",), {"0": [5, 3]}),
        (("held",), {"0": [10**12]}),
        (("held",), 5),
    ],
)
def test_damaged_cuts_are_refused(path: tuple[Any, ...], value: Any) -> None:
    files = plain_files(5, nevents=9)
    files.fsize_bytes[0] = 3
    whole = stored(cycle([[(files, DatasetUse())]], [SplitSettings()]))
    place: Any = whole.cuts[0]
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(WorkCorruptError):
        cycle_work(whole)


def test_a_chunk_that_was_stored_without_its_files() -> None:
    whole = stored(cycle([[(plain_files(5), DatasetUse())]], [SplitSettings()]))
    with pytest.raises(WorkCorruptError, match="it was not stored"):
        cycle_work(dataclasses.replace(whole, cuts=(None,)))
