from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from broker.work.file_sums import FileSums, runs_of
from broker.work.input_files import MAX_FILE_BYTES, FileTable, joined
from tests.work.files_for_tests import plain_files
from tests.work.random_chunks import master_files


def sums_of(parts: list[FileTable]) -> FileSums:
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
    return FileSums(joined(parts), offsets)


@pytest.mark.slow
@example(parts=[plain_files(2, lfn=1), plain_files(1, lfn=1)])
@settings(max_examples=15)
@given(parts=st.lists(master_files(), max_size=3))
def test_sums_of_a_part_equal_those_of_the_part_alone(parts: list[FileTable]) -> None:
    sums = sums_of(parts)
    for position, part in enumerate(parts):
        runs, runs_of_part = sums.runs(position), runs_of(part)
        assert (len(runs), runs.lists) == (len(part), runs_of_part.lists)
        first = np.arange(len(part))
        for stop in (first + 1, np.full(len(part), len(part))):
            assert runs.input_bytes(first, stop).tolist() == runs_of_part.input_bytes(first, stop).tolist()
            assert runs.input_files(first, stop).tolist() == runs_of_part.input_files(first, stop).tolist()
        assert runs.files.lfn_hash.tolist() == part.lfn_hash.tolist()
        positions_of_names = {tuple(np.flatnonzero(part.lfn_hash == name)) for name in part.lfn_hash.tolist()}
        assert sums.names_in_one_run(position) == all(
            rows[-1] - rows[0] == len(rows) - 1 for rows in positions_of_names
        )


def test_sums_of_a_chunk_are_exact_even_if_sums_of_all_files_overflow() -> None:
    largest_file = plain_files(1, size=MAX_FILE_BYTES)
    many_files = FileTable(
        *(np.repeat(getattr(largest_file, field.name), 20_000) for field in dataclasses.fields(largest_file))
    )
    many_files = dataclasses.replace(many_files, lfn_hash=np.arange(20_000))
    runs = sums_of([many_files, plain_files(3, size=7)]).runs(1)
    assert (runs.lists.size, runs.lists.bytes) == ([0, 7, 14, 21], [0, 7, 14, 21])
