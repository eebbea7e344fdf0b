"""Queues with virtual placement take only chunks that may use it, and none while overloaded."""

from __future__ import annotations

import pytest

from broker.rules.analysis_job.filters.avoid_vp import AvoidVp
from tests.rules.analysis_job.analysis_cases import kept, rejected
from tests.rules.builders import Case, check

VP = {"is_vp": True}
#: The share has 100 queued and 50 running jobs in total: a ratio of 2, or 2.4 with the ratio offset of 1.2.
SHARE = VP | {"share_queued": 100.0, "share_running": 50.0}
CASES = [
    kept(avoids_vp=True),
    kept(**VP),
    rejected(**VP, avoids_vp=True),
    kept(**SHARE, running=10.0, activated=24.0),
    rejected(**SHARE, running=10.0, activated=24.5),
    # each of the four states counts as waiting
    *(rejected(**SHARE, running=10.0, **{state: 25.0}) for state in ("defined", "assigned", "activated", "starting")),
    # a queue with up to OVERLOAD_MIN_QUEUE jobs is not overloaded
    kept(**SHARE, running=0.0, activated=20.0),
    rejected(**SHARE, running=0.0, activated=21.0),
    kept(**SHARE, running=0.0, activated=21.0, OVERLOAD_MIN_QUEUE=21),
    kept(**SHARE, running=10.0, activated=30.0, OVERLOAD_RATIO_OFFSET=1.5),
    rejected(**SHARE, running=10.0, activated=30.5, OVERLOAD_RATIO_OFFSET=1.5),
    rejected(**VP, share_queued=1.0, share_running=1.0, running=10.0, activated=21.0),
    # a share without running jobs has no ratio
    kept(**VP, share_queued=100.0, share_running=0.0, running=1.0, activated=99.0),
    rejected(**VP, share_queued=100.0, share_running=0.0, running=0.0, activated=21.0),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_avoid_vp(case: Case) -> None:
    check(AvoidVp(), case)
