"""The cut of a chunk is stored and read back: it gives the same jobs."""

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
    """Chunks with the given inputs, master first; each master has a replica at A and one at B."""
    datasets = [[Dataset([replica("A"), replica("B")])] for _ in chunks]
    work = work_of(*datasets)
    parts = [part for chunk in chunks for part in chunk]
    owner = np.repeat(np.arange(len(chunks)), [len(chunk) for chunk in chunks])
    inputs = InputFiles(
        owner,
        np.arange(len(parts)),
        np.array([position == 0 for chunk in chunks for position in range(len(chunk))], dtype=np.bool_),
        tuple(use for _, use in parts),
        np.concatenate([[0], np.cumsum([len(files) for files, _ in parts])]).astype(np.int64),
        joined([files for files, _ in parts]),
    )
    indices = np.arange(len(chunks))
    flags = np.zeros(len(chunks), dtype=np.bool_)
    table = ChunkTable(indices, indices, work.chunks.ramcount, flags, flags, flags)
    return CycleWork(work, table, inputs, tuple(rules), held or (None,) * len(work.replicas))


def stored(work: CycleWork) -> StoredWork:
    encode = CutEncoder(work).encode
    cuts = tuple(json.loads(encode(row)) for row in range(len(work.work.chunks)))
    return StoredWork(work.work, ({},) * len(cuts), cuts)


def all_jobs(work: CycleWork, row: int, limits: list[CutLimits]) -> list[CutJobs]:
    cutter = work.cutter(row)
    return [cutter.cut(3, limit) for limit in limits for _ in range(4)]


def assert_same(left: CutJobs, right: CutJobs) -> None:
    for field in dataclasses.fields(CutJobs):
        np.testing.assert_array_equal(getattr(left, field.name), getattr(right, field.name), err_msg=field.name)


chunk_inputs = st.lists(
    st.tuples(master_files(at_most=8), st.sampled_from(USES), master_files(at_most=5), st.booleans()),
    min_size=1,
    max_size=3,
)


@pytest.mark.slow
@with_settings(max_examples=40, deadline=None)
@given(chunk_inputs, settings(), st.sampled_from([0.0, 2500.0, 9000.0]))
def test_a_decoded_cut_gives_the_same_jobs(cases: list[Any], rules: SplitSettings, scratch_mb: float) -> None:
    chunks: list[Parts] = [
        [(files, DatasetUse()), *([(secondary_files, use)] if secondary else [])]
        for files, use, secondary_files, secondary in cases
    ]
    work = cycle(chunks, [rules] * len(chunks))
    decoded = cycle_work(stored(work))
    limits = [CutLimits(scratch_mb=scratch_mb), CutLimits(maxtime_s=7000.0, cores=8)]
    for row in range(len(chunks)):
        for before, after in zip(all_jobs(work, row, limits), all_jobs(decoded, row, limits), strict=True):
            assert_same(before, after)


@pytest.mark.parametrize("mask", ["", "1", "0", "1100", "0011", "0101", "1111", "0000"])
def test_files_held_by_a_replica_are_stored(mask: str) -> None:
    files = plain_files(len(mask))
    held = np.array([letter == "1" for letter in mask], dtype=np.bool_)
    work = cycle([[(files, DatasetUse())]] * 2, [SplitSettings()] * 2, (None, held, held, None))
    decoded = cycle_work(stored(work))
    assert decoded.held[0] is None and decoded.held[3] is None
    for decoded_mask in decoded.held[1:3]:
        assert decoded_mask is not None and decoded_mask.tolist() == held.tolist()


def test_chunks_with_a_shared_stored_cut_give_the_same_jobs() -> None:
    files, other_files = plain_files(4), plain_files(7)
    held = tuple(np.array([letter == "1" for letter in mask]) for mask in ("0011", "1111", "1" * 7, "0" * 7) * 2)
    chunks = [[(files, DatasetUse())], [(other_files, DatasetUse(files_per_job=2))]] * 2
    separate = stored(cycle(chunks, [SplitSettings(files_per_job=count) for count in (2, 3, 2, 3)], held))
    shared = dataclasses.replace(separate, cuts=separate.cuts[:2] * 2)
    assert shared.cuts == separate.cuts and shared.cuts[0] is not separate.cuts[2]
    work_apart, work_shared = cycle_work(separate), cycle_work(shared)
    for row in range(4):
        for jobs_apart, jobs_shared in zip(
            all_jobs(work_apart, row, [CutLimits()]), all_jobs(work_shared, row, [CutLimits()]), strict=True
        ):
            assert_same(jobs_apart, jobs_shared)
    assert [None if mask is None else mask.tolist() for mask in work_apart.held] == [
        None if mask is None else mask.tolist() for mask in work_shared.held
    ]


def test_equal_files_take_almost_no_space() -> None:
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
    stored_work = stored(cycle([[(files, DatasetUse())]], [SplitSettings()]))
    node: Any = stored_work.cuts[0]
    for step in path[:-1]:
        node = node[step]
    node[path[-1]] = value
    with pytest.raises(WorkCorruptError):
        cycle_work(stored_work)


def test_a_chunk_stored_without_its_files_is_refused() -> None:
    stored_work = stored(cycle([[(plain_files(5), DatasetUse())]], [SplitSettings()]))
    with pytest.raises(WorkCorruptError, match="it was not stored"):
        cycle_work(dataclasses.replace(stored_work, cuts=(None,)))
