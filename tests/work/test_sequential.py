from __future__ import annotations

import pytest

from broker.work.input_files import DatasetUse, FileTable
from broker.work.sequential import SequentialCutter
from broker.work.split_settings import SplitSettings
from tests.work.files_for_tests import file_table, plain_files

MASTER = DatasetUse()


def secondary(count: int, **values: int | None) -> FileTable:
    return file_table([{"lfn": 100 + number} | values for number in range(count)])


def secondary_positions(
    master: FileTable, secondary_files: FileTable, use: DatasetUse, rules: SplitSettings
) -> list[list[int]]:
    """Positions of the secondary's files, job by job."""
    cutter = SequentialCutter([(master, MASTER), (secondary_files, use)], rules)
    position, jobs = cutter.start(), []
    while (cut := cutter.next_job(position)) is not None:
        job, position = cut
        jobs.append(job.secondaries[0].tolist())
    return jobs


@pytest.mark.parametrize(
    ("use", "available", "expected"),
    [
        # six master files, two per job
        (DatasetUse(nosplit=True), 3, [[0, 1, 2], [0, 1, 2], [0, 1, 2]]),
        (DatasetUse(), 6, [[0, 1], [2, 3], [4, 5]]),
        (DatasetUse(), 5, [[0, 1], [2, 3], [4]]),
        (DatasetUse(ratio=0.5), 3, [[0], [1], [2]]),
        (DatasetUse(ratio=0.6), 6, [[0, 1], [2, 3], [4, 5]]),
        (DatasetUse(files_per_job=1), 2, [[0], [1], []]),
        (DatasetUse(files_per_job=3), 7, [[0, 1, 2], [3, 4, 5], [6]]),
        # reusable: starts again with the first file when too few are left
        (DatasetUse(reusable=True), 5, [[0, 1], [2, 3], [0, 1]]),
        (DatasetUse(reusable=True), 4, [[0, 1], [2, 3], [0, 1]]),
        (DatasetUse(reusable=True, files_per_job=2), 2, [[0, 1], [0, 1], [0, 1]]),
        # repeat: wraps around at the end of a job
        (DatasetUse(repeat=True), 4, [[0, 1], [2, 3], [0, 1]]),
        (DatasetUse(repeat=True), 3, [[0, 1], [2], [0, 1]]),
        # 200 master events per job, 100 events per secondary file
        (DatasetUse(event_ratio=1.0), 6, [[0, 1], [2, 3], [4, 5]]),
        (DatasetUse(event_ratio=0.5), 6, [[0], [1], [2]]),
        (DatasetUse(event_ratio=0.51), 6, [[0, 1], [2, 3], [4, 5]]),
        (DatasetUse(event_ratio=1.0, reusable=True), 3, [[0, 1], [0, 1], [0, 1]]),
    ],
)
def test_files_of_secondaries(use: DatasetUse, available: int, expected: list[list[int]]) -> None:
    master = plain_files(6, nevents=100)
    assert (
        secondary_positions(master, secondary(available, nevents=100), use, SplitSettings(files_per_job=2)) == expected
    )


def test_a_boundary_rule_takes_secondary_files_of_the_same_boundary() -> None:
    master = file_table([{"boundary": 1}, {"boundary": 1}, {"boundary": 2}, {"boundary": None}])
    secondary_files = file_table(
        [{"lfn": 100 + number, "boundary": boundary} for number, boundary in enumerate((2, 1, 1, 1))]
    )
    assert secondary_positions(master, secondary_files, MASTER, SplitSettings(boundary=1)) == [[1, 2, 3], [0], [1]]


@pytest.mark.parametrize(("use", "masters"), [(DatasetUse(), 500), (DatasetUse(files_per_job=1), 999)])
def test_a_job_has_at_most_a_thousand_files_in_total(use: DatasetUse, masters: int) -> None:
    settings = SplitSettings(events_per_job=10**6, max_files=5000)
    cutter = SequentialCutter([(plain_files(1100), MASTER), (secondary(1100), use)], settings)
    cut = cutter.next_job(cutter.start())
    assert cut is not None
    assert (cut[0].stop, len(cut[0].secondaries[0])) == (masters, 1000 - masters)


def test_a_job_ends_before_the_first_file_that_does_not_fit() -> None:
    cutter = SequentialCutter([(plain_files(9), MASTER)], SplitSettings())
    cut = cutter.next_job(cutter.start(), lambda job: job.stop - job.first <= 4)
    assert cut is not None
    assert (cut[0].first, cut[0].stop, cut[1].master) == (0, 4, 4)
    single_file = cutter.next_job(cut[1], lambda job: False)
    assert single_file is not None
    assert (single_file[0].first, single_file[0].stop) == (4, 5)
