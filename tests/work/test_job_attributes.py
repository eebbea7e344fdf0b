from __future__ import annotations

import math

import pytest

from broker.snapshot.snapshot import ResourceType
from broker.work.cut_jobs import (
    chunk_ram_mb,
    core_count,
    job_priority,
    max_walltime_s,
    minimum_ram_mb,
    processing_type,
    resource_type,
)

NULL = math.nan


@pytest.mark.parametrize(
    ("merging", "pseudo", "task", "merge", "queue", "cores"),
    [
        (False, True, 8, NULL, 8, 8),
        (False, True, 8, NULL, 16, 16),
        (False, True, 1, NULL, 8, 1),
        (False, True, NULL, NULL, 8, 1),
        (False, True, 0, NULL, 8, 8),
        (False, False, 8, NULL, 0, 1),
        (False, False, 8, NULL, NULL, 1),
        (False, False, 8, NULL, -1, 8),
        (False, False, 0, NULL, -1, 1),
        (True, True, 8, 4, 8, 4),
        (True, True, 8, NULL, 8, 1),
        (True, True, 8, 0, 8, 1),
        (True, False, 8, NULL, 8, 8),
    ],
)
def test_cores(merging: bool, pseudo: bool, task: float, merge: float, queue: float, cores: int) -> None:
    assert core_count(merging, pseudo, task, merge, queue) == cores


@pytest.mark.parametrize(
    ("merging", "chunk", "task", "merge", "ram"),
    [
        (False, 0, 2000, NULL, 2000),
        (False, 4000, 2000, NULL, 4000),
        (False, NULL, NULL, NULL, 0),
        (False, 1500, NULL, 9000, 1500),
        (True, 0, 9000, 1000, 2000),
        (True, 3000, 9000, 1000, 3000),
        (True, 0, 9000, 4000, 4000),
        (True, 1500, 9000, NULL, 1500),
        (True, NULL, 9000, 0, 0),
    ],
)
def test_requested_memory(merging: bool, chunk: float, task: float, merge: float, ram: float) -> None:
    assert chunk_ram_mb(merging, chunk, task, merge) == ram


@pytest.mark.parametrize(
    ("merging", "ram", "unit", "base", "cores", "minimum"),
    [
        (False, 2200, "MBPerCore", 0, 8, 15840),
        (False, 2200, "MBPerCoreFixed", 500, 8, 16290),
        (False, 2000, "MBPerCore", NULL, NULL, 1800),
        (False, 2000, "MBPerCore", 100, 0, 1890),
        (False, 2000, "MB", 100, 8, 1890),
        (False, 2000, None, NULL, 8, 1800),
        (True, 2000, "MBPerCore", 500, 8, 1800),
        (False, 0, "MBPerCore", 500, 8, 0),
    ],
)
def test_memory_of_a_job(merging: bool, ram: float, unit: str | None, base: float, cores: float, minimum: int) -> None:
    assert minimum_ram_mb(merging, ram, unit, base, cores) == minimum


@pytest.mark.parametrize(
    ("merging", "scout", "current", "task", "priority"),
    [
        (True, True, 100, 100, 5000),
        (False, True, 100, 899, 901),
        (False, True, 100, 901, 902),
        (False, True, 100, NULL, 901),
        (False, False, 450, 900, 450),
        (False, False, NULL, 900, 0),
    ],
)
def test_priority(merging: bool, scout: bool, current: float, task: float, priority: int) -> None:
    assert job_priority(merging, scout, current, task) == priority


@pytest.mark.parametrize(
    ("estimate", "maxtime", "merging", "walltime"),
    [
        (3600.2, 7200, False, 3601),
        (NULL, 7200, False, 7200),
        (0, 7200, False, 7200),
        (0.5, 7200, False, 1),
        (1, 7200, False, 1),
        (3600, 7200, True, 7200),
        (NULL, NULL, False, 0),
        (NULL, -1, False, 0),
    ],
)
def test_walltime(estimate: float, maxtime: float, merging: bool, walltime: int) -> None:
    assert max_walltime_s(estimate, maxtime, merging) == walltime


KINDS = [
    ResourceType("MCORE", 2, NULL, NULL, 2000),
    ResourceType("MCORE_HIMEM", 2, NULL, 2001, NULL),
    ResourceType("SCORE", 1, 1, NULL, 2000),
    ResourceType("SCORE_HIMEM", 1, 1, 2001, 4000),
]


@pytest.mark.parametrize(
    ("cores", "ram_mb", "kind"),
    [
        (1, 0, "SCORE"),
        (1, 2000, "SCORE"),
        (1, 2001, "SCORE_HIMEM"),
        (1, 4000, "SCORE_HIMEM"),
        (1, 4001, None),
        (0, 100, "SCORE"),
        (2, 4000, "MCORE"),
        # memory per core in whole MB
        (8, 16_004, "MCORE"),
        (8, 16_005, "MCORE_HIMEM"),
        (64, 10**6, "MCORE_HIMEM"),
    ],
)
def test_resource_type(cores: int, ram_mb: int, kind: str | None) -> None:
    assert resource_type(KINDS, cores, ram_mb) == kind
    assert resource_type([], cores, ram_mb) is None


def test_merge_jobs_have_their_own_processing_type() -> None:
    assert processing_type(True, "simul") == "pmerge"
    assert processing_type(False, "simul") == "simul"
    assert processing_type(False, None) is None
