"""Parts of files held by replicas: uniting parts equals the union of the files."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from broker.engine.job.input_lookup import united_parts
from broker.work.input_files import DatasetUse
from broker.work.locality import parts_of_replicas
from tests.work.files_for_tests import file_table, one_chunk


@pytest.mark.slow
@settings(max_examples=300)
@given(st.data())
def test_united_parts_equal_the_union_of_files(data: st.DataObject) -> None:
    """A name may recur in several rows; a replica that holds one of these rows has the file."""
    names = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=8))
    inputs = one_chunk(
        (file_table([{"fileid": index, "lfn": name, "size": name} for index, name in enumerate(names)]), DatasetUse())
    )
    count = data.draw(st.integers(1, 4))
    masks = np.array(
        [data.draw(st.lists(st.booleans(), min_size=len(names), max_size=len(names))) for _ in range(count)]
    )
    tape = np.array(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    held = parts_of_replicas(inputs, np.zeros(count, dtype=np.int64), list(masks), {0})
    united = united_parts(held, np.zeros(count, dtype=np.int64), tape, None, 1)

    def files(rows: np.ndarray) -> set[int]:
        return {name for row in masks[rows] for name, is_held in zip(names, row, strict=True) if is_held}

    disk, all_names = files(~tape), files(np.ones(count, dtype=np.bool_))
    if united is None:
        # the largest replica holds everything
        assert any(files(np.arange(count) == number) == all_names for number in range(count))
        return
    (disk_bytes, all_bytes), (disk_files, all_files) = united
    assert (disk_files[0], all_files[0]) == (len(disk), len(all_names))
    assert (disk_bytes[0], all_bytes[0]) == (sum(disk), sum(all_names))


@pytest.mark.parametrize(
    ("place", "disk"), [(None, [3.0, 7.0]), ([0, 1, 0, 1], [3.0, 7.0]), ([1, 0, 1, 0], [1.0, 7.0])]
)
def test_the_first_copy_in_a_group_decides_between_disk_and_tape(place: list[int] | None, disk: list[float]) -> None:
    """Files of 1, 2 and 4 bytes: a tape holds the second and third in the first group, a disk in the other group."""
    masks = [np.array([True, True, False]), np.array([False, True, True])]
    inputs = one_chunk(
        (file_table([{"fileid": number, "lfn": number, "size": 2**number} for number in range(3)]), DatasetUse())
    )
    held = parts_of_replicas(inputs, np.zeros(2, dtype=np.int64), masks, {0})
    tape = np.array([False, True, False, False])
    order = None if place is None else np.array(place)
    united = united_parts(held[[0, 1, 0, 1]], np.array([0, 0, 1, 1]), tape, order, 2)
    assert united is not None
    assert united[0][1].tolist() == [7.0, 7.0]
    assert united[0][0].tolist() == disk


def test_no_parts_are_kept_without_named_files() -> None:
    masks = [np.array([True, False]), np.array([False, True])]
    inputs = one_chunk(
        (file_table([{"fileid": number, "lfn": number, "size": 1} for number in range(2)]), DatasetUse())
    )
    held = parts_of_replicas(inputs, np.zeros(2, dtype=np.int64), masks, set())
    assert held.tolist() == [None, None]
