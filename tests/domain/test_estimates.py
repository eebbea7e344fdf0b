"""Estimates of what jobs need; the tests of the rules cover the limits."""

from __future__ import annotations

import numpy as np
import pytest

from broker.domain import estimates
from broker.domain.arrays import Floats, texts

NAN = np.nan


def column(*values: float) -> Floats:
    return np.array(values, dtype=np.float64)


def test_a_value_is_set_unless_null_or_zero() -> None:
    assert estimates.is_set(column(NAN, 0, -1, 2)).tolist() == [False, False, True, True]
    assert estimates.or_else(column(NAN, 0, -1, 2), 7).tolist() == [7, 7, -1, 2]


def test_requested_memory() -> None:
    merging = np.array([False, False, False, True, True, True, True])
    chunk = column(1000, NAN, NAN, 1000, 3000, 1000, NAN)
    task = column(2000, 2000, NAN, 9000, 9000, 9000, 9000)
    merge = column(NAN, NAN, NAN, 1500, 2500, NAN, 4000)
    expected = [2000, 2000, 0, 2000, 3000, 1000, 4000]
    assert estimates.requested_ram_mb(merging, chunk, task, merge).tolist() == expected


def test_memory_is_multiplied_by_cores_only_in_per_core_units() -> None:
    per_core = estimates.is_per_core(texts(["MBPerCore", "MBPerCoreFixed", "MB", None]))
    assert per_core.tolist() == [True, True, False, False]
    needed = estimates.memory_mb(column(2000), column(500), per_core, np.array([False]), column(8))
    assert needed.tolist() == pytest.approx([14850, 14850, 2250, 2250])


def test_units_of_disk() -> None:
    units = texts(["GB", "GBPerEvent", "MB", "kBPerEvents", "B", None, "gb"])
    assert estimates.disk_unit_bytes(units).tolist() == [2.0**30, 2.0**30, 2.0**20, 1024, 1, 1, 1]
    assert estimates.is_per_event(units).tolist() == [False, True, False, True, False, False, False]


def test_output_and_work_space_have_floors() -> None:
    mb = estimates.MB
    out = estimates.output_bytes(
        column(2, 2, -1, NAN), texts(["MBPerEvent", "MB", "GB", "GB"]), column(1000), column(800)
    )
    assert (out / mb).tolist() == [2000, 1600, 1500, 1500]
    work = estimates.workdir_bytes(column(299, 301, NAN), texts(["MB", "MB", "GB"]))
    assert (work / mb).tolist() == [300, 301, 300]
    assert estimates.whole_mb(column(mb - 1, mb, 2 * mb - 1)).tolist() == [0, 1, 1]


def test_scratch_is_shared_by_single_core_jobs_only() -> None:
    single = estimates.takes_one_core_of_scratch(column(NAN, 0, 1, 8, 1, 1), column(NAN, 0, 0, 0, 1, 2))
    assert single.tolist() == [True, True, True, False, False, False]
    assert estimates.scratch_limit_mb(column(8000), column(8), np.array([True, False])).tolist() == [1000, 8000]
    assert estimates.scratch_limit_mb(column(0, NAN), column(8), np.array([True])).tolist() == [np.inf, np.inf]


def test_cpu_time_in_its_units() -> None:
    units = texts(["HS06sPerEvent", "HS06sPerEventFixed", "mHS06sPerEvent", "mHS06sPerEventFixed", "s", None])
    cputime = estimates.cputime_hs06s(column(500), units)
    assert cputime[:4].tolist() == [500, 500, 0.5, 0.5]
    assert np.isnan(cputime[4:]).all()
    assert estimates.is_hs06(units).tolist() == [True] * 4 + [False] * 2


def test_demand_and_rate() -> None:
    assert estimates.cpu_demand_hs06s(column(9), column(100), column(90, 0, NAN)).tolist() == [1000, 0, 0]
    assert np.isnan(estimates.cpu_demand_hs06s(column(NAN), column(100), column(90, 0))).all()
    assert estimates.cpu_rate_hs06(column(8, 0, NAN, 8), column(10, 20, 0, NAN)).tolist() == [80, 20, 10, 80]
    assert estimates.event_service_divisor(column(0, 2, NAN), column(0, 4, NAN)).tolist() == [3, 10, 3]
    assert estimates.base_walltime_s(column(NAN, 0, 5)).tolist() == [600, 0, 5]
