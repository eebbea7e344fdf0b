"""The policy of the queue must not give the task a share of 0."""

from __future__ import annotations

import pytest

from broker.rules.analysis_job.filters.no_share import NoShare
from tests.rules.analysis_job.analysis_cases import kept, rejected
from tests.rules.builders import Case, check

NOBODY = "type=any:0%"
SIMUL = "type=simul:100%,type=any:0%"
CASES = [
    kept(fairsharepolicy=None),
    kept(fairsharepolicy=""),
    rejected(fairsharepolicy=NOBODY),
    rejected(fairsharepolicy="type=any:0"),
    kept(fairsharepolicy="type=any:0.0%"),
    kept(fairsharepolicy=SIMUL, processingtype="simul"),
    rejected(fairsharepolicy=SIMUL, processingtype="panda-client"),
    rejected(fairsharepolicy=SIMUL, processingtype=None),
    # limits on the priority, and an unreadable one
    rejected(fairsharepolicy="priority>500:0", currentpriority=501.0),
    kept(fairsharepolicy="priority>500:0", currentpriority=500.0),
    kept(fairsharepolicy="priority>500:0", currentpriority=None),
    rejected(fairsharepolicy="priority>x:0", currentpriority=1.0),
    # an unreadable pattern rejects no task
    kept(fairsharepolicy="type=(:0"),
    # merging skips parts with a priority
    kept(fairsharepolicy="priority>500:0", currentpriority=501.0, merging=True),
    rejected(fairsharepolicy=NOBODY, merging=True),
    # exempt: tests, and a single named queue
    kept(fairsharepolicy=NOBODY, processingtype="prod_test"),
    kept(fairsharepolicy=NOBODY, site_named=True),
    rejected(fairsharepolicy=NOBODY, named=True),
    # only production exempts work queues
    rejected(fairsharepolicy=NOBODY, gshare="test"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_no_share(case: Case) -> None:
    check(NoShare(), case)
