from __future__ import annotations

import numpy as np
import pytest

from broker.work.split_settings import SplitSettings, job_breaks, next_breaks, range_breaks, unlimited_files
from tests.work.files_for_tests import file_table

Row = dict[str, int | None]


@pytest.mark.parametrize(
    ("first", "second", "broken"),
    [
        # inside one file: the next range follows or not
        (
            {"lfn": 1, "start": 0, "end": 99, "nevents": 500},
            {"lfn": 1, "start": 100, "end": 199, "nevents": 500},
            False,
        ),
        ({"lfn": 1, "start": 0, "end": 99, "nevents": 500}, {"lfn": 1, "start": 101, "end": 199, "nevents": 500}, True),
        ({"lfn": 1, "start": 0, "end": 99, "nevents": 500}, {"lfn": 1, "start": 99, "end": 199, "nevents": 500}, True),
        # the name changes inside a range
        ({"lfn": 1, "start": 0, "end": 99, "nevents": 500}, {"lfn": 2, "start": 100, "end": 199, "nevents": 500}, True),
        # at the end of the file the next one starts at 0
        (
            {"lfn": 1, "start": 400, "end": 499, "nevents": 500},
            {"lfn": 2, "start": 0, "end": 99, "nevents": 500},
            False,
        ),
        ({"lfn": 1, "start": 400, "end": 499, "nevents": 500}, {"lfn": 2, "start": 1, "end": 99, "nevents": 500}, True),
        # unknown numbers of events: the range continues
        ({"lfn": 1, "start": 0, "end": 99}, {"lfn": 1, "start": 100, "end": 199}, False),
        ({"lfn": 1, "start": 0, "end": 99}, {"lfn": 2, "start": 0, "end": 99}, True),
        # no ranges: nothing to continue
        ({"lfn": 1, "nevents": 500}, {"lfn": 2, "nevents": 500}, False),
        ({"lfn": 1, "start": 0, "end": None}, {"lfn": 2, "start": 7, "end": 9}, False),
        ({"lfn": 1, "start": 0, "end": 99}, {"lfn": 2, "start": None, "end": 9}, False),
    ],
)
def test_event_ranges_break_unless_they_follow_each_other(first: Row, second: Row, broken: bool) -> None:
    assert range_breaks(file_table([first, second])).tolist() == [True, broken]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (SplitSettings(), [True, False, False, False]),
        (SplitSettings(boundary=1), [True, False, True, True]),
        (SplitSettings(boundary=2), [True, False, True, True]),
        (SplitSettings(boundary=3), [True, False, True, True]),
        (SplitSettings(by_lumi=True), [True, True, False, False]),
        (SplitSettings(events_per_job=5), [True, True, True, True]),
        (SplitSettings(dynamic=True), [True, True, True, True]),
        (SplitSettings(files_per_job=5, events_per_job=5, dynamic=True), [True, False, False, False]),
    ],
)
def test_job_breaks(settings: SplitSettings, expected: list[bool]) -> None:
    ranges: Row = {"start": 5, "end": 9, "nevents": 100}
    files = file_table(
        [
            ranges | {"boundary": 1, "lumi": None},
            ranges | {"boundary": 1, "lumi": 4},
            ranges | {"boundary": 2, "lumi": 4},
            ranges | {"boundary": None, "lumi": 4},
        ]
    )
    assert job_breaks(files, settings).tolist() == expected


def test_next_breaks() -> None:
    assert next_breaks(np.array([True, False, True, True, False])).tolist() == [2, 2, 3, 5, 5]
    assert next_breaks(np.array([], dtype=np.bool_)).tolist() == []


def test_only_a_file_with_a_boundary_has_no_maximum() -> None:
    files = file_table([{"boundary": 1}, {"boundary": None}])
    assert unlimited_files(files, SplitSettings(boundary=3)).tolist() == [True, False]
    assert unlimited_files(files, SplitSettings(boundary=2)).tolist() == [False, False]
