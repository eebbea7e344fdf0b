"""A queue must have the outbound connectivity and IP stack that the task requires."""

from __future__ import annotations

import pytest

from broker.rules.production_job.filters.connectivity import Connectivity
from tests.rules.builders import Case, check, kept, rejected

CASES = [
    kept(ip_connectivity=0, connectivity="full"),
    kept(ip_connectivity=1, connectivity="full"),
    kept(ip_connectivity=2, connectivity="full"),
    kept(ip_connectivity=9, connectivity="full"),
    kept(ip_connectivity=0, connectivity="http"),
    rejected(ip_connectivity=1, connectivity="http"),
    kept(ip_connectivity=2, connectivity="http"),
    kept(ip_connectivity=9, connectivity="http"),
    kept(ip_connectivity=0, connectivity="none"),
    rejected(ip_connectivity=1, connectivity="none"),
    rejected(ip_connectivity=2, connectivity="none"),
    kept(ip_connectivity=9, connectivity="none"),
    kept(ip_connectivity=0, connectivity=None),
    rejected(ip_connectivity=1, connectivity=None),
    rejected(ip_connectivity=2, connectivity=None),
    kept(ip_connectivity=9, connectivity=None),
    kept(ip_stack=0, queue_ip_stack="IPv4"),
    kept(ip_stack=4, queue_ip_stack="IPv4"),
    rejected(ip_stack=6, queue_ip_stack="IPv4"),
    kept(ip_stack=9, queue_ip_stack="IPv4"),
    kept(ip_stack=0, queue_ip_stack="IPv6"),
    rejected(ip_stack=4, queue_ip_stack="IPv6"),
    kept(ip_stack=6, queue_ip_stack="IPv6"),
    kept(ip_stack=9, queue_ip_stack="IPv6"),
    kept(ip_stack=0, queue_ip_stack=None),
    rejected(ip_stack=4, queue_ip_stack=None),
    rejected(ip_stack=6, queue_ip_stack=None),
    kept(ip_stack=9, queue_ip_stack=None),
    rejected(ip_connectivity=2, ip_stack=6, connectivity="http", queue_ip_stack="IPv4"),
    kept(ip_connectivity=2, ip_stack=6, connectivity="full", queue_ip_stack="IPv6"),
    kept(ip_connectivity=1, connectivity=None, one_preassigned=True),
    rejected(ip_connectivity=1, connectivity=None, listed=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_connectivity(case: Case) -> None:
    check(Connectivity(), case)
