from __future__ import annotations

import math

import numpy as np
import pytest

from broker.domain.estimates import MB
from broker.work.input_files import effective_bytes, effective_events
from broker.work.job_model import GIGABYTE_BYTES, CutLimits, JobFit, JobModel, walltimes_s
from broker.work.split_settings import SplitSettings
from tests.work.files_for_tests import file_table

GB = GIGABYTE_BYTES
FREE = CutLimits()
NORMAL = SplitSettings()


def fits(
    settings: SplitSettings = NORMAL,
    model: JobModel | None = None,
    limits: CutLimits = FREE,
    *,
    events: int = 0,
    effective_mb: float = 0,
    input_mb: float = 0,
    walltime_s: float = math.nan,
) -> bool:
    fit = JobFit(settings, model or JobModel(), limits)
    return fit.fits(events, int(effective_mb * MB), int(input_mb * MB), walltime_s)


@pytest.mark.parametrize(
    ("scratch_mb", "input_mb", "direct", "expected"),
    [
        # required: input + 1500 MB of output + 300 MB of work space, in whole MB strictly below the limit
        (2800, 999, False, True),
        (2800, 999.5, False, True),
        (2800, 1000, False, False),
        (2800.5, 1000, False, True),
        (2800, 5000, True, True),
        (1800, 5000, True, False),
        (1801, 5000, True, True),
        (0, 10**7, False, True),
        (math.nan, 10**7, False, True),
    ],
)
def test_scratch_space(scratch_mb: float, input_mb: float, direct: bool, expected: bool) -> None:
    limits = CutLimits(scratch_mb=scratch_mb, direct_io=direct)
    assert fits(SplitSettings(files_per_job=1), limits=limits, input_mb=input_mb) is expected


@pytest.mark.parametrize(
    ("work_mb", "merging", "need_mb"),
    [(0, False, 1800), (299, False, 1800), (301, False, 1801), (0, True, 2000), (499, True, 2000), (501, True, 2001)],
)
def test_work_space_has_a_floor(work_mb: int, merging: bool, need_mb: int) -> None:
    settings, model = SplitSettings(merging=merging), JobModel(work_bytes=work_mb * MB)
    assert fits(settings, model, CutLimits(scratch_mb=need_mb + 1))
    assert not fits(settings, model, CutLimits(scratch_mb=need_mb))
    fit = JobFit(settings, model, FREE)
    zero = np.zeros(1, dtype=np.int64)
    assert fit.sizes_mb(zero, zero, zero, zero)[1].tolist() == [need_mb]


@pytest.mark.parametrize(
    ("model", "events", "effective_mb", "output_mb"),
    [
        (JobModel(out_bytes_per_event=MB), 1500, 0, 1500),
        (JobModel(out_bytes_per_event=MB), 1501, 0, 1501),
        (JobModel(out_bytes_per_mb=2 * MB), 7, 1000, 2000),
        (JobModel(), 10**6, 10**6, 1500),
    ],
)
def test_output_has_a_floor_in_scratch_space(model: JobModel, events: int, effective_mb: int, output_mb: int) -> None:
    exact_limits = CutLimits(scratch_mb=output_mb + 300)
    larger_limits = CutLimits(scratch_mb=output_mb + 301)
    assert not fits(model=model, limits=exact_limits, events=events, effective_mb=effective_mb)
    assert fits(model=model, limits=larger_limits, events=events, effective_mb=effective_mb)


def test_output_of_events_and_of_input_are_added() -> None:
    fit = JobFit(SplitSettings(), JobModel(out_bytes_per_event=3 * MB, out_bytes_per_mb=2 * MB), FREE)
    events, input_bytes = np.array([100]), np.array([1000 * MB])
    output_mb, _ = fit.sizes_mb(events, input_bytes, input_bytes, copied_bytes=input_bytes)
    assert output_mb.tolist() == [2300]
    assert fit.output_bytes(100, 1000 * MB, 1000 * MB) == 2300 * MB


def test_a_merge_job_writes_a_fifth_more_than_it_reads() -> None:
    fit = JobFit(SplitSettings(merging=True), JobModel(), FREE)
    read_bytes = np.array([1000 * int(MB)])
    output_mb, disk_mb = fit.sizes_mb(read_bytes, read_bytes, read_bytes, copied_bytes=read_bytes)
    assert (output_mb.tolist(), disk_mb.tolist()) == ([1200], [1000 + 1500 + 500])


@pytest.mark.parametrize(("output_gb", "expected"), [(10, True), (10.001, False)])
def test_primary_output(output_gb: float, expected: bool) -> None:
    model = JobModel(out_bytes_per_event=output_gb * GB)
    assert fits(model=model, events=1) is expected


@pytest.mark.parametrize(("input_gb", "expected"), [(4.16, True), (4.17, False)])
def test_primary_output_of_a_merge(input_gb: float, expected: bool) -> None:
    settings = SplitSettings(merging=True, max_output_gb=5.0, boundary=3)
    assert fits(settings, input_mb=input_gb * 1024) is expected


@pytest.mark.parametrize(
    ("gb_per_job", "input_mb", "output_mb", "expected"),
    [
        (2, 2048, 0, True),
        (2, 2049, 0, False),
        (2, 1048, 2500, True),
        (2, 1049, 2500, False),
        (None, 2049, 0, True),
    ],
)
def test_gb_of_a_job_leave_room_for_output(
    gb_per_job: int | None, input_mb: int, output_mb: int, expected: bool
) -> None:
    settings, model = SplitSettings(gb_per_job=gb_per_job), JobModel(out_bytes_per_event=output_mb * MB)
    assert fits(settings, model, events=1, input_mb=input_mb) is expected


@pytest.mark.parametrize(
    ("settings", "scratch_mb", "largest_input_mb"),
    [
        (SplitSettings(), 20_000, 500_000 - 1800),
        (SplitSettings(scout=True), 20_000, 50_000 - 1800),
        (SplitSettings(), 600_000, 600_000 - 1800),
    ],
)
def test_direct_reading_without_a_rule_has_its_own_size_limit(
    settings: SplitSettings, scratch_mb: float, largest_input_mb: int
) -> None:
    limits = CutLimits(scratch_mb=scratch_mb, direct_io=True)
    assert fits(settings, limits=limits, input_mb=largest_input_mb)
    assert not fits(settings, limits=limits, input_mb=largest_input_mb + 1)


@pytest.mark.parametrize("settings", [SplitSettings(files_per_job=9), SplitSettings(events_per_job=9)])
def test_direct_reading_with_a_rule_has_no_size_limit(settings: SplitSettings) -> None:
    assert fits(settings, limits=CutLimits(scratch_mb=2000, direct_io=True), input_mb=10**7)


@pytest.mark.parametrize(
    ("rule_s", "queue_s", "walltime_s", "expected"),
    [
        (0, 0, 1e9, True),
        (0, 3600, 3600, True),
        (0, 3600, 3601, False),
        (1800, 3600, 1801, False),
        (1800, 0, 1800, True),
        (7200, 3600, 3601, False),
        (0, 3600, math.nan, True),
    ],
)
def test_walltime(rule_s: float, queue_s: float, walltime_s: float, expected: bool) -> None:
    settings = SplitSettings(max_walltime_s=rule_s)
    assert fits(settings, limits=CutLimits(maxtime_s=queue_s), walltime_s=walltime_s) is expected


@pytest.mark.parametrize(
    ("model", "limits", "expected"),
    [
        (JobModel(hs06s_per_event=100, efficiency=0.9), CutLimits(cores=8, corepower=10), [138, 69]),
        (JobModel(hs06s_per_event=100, efficiency=0.9), CutLimits(cores=0, corepower=0), [1111, 555]),
        (JobModel(hs06s_per_event=100, efficiency=0.9), CutLimits(cores=math.nan, corepower=math.nan), [1111, 555]),
        (JobModel(hs06s_per_event=100, efficiency=0.5, multiplicity=4), CutLimits(cores=1, corepower=10), [500, 250]),
        (JobModel(hs06s_per_event=100, efficiency=0), CutLimits(), [0, 0]),
        (JobModel(hs06s_per_event=-5, efficiency=1), CutLimits(), [0, 0]),
        (JobModel(walltime_s_per_mb=30), CutLimits(cores=4), [15, 22]),
        (JobModel(), CutLimits(), None),
    ],
)
def test_seconds_of_each_file(model: JobModel, limits: CutLimits, expected: list[int] | None) -> None:
    files = file_table([{"nevents": 100, "size": int(2 * MB)}, {"nevents": 50, "size": int(3 * MB)}])
    seconds = walltimes_s(model, limits, effective_events(files), effective_bytes(files))
    assert (None if seconds is None else seconds.tolist()) == expected


def test_absurd_cpu_times_stay_finite() -> None:
    files = file_table([{"nevents": 2**60}])
    model = JobModel(hs06s_per_event=1e300, efficiency=1)
    seconds = walltimes_s(model, FREE, effective_events(files), effective_bytes(files))
    assert seconds is not None
    assert 0 < int(seconds[0]) < 10**11
