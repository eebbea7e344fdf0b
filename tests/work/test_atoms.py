from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from broker.work.atoms import (
    AtomSizes,
    atoms_by_sums,
    atoms_file_by_file,
    chunk_sizes,
    job_starts,
    longest_run_events,
)
from broker.work.chunks import ChunkTable, InputFiles
from broker.work.input_files import DatasetUse, FileTable, effective_events, joined, unique_totals
from broker.work.split_settings import SplitSettings, smallest_job
from tests.work.files_for_tests import MB, file_table, one_chunk, plain_files
from tests.work.random_chunks import Row, master_files, settings

pytestmark = pytest.mark.slow

MASTER = DatasetUse()
SEVEN = plain_files(7, nevents=100, size=2 * MB)


def starts(files: FileTable, rules: SplitSettings) -> list[int]:
    return job_starts(files, smallest_job(rules)).tolist()


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (SplitSettings(), [0, 1, 2, 3, 4, 5, 6]),
        (SplitSettings(files_per_job=3), [0, 3, 6]),
        (SplitSettings(files_per_job=300, max_files=200), [0]),
        (SplitSettings(files_per_job=3, events_per_job=100), [0, 3, 6]),
        (SplitSettings(events_per_job=99), [0, 1, 2, 3, 4, 5, 6]),
        (SplitSettings(events_per_job=200), [0, 2, 4, 6]),
        (SplitSettings(events_per_job=299), [0, 2, 4, 6]),
        (SplitSettings(events_per_job=300), [0, 3, 6]),
        (SplitSettings(events_per_job=10_000, max_files=4), [0, 4]),
        (SplitSettings(events_per_job=300, max_events=250), [0, 2, 4, 6]),
    ],
)
def test_job_starts_by_numbers_of_files_and_events(rules: SplitSettings, expected: list[int]) -> None:
    assert starts(SEVEN, rules) == expected


@pytest.mark.parametrize(
    ("rows", "rules", "expected"),
    [
        # NE: a gap in the events ends the job; the end of a file does not
        (
            [
                {"lfn": 1, "start": 0, "end": 99, "nevents": 200},
                {"lfn": 1, "start": 100, "end": 199, "nevents": 200},
                {"lfn": 2, "start": 0, "end": 99, "nevents": 300},
                {"lfn": 2, "start": 200, "end": 299, "nevents": 300},
            ],
            SplitSettings(events_per_job=1000),
            [0, 3],
        ),
        # NE: the name changes before the end of the file
        (
            [
                {"lfn": 1, "start": 0, "end": 99, "nevents": 200},
                {"lfn": 2, "start": 100, "end": 199, "nevents": 200},
            ],
            SplitSettings(events_per_job=1000),
            [0, 1],
        ),
        # GB 1 and 2: the boundary and the number of files end a job; GB 3: only the boundary does
        ([{"boundary": b} for b in (1, 1, 1, 2)], SplitSettings(files_per_job=2, boundary=1), [0, 2, 3]),
        ([{"boundary": b} for b in (1, 1, 1, 2)], SplitSettings(files_per_job=2, boundary=2), [0, 2, 3]),
        ([{"boundary": b} for b in (1, 1, 1, 2)], SplitSettings(files_per_job=2, boundary=3), [0, 3]),
        ([{"boundary": None} for _ in range(4)], SplitSettings(files_per_job=2, boundary=3), [0, 2]),
        # RL: the lumi block ends a job
        ([{"lumi": n} for n in (5, 5, 6, 6, 6)], SplitSettings(files_per_job=2, by_lumi=True), [0, 2, 4]),
    ],
)
def test_job_starts_by_event_ranges_boundaries_and_lumi_blocks(
    rows: list[Row], rules: SplitSettings, expected: list[int]
) -> None:
    assert starts(file_table(rows), rules) == expected


@pytest.mark.parametrize(("count", "expected"), [(1000, [0]), (1001, [0, 1000])])
def test_no_job_has_more_than_a_thousand_files(count: int, expected: list[int]) -> None:
    rules = SplitSettings(events_per_job=10**9, max_files=5000)
    assert starts(plain_files(count, nevents=1), rules) == expected


def test_boundary_three_has_no_maximum_at_all() -> None:
    rules = SplitSettings(boundary=3)
    assert starts(plain_files(1500, boundary=7), rules) == [0]


def test_each_size_is_the_maximum_over_the_jobs() -> None:
    files = file_table(
        [
            {"size": 10 * MB, "nevents": 10},
            {"size": 10 * MB, "nevents": 10},
            {"size": 2 * MB, "nevents": 500},
            {"size": None, "nevents": None},
            {"size": 15 * MB, "start": 0, "end": 4, "nevents": 5000},
        ]
    )
    sizes = atoms_by_sums(files, SplitSettings(files_per_job=2))
    # jobs: files 0-1 (20 events, 20 MB), 2-3 (501 events, 3 MB, 2 MB on disk), 4 (5 events, 15 MB on disk)
    assert sizes == AtomSizes(501, 20.0, 20 * MB)


def test_bytes_of_a_name_count_once_in_a_job() -> None:
    halves: list[Row] = [{"lfn": 1, "size": 8 * MB, "nevents": 200, "start": s, "end": s + 99} for s in (0, 100)]
    assert atoms_by_sums(file_table(halves), SplitSettings(files_per_job=2)) == AtomSizes(200, 8.0, 8 * MB)
    assert atoms_by_sums(file_table(halves), SplitSettings(files_per_job=1)) == AtomSizes(100, 4.0, 8 * MB)


@pytest.mark.parametrize(
    ("use", "total_mb"),
    [
        # master files of 2 MB in jobs of three; nine secondary files of 10 MB
        (DatasetUse(nosplit=True), 6 + 90),
        (DatasetUse(), 6 + 30),
        (DatasetUse(ratio=0.5), 6 + 20),
        (DatasetUse(ratio=0.1), 6 + 10),
        (DatasetUse(files_per_job=1), 6 + 10),
        (DatasetUse(files_per_job=4), 6 + 40),
        (DatasetUse(event_ratio=1.0), 6 + 30),
        (DatasetUse(event_ratio=0.4), 6 + 20),
    ],
)
def test_bytes_of_secondaries(use: DatasetUse, total_mb: int) -> None:
    secondary = file_table([{"lfn": 100 + number, "size": 10 * MB, "nevents": 100} for number in range(9)])
    sizes = atoms_file_by_file([(SEVEN, MASTER), (secondary, use)], SplitSettings(files_per_job=3))
    assert sizes == AtomSizes(300, 6.0, total_mb * MB)


def test_a_file_of_both_datasets_counts_once() -> None:
    sizes = atoms_file_by_file([(SEVEN, MASTER), (SEVEN, DatasetUse(nosplit=True))], SplitSettings(files_per_job=7))
    assert sizes.bytes == 14 * MB


def test_events_of_a_secondary_count_where_the_master_has_no_ranges() -> None:
    secondary = file_table([{"lfn": 100 + number, "nevents": 60} for number in range(9)])
    rules = SplitSettings(events_per_job=120)
    # 120 events are two files of the secondary, so a job has two master files; by the master's events it would have one
    assert atoms_file_by_file([(SEVEN, MASTER), (secondary, MASTER)], rules).events == 200
    assert atoms_by_sums(SEVEN, rules).events == 100
    master_with_ranges = file_table([{"lfn": number, "nevents": 100, "start": 0, "end": 99} for number in range(7)])
    assert atoms_file_by_file([(master_with_ranges, MASTER), (secondary, MASTER)], rules).events == 100


@given(files=master_files(), rules=settings())
def test_sums_over_runs_agree_with_file_by_file(files: FileTable, rules: SplitSettings) -> None:
    assert atoms_by_sums(files, rules) == atoms_file_by_file([(files, MASTER)], rules)


def test_no_files_have_no_sizes() -> None:
    assert atoms_by_sums(file_table([]), SplitSettings()) == AtomSizes(0, 0.0, 0)
    assert longest_run_events(file_table([])) == 0


def test_longest_run_of_events() -> None:
    files = file_table(
        [
            {"lfn": 1, "start": 0, "end": 499, "nevents": 500},
            {"lfn": 2, "start": 0, "end": 499, "nevents": 500},
            {"lfn": 3, "start": 250, "end": 499, "nevents": 500},
        ]
    )
    assert longest_run_events(files) == 1000


def sizes_of(*parts: tuple[FileTable, DatasetUse]) -> list[float]:
    zero, flag = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.bool_)
    table = ChunkTable(zero, zero, np.zeros(1), flag, flag, flag)
    sizes = chunk_sizes(table, one_chunk(*parts), (SplitSettings(files_per_job=3),))
    return [sizes.n_files[0], sizes.total_files[0], sizes.total_bytes[0], sizes.atom_bytes[0], sizes.ready_events[0]]


def test_totals_of_a_chunk_are_over_all_real_datasets() -> None:
    secondary = file_table([{"lfn": 100, "size": 10 * MB}, {"lfn": 101, "size": None}, {"lfn": 1, "size": 2 * MB}])
    assert sizes_of((SEVEN, MASTER)) == [7, 7, 14 * MB, 6 * MB, 700]
    assert sizes_of((SEVEN, MASTER), (secondary, MASTER)) == [7, 9, 24 * MB, 16 * MB, 700]


def test_pseudo_datasets_are_in_no_total() -> None:
    pseudo = DatasetUse(pseudo=True, files_per_job=1)
    numbers = file_table([{"lfn": 200 + number, "size": 5 * MB} for number in range(7)])
    assert sizes_of((SEVEN, MASTER), (numbers, pseudo)) == [7, 7, 14 * MB, 11 * MB, 700]
    assert sizes_of((SEVEN, pseudo)) == [7, 0, 0, 6 * MB, 700]


@given(st.lists(st.tuples(master_files(at_most=9), settings()), max_size=6))
def test_sizes_of_many_chunks_equal_those_of_single_chunks(cases: list[tuple[FileTable, SplitSettings]]) -> None:
    count = len(cases)
    indices, flags = np.arange(count), np.zeros(count, dtype=np.bool_)
    offsets = np.concatenate([[0], np.cumsum([len(files) for files, _ in cases])]).astype(np.int64)
    table = joined([files for files, _ in cases])
    inputs = InputFiles(indices, indices, ~flags, (MASTER,) * count, offsets, table)
    chunks = ChunkTable(indices, indices, np.zeros(count), flags, flags, flags)
    sizes = chunk_sizes(chunks, inputs, tuple(rules for _, rules in cases))
    for index, (files, rules) in enumerate(cases):
        atom = atoms_by_sums(files, rules)
        assert (sizes.atom_events[index], sizes.atom_mb[index], sizes.atom_bytes[index]) == (
            atom.events,
            atom.mb,
            atom.bytes,
        )
        assert (sizes.total_files[index], sizes.total_bytes[index]) == unique_totals(files)
        assert sizes.longest_run_events[index] == longest_run_events(files)
        assert (sizes.n_files[index], sizes.ready_events[index]) == (len(files), effective_events(files).sum())
