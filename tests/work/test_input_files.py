from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from broker.work.input_files import (
    _SPREADS,
    MEGABYTE_BYTES,
    effective_bytes,
    effective_events,
    first_of_each_name,
    repeated_names,
    stored_bytes,
    unique_totals,
)
from tests.work.files_for_tests import file_table


@pytest.mark.parametrize(
    ("row", "events"),
    [
        ({"start": 0, "end": 999, "nevents": 5000}, 1000),
        ({"start": 7, "end": 7, "nevents": 5000}, 1),
        ({"start": 7, "end": 6}, 1),
        ({"start": 7, "end": 2}, 1),
        ({"start": None, "end": 999, "nevents": 5000}, 5000),
        ({"start": 0, "end": None, "nevents": 5000}, 5000),
        ({"nevents": 1}, 1),
        ({"nevents": 2**60}, 10**12),
        ({"nevents": 0}, 1),
        ({"nevents": -5}, 1),
        ({}, 1),
    ],
)
def test_effective_events_are_the_range_or_the_file_or_one(row: dict[str, int | None], events: int) -> None:
    assert effective_events(file_table([row])).tolist() == [events]


@pytest.mark.parametrize(
    ("row", "size"),
    [
        ({"size": 1000}, 1000),
        ({"size": 1000, "start": 0, "end": 332, "nevents": 1000}, 333),
        ({"size": 1000, "start": 0, "end": 0, "nevents": 3}, 333),
        ({"size": 1000, "start": 0, "end": 499}, 1000),
        ({"size": 1000, "start": 0, "end": 499, "nevents": 0}, 1000),
        ({"size": 1000, "start": None, "end": 499, "nevents": 1000}, 1000),
        ({"size": 1, "start": 0, "end": 0, "nevents": 1000}, MEGABYTE_BYTES),
        ({"size": 0, "start": 0, "end": 0, "nevents": 1000}, MEGABYTE_BYTES),
        ({"size": 0}, MEGABYTE_BYTES),
        ({"size": None}, MEGABYTE_BYTES),
        ({"size": -7}, MEGABYTE_BYTES),
        ({"size": 5 * 10**14, "start": 0, "end": 999_998, "nevents": 1_000_000}, 5 * 10**14 - 5 * 10**8),
        ({"size": 2**62}, 2**49),
    ],
)
def test_effective_bytes_are_scaled_to_the_event_range(row: dict[str, int | None], size: int) -> None:
    assert effective_bytes(file_table([row])).tolist() == [size]


def test_files_of_unknown_or_negative_size_have_no_stored_bytes() -> None:
    files = file_table([{"size": None}, {"size": -1}, {"size": 0}, {"size": 5}])
    assert stored_bytes(files).tolist() == [0, 0, 0, 5]


def test_a_name_counts_once_in_totals() -> None:
    files = file_table([{"lfn": 9, "size": 5}, {"lfn": 4, "size": 7}, {"lfn": 9, "size": 5}])
    assert first_of_each_name(files.lfn_hash).tolist() == [0, 1]
    assert unique_totals(files) == (2, 12)


def test_no_files_have_no_totals() -> None:
    assert unique_totals(file_table([])) == (0, 0)
    assert effective_bytes(file_table([])).dtype == np.int64


#: The last two names collide in the sorted number: one for the second owner, the other for the first.
NAMES = [7, 8, int(_SPREADS), 0]


@pytest.mark.slow
@example(rows=[(int(_SPREADS), 0), (0, 1)])
@example(rows=[(7, 0), (8, 0), (7, 0), (7, 1), (7, 0)])
@settings(max_examples=200)
@given(rows=st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 2)), max_size=12))
def test_repeated_names_of_an_owner(rows: list[tuple[int, int]]) -> None:
    names, owners = (np.array([row[column] for row in rows], dtype=np.int64) for column in (0, 1))
    assert repeated_names(names, owners).tolist() == [row in rows[:column] for column, row in enumerate(rows)]
