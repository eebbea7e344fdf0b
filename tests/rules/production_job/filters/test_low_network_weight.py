"""Express chunks need a network weight of at least 1.7."""

from __future__ import annotations

import pytest

from broker.rules.production_job.filters.low_network_weight import LowNetworkWeight
from tests.rules.builders import Case, check, kept, rejected

CASES = [
    # unknown link: 0.5 x 2 + 0.5 x 1.3
    rejected(urgent=True, closeness=None),
    kept(closeness=None),
    kept(urgent=True, closeness=0.0),
    # 30 files and 60 MB/s: 0.5 x 1.8 + 0.5 x 1.6 is 1.7
    kept(urgent=True, link_queued=30.0, throughput_mb_per_s=60.0),
    rejected(urgent=True, link_queued=31.0, throughput_mb_per_s=60.0),
    kept(urgent=True, storage_at_nucleus=True, closeness=None),
    kept(urgent=True, closeness=None, NW_WEIGHT_MULTIPLIER=0.5),
    rejected(urgent=True, closeness=0.0, NW_THRESHOLD=2.1),
    kept(urgent=True, closeness=0.0, NW_THRESHOLD=2.0),
    kept(urgent=True, closeness=None, has_nucleus=False),
    rejected(urgent=True, closeness=None, one_preassigned=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_low_network_weight(case: Case) -> None:
    check(LowNetworkWeight(), case)
