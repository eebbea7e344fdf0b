from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, strategies as st

from broker.work.cut_jobs import CutJobs, joined_jobs, no_jobs
from broker.work.cutting import FileCutter, JobCutter, RunCutter, job_cutter
from broker.work.file_sums import runs_of
from broker.work.input_files import DatasetUse, FileTable
from broker.work.job_model import CutLimits, JobModel
from broker.work.split_settings import SplitSettings
from tests.work.files_for_tests import MB, file_table, one_chunk, plain_files
from tests.work.random_chunks import master_files, settings

pytestmark = pytest.mark.slow

MASTER = DatasetUse()
FREE = CutLimits()
EIGHT = plain_files(8, nevents=100, size=1000 * MB)


def cutter(files: FileTable, rules: SplitSettings, model: JobModel | None = None) -> JobCutter:
    return job_cutter(one_chunk((files, MASTER)), 0, rules, model or JobModel())


def spans(jobs: CutJobs) -> list[tuple[int, int]]:
    return list(zip(jobs.first.tolist(), jobs.stop.tolist(), strict=True))


def all_spans(the_cutter: JobCutter, limits: CutLimits = FREE) -> list[tuple[int, int]]:
    result: list[tuple[int, int]] = []
    while the_cutter.files_left and len(jobs := the_cutter.cut(3, limits)):
        result += spans(jobs)
    return result


@pytest.mark.parametrize(
    ("rules", "limits", "expected"),
    [
        (SplitSettings(files_per_job=3), FREE, [(0, 3), (3, 6), (6, 8)]),
        (SplitSettings(files_per_job=3), CutLimits(scratch_mb=2000), [(0, 3), (3, 6), (6, 8)]),
        (SplitSettings(events_per_job=250), FREE, [(0, 2), (2, 4), (4, 6), (6, 8)]),
        (SplitSettings(max_files=5), FREE, [(0, 5), (5, 8)]),
        (SplitSettings(max_events=300), FREE, [(0, 3), (3, 6), (6, 8)]),
        # 1000 MB a file + 1800 MB: 3 files need 4800 MB, strictly below the limit
        (SplitSettings(), CutLimits(scratch_mb=4801), [(0, 3), (3, 6), (6, 8)]),
        (SplitSettings(), CutLimits(scratch_mb=4800), [(0, 2), (2, 4), (4, 6), (6, 8)]),
        (SplitSettings(), CutLimits(scratch_mb=10), [(n, n + 1) for n in range(8)]),
        (SplitSettings(gb_per_job=3), FREE, [(0, 3), (3, 6), (6, 8)]),
        (SplitSettings(merging=True, max_files=50, max_output_gb=5.0, boundary=3), FREE, [(0, 4), (4, 8)]),
    ],
)
def test_jobs_by_the_limits(rules: SplitSettings, limits: CutLimits, expected: list[tuple[int, int]]) -> None:
    assert all_spans(cutter(EIGHT, rules), limits) == expected


@pytest.mark.parametrize(
    ("maxtime_s", "expected"),
    [
        # 600 s + 1250 s a file
        (3099, [(n, n + 1) for n in range(8)]),
        (3100, [(0, 2), (2, 4), (4, 6), (6, 8)]),
        (4349, [(0, 2), (2, 4), (4, 6), (6, 8)]),
        (4350, [(0, 3), (3, 6), (6, 8)]),
    ],
)
def test_jobs_by_walltime(maxtime_s: float, expected: list[tuple[int, int]]) -> None:
    model = JobModel(hs06s_per_event=900, base_walltime_s=600, efficiency=0.9)
    limits = CutLimits(maxtime_s=maxtime_s, cores=8, corepower=10)
    assert all_spans(cutter(EIGHT, SplitSettings(), model), limits) == expected


@pytest.mark.parametrize(("mintime_s", "job_count"), [(600 + 2500, 4), (600 + 2501, 0)])
@pytest.mark.parametrize(
    "rules", [SplitSettings(files_per_job=2, dynamic=True), SplitSettings(max_files=2, dynamic=True)]
)
def test_a_dynamic_job_below_the_minimum_time_is_not_cut(
    rules: SplitSettings, mintime_s: float, job_count: int
) -> None:
    model = JobModel(hs06s_per_event=900, base_walltime_s=600, efficiency=0.9)
    limits = CutLimits(mintime_s=mintime_s, cores=8, corepower=10)
    dynamic_cutter = cutter(EIGHT, rules, model)
    assert len(dynamic_cutter.cut(9, limits)) == job_count
    assert dynamic_cutter.files_left == 8 - 2 * job_count
    fixed_cutter = cutter(EIGHT, SplitSettings(files_per_job=2), model)
    assert len(fixed_cutter.cut(9, limits)) == 4


def test_jobs_before_a_too_short_one_are_cut() -> None:
    files = file_table([{"nevents": 100}, {"nevents": 100}, {"nevents": 1}, {"nevents": 100}])
    model = JobModel(hs06s_per_event=10, efficiency=1.0)
    limits = CutLimits(mintime_s=100, cores=1, corepower=10)
    for dynamic_cutter in (
        cutter(files, SplitSettings(files_per_job=1, dynamic=True), model),
        FileCutter(one_chunk((files, MASTER)), 0, SplitSettings(files_per_job=1, dynamic=True), model),
    ):
        assert spans(dynamic_cutter.cut(9, limits)) == [(0, 1), (1, 2)]
        assert dynamic_cutter.files_left == 2


def test_estimates_of_jobs() -> None:
    files = file_table(
        [{"nevents": 100, "size": 1000 * MB}, {"nevents": 50, "size": None}, {"nevents": 10, "size": MB}]
    )
    model = JobModel(
        hs06s_per_event=800, base_walltime_s=60, efficiency=1.0, out_bytes_per_event=20 * MB, work_bytes=400 * MB
    )
    jobs = cutter(files, SplitSettings(files_per_job=2), model).cut(5, CutLimits(cores=8, corepower=10))
    assert jobs.events.tolist() == [150, 10]
    assert jobs.input_files.tolist() == [2, 1]
    assert jobs.input_bytes.tolist() == [1000 * MB, MB]
    assert jobs.output_mb.tolist() == [3000, 200]
    assert jobs.disk_mb.tolist() == [1000 + 3000 + 400, 1 + 1500 + 400]
    assert jobs.walltime_s.tolist() == [60 + 1000 + 500, 60 + 100]


def test_positions_count_all_files() -> None:
    inputs = one_chunk((plain_files(2, nevents=1), MASTER), (plain_files(6, nevents=1), DatasetUse(nosplit=True)))
    jobs = job_cutter(inputs, 0, SplitSettings(files_per_job=1), JobModel()).cut(9, FREE)
    assert spans(jobs) == [(0, 1), (1, 2)]
    assert jobs.extra.tolist() == [2, 3, 4, 5, 6, 7] * 2
    assert jobs.extra_offsets.tolist() == [0, 6, 12]


@pytest.mark.parametrize("count", [1, 3])
def test_positions_in_a_later_chunk_start_after_the_files_of_earlier_chunks(count: int) -> None:
    """The master of the second chunk follows 2 + 3 files, its secondary follows the master."""
    parts = [(plain_files(size, nevents=1), MASTER) for size in (2, 3, 4, count)]
    one_chunk_inputs = one_chunk(*parts)
    inputs = dataclasses.replace(
        one_chunk_inputs, chunk=np.array([0, 0, 1, 1]), is_master=np.array([True, False, True, False])
    )
    jobs = job_cutter(inputs, 1, SplitSettings(files_per_job=2), JobModel()).cut(9, FREE)
    assert spans(jobs) == [(5, 7), (7, 9)]
    assert jobs.extra.tolist() == list(range(9, 9 + count))
    assert jobs.extra_offsets.tolist() == [0, min(count, 2), count]


def test_secondaries_count_against_the_limits() -> None:
    secondary = file_table([{"lfn": 100 + number, "size": 500 * MB} for number in range(8)])
    inputs = one_chunk((EIGHT, MASTER), (secondary, MASTER))
    limits = CutLimits(scratch_mb=4801)  # 1500 MB per pair of files: two pairs fit beside 1800 MB
    assert all_spans(job_cutter(inputs, 0, SplitSettings(), JobModel()), limits) == [(0, 2), (2, 4), (4, 6), (6, 8)]


@pytest.mark.parametrize("rules", [SplitSettings(files_per_job=2), SplitSettings(max_files=2)])
def test_a_cutter_can_be_rewound(rules: SplitSettings) -> None:
    secondary = file_table([{"lfn": 100 + number} for number in range(8)])
    for inputs in (one_chunk((EIGHT, MASTER)), one_chunk((EIGHT, MASTER), (secondary, MASTER))):
        rewindable = job_cutter(inputs, 0, rules, JobModel())
        rewindable.cut(1, FREE)
        mark = rewindable.mark()
        second_jobs = rewindable.cut(2, FREE)
        assert rewindable.next_file == 6
        rewindable.rewind(mark)
        assert (rewindable.next_file, rewindable.files_left) == (2, 6)
        repeated_jobs = rewindable.cut(2, FREE)
        assert spans(repeated_jobs) == spans(second_jobs)
        assert repeated_jobs.extra.tolist() == second_jobs.extra.tolist()


def test_limits_may_change_from_job_to_job() -> None:
    cutter_of_eight = cutter(EIGHT, SplitSettings())
    assert spans(cutter_of_eight.cut(1, CutLimits(scratch_mb=4801))) == [(0, 3)]
    assert spans(cutter_of_eight.cut(1, CutLimits(scratch_mb=2801))) == [(3, 4)]
    assert spans(cutter_of_eight.cut(5, FREE)) == [(4, 8)]


@pytest.mark.parametrize(("names", "expected"), [([], True), ([1, 1, 2], True), ([1, 2, 1], False)])
def test_names_in_one_run(names: list[int], expected: bool) -> None:
    files = file_table([{"lfn": name} for name in names])
    assert one_chunk((files, MASTER)).sums.names_in_one_run(0) is expected


def test_a_name_that_recurs_later_is_cut_file_by_file() -> None:
    files = file_table([{"lfn": 1, "size": 5}, {"lfn": 2, "size": 7}, {"lfn": 1, "size": 5}])
    file_cutter = cutter(files, SplitSettings(files_per_job=3))
    assert isinstance(file_cutter, FileCutter)
    jobs = file_cutter.cut(5, FREE)
    assert (jobs.input_files.tolist(), jobs.input_bytes.tolist()) == ([2], [12])
    assert isinstance(cutter(EIGHT, SplitSettings()), RunCutter)


LIMITS = st.builds(
    CutLimits,
    scratch_mb=st.sampled_from([0.0, 1900.0, 6000.5]),
    maxtime_s=st.sampled_from([0.0, 3000.0]),
    mintime_s=st.sampled_from([0.0, 900.0]),
    cores=st.sampled_from([1.0, 8.0]),
    corepower=st.sampled_from([0.0, 12.5]),
    direct_io=st.booleans(),
)
MODELS = st.builds(
    JobModel,
    hs06s_per_event=st.sampled_from([float("nan"), 30.0]),
    walltime_s_per_mb=st.sampled_from([float("nan"), 2.0]),
    base_walltime_s=st.sampled_from([0.0, 600.0]),
    efficiency=st.sampled_from([0.0, 0.9]),
    out_bytes_per_event=st.sampled_from([0.0, 3.3e6]),
    out_bytes_per_mb=st.sampled_from([0.0, 1.5e6]),
    work_bytes=st.sampled_from([0.0, 5e8]),
)


@given(
    files=master_files(),
    rules=settings(),
    model=MODELS,
    queues=st.lists(st.tuples(st.integers(1, 4), LIMITS), min_size=1, max_size=6),
)
def test_both_cutters_give_the_same_jobs(
    files: FileTable, rules: SplitSettings, model: JobModel, queues: list[tuple[int, CutLimits]]
) -> None:
    inputs = one_chunk((files, MASTER))
    fast, exact = RunCutter(runs_of(files), 0, rules, model), FileCutter(inputs, 0, rules, model)
    for count, limits in queues:
        fast_jobs, exact_jobs = fast.cut(count, limits), exact.cut(count, limits)
        for name in ("first", "stop", "events", "input_files", "input_bytes", "disk_mb"):
            assert getattr(fast_jobs, name).tolist() == getattr(exact_jobs, name).tolist(), name
        np.testing.assert_array_equal(fast_jobs.walltime_s, exact_jobs.walltime_s)
        np.testing.assert_array_equal(fast_jobs.output_mb, exact_jobs.output_mb)
        assert fast.files_left == exact.files_left


@given(files=master_files(), rules=settings(), model=MODELS, limits=LIMITS)
def test_jobs_follow_each_other_without_gaps(
    files: FileTable, rules: SplitSettings, model: JobModel, limits: CutLimits
) -> None:
    run_cutter = RunCutter(runs_of(files), 0, rules, model)
    result = all_spans(run_cutter, limits)
    assert [start for start, _ in result] == [0, *[stop for _, stop in result]][: len(result)]
    assert all(start < stop for start, stop in result)
    assert run_cutter.files_left == len(files) - (result[-1][1] if result else 0)


def test_joining_jobs() -> None:
    inputs = one_chunk((EIGHT, MASTER), (plain_files(3), DatasetUse(nosplit=True)))
    cutter_of_eight = job_cutter(inputs, 0, SplitSettings(files_per_job=4), JobModel())
    jobs = joined_jobs([cutter_of_eight.cut(1, FREE), no_jobs(), cutter_of_eight.cut(1, FREE)])
    assert spans(jobs) == [(0, 4), (4, 8)]
    assert jobs.extra_offsets.tolist() == [0, 3, 6]
    assert len(joined_jobs([])) == 0
