from __future__ import annotations

import pytest

from broker.rules.contract import JobPairs
from broker.rules.shared.filters.draining import Draining
from tests.rules.builders import NOW_S, Case, check, kept, make_facts, make_queues, make_tasks, rejected, tuning_for

HOUR = {"cputime": 36.0, "atom_events": 1000.0, "corepower": 10.0, "cpuefficiency": 100.0}  # 3600 s on one core

CASES = [
    kept(**HOUR, shutdown_s=None),
    kept(**HOUR, shutdown_s=NOW_S + 3600),
    rejected(**HOUR, shutdown_s=NOW_S + 3599),
    rejected(**HOUR, shutdown_s=NOW_S - 1),
    rejected(**HOUR, shutdown_s=NOW_S),
    # a slower core takes longer
    rejected(**{**HOUR, "corepower": 9.9}, shutdown_s=NOW_S + 3600),
    # an unknown walltime counts as a day
    kept(cputimeunit=None, walltime=None, shutdown_s=NOW_S + 86_400),
    rejected(cputimeunit=None, walltime=None, shutdown_s=NOW_S + 86_399),
    # the estimate of a task does not apply to merging, which counts as a day
    kept(**HOUR, merging=True, shutdown_s=NOW_S + 86_400),
    rejected(**HOUR, merging=True, shutdown_s=NOW_S + 3600),
    # pre-assignment is not exempt
    rejected(**HOUR, one_preassigned=True, shutdown_s=NOW_S + 60),
    kept(**HOUR, shutdown_s=NOW_S + 60, FEATURES_DRAINING=False),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_draining(case: Case) -> None:
    check(Draining(), case)


def test_no_time_is_left_after_a_shutdown() -> None:
    rule = Draining()
    pairs = JobPairs(make_tasks(), make_queues(shutdown_s=NOW_S - 60), make_facts(), tuning_for(rule))
    assert rule.observe(pairs).limit == 0.0
