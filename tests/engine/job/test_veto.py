"""Causes that veto a chunk: unknown shares, caches without a version, unset core counts."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from broker.engine.job.veto import Veto
from broker.snapshot.sources.global_share_names import GLOBAL_SHARES
from tests.engine.small_work import chunk_table
from tests.snapshot.raw_grid import build, queue

RESOURCE = {"queue_id": 55, "queue_name": "hpc", "status": "active", "queue_function": "Resource"}
GRID = build(schedconfig_json=[queue("A")], jedi_work_queue=[RESOURCE])
#: A Resource work queue and another, each with a known and an unknown share.
CHUNKS = chunk_table(4, workqueue_id=[55.0, 55.0, 1.0, None], gshare=["Sim", "Gone", "Sim", "Gone"])


@pytest.mark.parametrize(
    ("causes", "vetoed"),
    [
        ([], []),
        (["share_of_resource_queue_unknown"], [1]),
        (["share_unknown"], [3]),
        (["share_unknown", "share_of_resource_queue_unknown"], [1, 3]),
    ],
)
def test_unknown_shares(causes: list[str], vetoed: list[int]) -> None:
    step = Veto().configured({"causes": causes})
    snapshot = dataclasses.replace(GRID, offered={GLOBAL_SHARES: frozenset({"Sim"})})
    initial = np.ones((4, 1), dtype=np.bool_)
    assert np.flatnonzero(step.reasons(CHUNKS, initial, snapshot)).tolist() == vetoed
    # without the list of shares no share is unknown
    assert not any(step.reasons(CHUNKS, initial, GRID))


@pytest.mark.parametrize(
    ("transhome", "vetoed"),
    [
        (None, False), ("AnalysisTransforms", False), ("AnalysisTransforms-Athena_24.0.41.1", False),
        ("AnalysisBase-25.2.30", True), ("AnalysisTransforms-", True), ("", True), ("Athena_24.0", True),
        ("AnalysisTransforms-Athena_2026-07-30T2101", False),
    ],
)  # fmt: skip
def test_a_cache_of_a_user_without_a_version(transhome: str | None, vetoed: bool) -> None:
    step = Veto().configured({"causes": ["cache_without_version"]})
    reasons = step.reasons(chunk_table(1, transhome=[transhome]), np.ones((1, 1), dtype=np.bool_), GRID)
    assert reasons == ["cache_without_version" if vetoed else ""]


@pytest.mark.parametrize(("cores", "vetoed"), [(None, True), (0.0, True), (1.0, False)])
@pytest.mark.parametrize("unit", ["HS06sPerEvent", None])
def test_a_task_without_a_number_of_cores(cores: float | None, vetoed: bool, unit: str | None) -> None:
    step = Veto().configured({"causes": ["core_count_unset"]})
    chunks = chunk_table(1, corecount=[cores], cputimeunit=[unit], cputime=[None])
    assert step.reasons(chunks, np.ones((1, 1), dtype=np.bool_), GRID) == ["core_count_unset" if vetoed else ""]
