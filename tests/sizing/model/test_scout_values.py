from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from broker.sizing.model.scout_values import (
    EndedJobs,
    ScoutSettings,
    TaskRequest,
    sample,
    scout_values,
)

MB = 1024


def jobs(n: int = 4, **columns: Any) -> EndedJobs:
    plain: dict[str, Any] = {
        "cores": 1.0, "maxpss_kb": 1000.0 * MB, "vmpeak_kb": math.nan, "wall_s": 7200.0, "cpu_s": 7000.0,
        "core_power": 10.0, "input_mb": 100.0, "events": 1000.0, "output_bytes": 1024.0**2 * 50,
        "workdir_mb": math.nan, "disk_io": 7200.0 * 5,
    }  # fmt: skip
    pseudo = columns.pop("is_pseudo", False)
    arrays = {
        name: np.broadcast_to(np.asarray(columns.get(name, value), float), n).copy() for name, value in plain.items()
    }
    return EndedJobs(pandaid=np.arange(n), is_pseudo=np.full(n, pseudo), **arrays)


PER_CORE = TaskRequest(ramunit="MBPerCore", basewalltime_s=0, cpuefficiency_percent=100)


@pytest.mark.parametrize(
    ("columns", "task", "expected"),
    [
        ({"maxpss_kb": [1000 * MB, 2000 * MB, 3000 * MB, 4000 * MB]}, {}, 3575),  # 3250 MB at 75 %, plus 10 %
        ({"maxpss_kb": 16_000 * MB, "cores": 8}, {"baseramcount_mb": 8000}, 1100),
        ({"maxpss_kb": 0}, {}, None),
        ({"maxpss_kb": 1000 * MB}, {"ramunit": "MBPerCoreFixed"}, None),
        ({"maxpss_kb": 8000 * MB, "cores": 8}, {"ramunit": "MB"}, 8800),
        ({"maxpss_kb": 0, "vmpeak_kb": 500 * MB}, {"ramunit": None}, 550),
        ({"maxpss_kb": 100 * MB}, {"baseramcount_mb": 500}, 1),
    ],
)
def test_memory(columns: dict[str, Any], task: dict[str, Any], expected: int | None) -> None:
    values = scout_values(jobs(**columns), replace(PER_CORE, **task), ScoutSettings())
    assert values.get("ramcount") == expected


def test_memory_by_keys() -> None:
    memory = jobs(maxpss_kb=[1000 * MB, 2000 * MB, 3000 * MB, 4000 * MB])
    settings = ScoutSettings(ramcount_rank=100, ramcount_margin_percent=0)
    assert scout_values(memory, PER_CORE, settings)["ramcount"] == 4000
    assert scout_values(memory, PER_CORE, replace(settings, ramcount_min_mb=5000))["ramcount"] == 5000


@pytest.mark.parametrize(
    ("columns", "task", "expected"),
    [
        ({}, {}, (108, "HS06sPerEvent")),  # 7200 x 10 / 1000 x 1.5
        ({}, {"basewalltime_s": 7200}, (0, "mHS06sPerEvent")),
        ({"events": 100_000}, {}, (1080, "mHS06sPerEvent")),
        ({"events": 9}, {}, None),
        ({"events": 10}, {}, (10_800, "HS06sPerEvent")),
        ({"events": 9, "wall_s": 21_601.0}, {}, (36_002, "HS06sPerEvent")),
        ({"events": 1, "is_pseudo": True}, {}, (108_000, "HS06sPerEvent")),
        ({}, {"cpuefficiency_percent": 0}, (0, "mHS06sPerEvent")),
        ({}, {"cputimeunit": "HS06sPerEventFixed"}, None),
    ],
)
def test_cpu_time(columns: dict[str, Any], task: dict[str, Any], expected: tuple[int, str] | None) -> None:
    values = scout_values(jobs(**columns), replace(PER_CORE, **task), ScoutSettings())
    assert (values.get("cputime"), values.get("cputimeunit")) == (expected or (None, None))


@pytest.mark.parametrize(
    ("cpu_s", "preset", "expected"),
    [
        (7000.0, None, 105),
        (3600.0, None, 54),
        (3599.0, None, 0),
        (7000.0, 200, 200),
        (7000.0, 100, 105),
        (7000.0, -1, -1),
    ],
)
def test_walltime_is_set_by_the_longest_job_per_mb_of_input(cpu_s: float, preset: int | None, expected: int) -> None:
    values = scout_values(jobs(cpu_s=[1.0, 2.0, 3.0, cpu_s]), replace(PER_CORE, walltime=preset), ScoutSettings())
    assert (values["walltime"], values["walltimeunit"]) == (expected, "kSI2kseconds")


def test_disk_and_io() -> None:
    values = scout_values(jobs(workdir_mb=[1.0, 2.0, 30.0, 4.0]), PER_CORE, ScoutSettings())
    assert (values["outdiskcount"], values["outdiskunit"]) == (512, "kB")  # 50 MB for 100 MB of input
    assert (values["workdiskcount"], values["diskio"]) == (30, 5)
    assert values["iointensity"] == math.ceil((100 * 1024 + 50 * 1024) / 7200)
    by_event = scout_values(jobs(), replace(PER_CORE, outdiskunit="kBPerEvent"), ScoutSettings(disk_io_cap_kbps=3))
    assert (by_event["outdiskcount"], by_event["outdiskunit"], by_event["diskio"]) == (51, "kBPerEvent", 3)
    large = scout_values(jobs(output_bytes=1e14), replace(PER_CORE, workdiskcount_mb=99), ScoutSettings())
    assert large["outdiskcount"] == 10_240
    assert scout_values(jobs(0), PER_CORE, ScoutSettings()) == {}


def test_the_sample_is_always_the_same_and_spread_over_all_numbers() -> None:
    numbers = list(range(1, 5001))
    chosen = sample(numbers)
    assert chosen == sample(numbers[::-1]) and len(chosen) == 1000
    assert 2200 < np.mean(chosen) < 2800
    assert sample([3, 1]) == [1, 3]
