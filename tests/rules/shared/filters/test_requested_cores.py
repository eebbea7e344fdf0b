from __future__ import annotations

import pytest

from broker.domain.work import AcceptedCores
from broker.rules.shared.filters.requested_cores import RequestedCores
from tests.rules.builders import Case, check, kept, make_facts, make_queues, make_tasks, passes, rejected, tuning_for

accepted = AcceptedCores.of_stored

CASES = [
    kept(accepted_cores=None, cores=3.0),
    kept(accepted_cores=accepted("8"), cores=8.0),
    rejected(accepted_cores=accepted("8"), cores=7.0),
    rejected(accepted_cores=accepted("8"), cores=9.0),
    kept(accepted_cores=accepted("4-16"), cores=4.0),
    kept(accepted_cores=accepted("4-16"), cores=16.0),
    rejected(accepted_cores=accepted("4-16"), cores=17.0),
    rejected(accepted_cores=accepted("4-16!8"), cores=8.0),
    kept(accepted_cores=accepted("4-"), cores=128.0),
    # a queue without a number of cores counts as single-core
    kept(accepted_cores=accepted("1"), cores=None),
    kept(accepted_cores=accepted("1"), cores=0.0),
    rejected(accepted_cores=accepted("2-"), cores=None),
    # the request does not apply to merging
    kept(accepted_cores=accepted("8"), cores=1.0, merging=True),
    rejected(accepted_cores=accepted("8"), cores=1.0, one_preassigned=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_requested_cores(case: Case) -> None:
    check(RequestedCores(), case)


def test_every_chunk_is_compared_with_every_queue() -> None:
    tasks = make_tasks(3, accepted_cores=[accepted("8"), None, accepted("2-4")])
    queues = make_queues(4, cores=[1.0, 8.0, 4.0, 8.0])
    rule = RequestedCores()
    mask = passes(rule, tasks, queues, make_facts(3, 4), tuning_for(rule))
    assert mask.tolist() == [[False, True, False, True], [True] * 4, [False, False, True, False]]
