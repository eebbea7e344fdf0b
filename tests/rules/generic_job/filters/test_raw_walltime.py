"""The walltime of a task against the limits of a queue, neither scaled."""

from __future__ import annotations

import numpy as np
import pytest

from broker.rules.generic_job.filters.raw_walltime import RawWalltime
from tests.rules.builders import Case, check, kept, pairs_of, rejected, tuning_for

LIMITS = {"maxtime_s": 3600.0, "mintime_s": 60.0}
CASES = [
    kept(walltime=3600, **LIMITS),
    rejected(walltime=3601, **LIMITS),
    kept(walltime=60, **LIMITS),
    rejected(walltime=59, **LIMITS),
    kept(walltime=0, **LIMITS),
    kept(walltime=None, **LIMITS),
    kept(walltime=1e9, maxtime_s=0, mintime_s=0),
    kept(walltime=1, maxtime_s=3600, mintime_s=None),
    rejected(walltime=3601, maxtime_s=3600, one_preassigned=True),
    rejected(walltime=1, maxtime_s=None),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_raw_walltime(case: Case) -> None:
    check(RawWalltime(), case)


@pytest.mark.parametrize(("maxtime", "unknown"), [(None, True), (0, False), (1, False)])
def test_a_queue_with_an_unknown_limit_cannot_be_judged(maxtime: float | None, unknown: bool) -> None:
    rule = RawWalltime()
    tasks, queues, facts, _ = kept(walltime=1, maxtime_s=maxtime).tables()
    mask = rule.unknown(pairs_of(rule, tasks, queues, facts, tuning_for(rule)))
    assert np.asarray(mask).tolist() == [[unknown]]
