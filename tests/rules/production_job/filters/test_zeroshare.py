"""Zero shares at queues: affected tasks, policies and observations."""

from __future__ import annotations

import numpy as np
import pytest

from broker.rules.contract import JobPairs
from broker.rules.production_job.filters.zeroshare import Zeroshare
from tests.rules.builders import Case, check, kept, make_facts, make_queues, make_tasks, rejected, tuning_for

SIMUL = "type=simul:100%,type=any:0%"
CASES = [
    kept(fairsharepolicy=None),
    kept(fairsharepolicy=""),
    kept(fairsharepolicy=SIMUL),
    rejected(fairsharepolicy=SIMUL, processingtype="pile"),
    rejected(fairsharepolicy=SIMUL, processingtype=None),
    kept(fairsharepolicy=SIMUL, processingtype="prod_test"),
    rejected(fairsharepolicy="gshare=Sim*:0"),
    rejected(fairsharepolicy="group=:0", workinggroup=None),
    rejected(fairsharepolicy="priority>=500:0"),
    kept(fairsharepolicy="priority>=501:0"),
    kept(fairsharepolicy="priority>=500:0", merging=True),
    rejected(fairsharepolicy=SIMUL, processingtype="pile", one_preassigned=True),
    kept(fairsharepolicy="type=any:0", gshare="test"),
    kept(fairsharepolicy="type=any:0", gshare="validation"),
    rejected(fairsharepolicy="type=any:0", gshare="Validation"),
    rejected(fairsharepolicy="type=any:0", gshare=None),
    kept(fairsharepolicy="type=any:0", gshare="test", one_preassigned=True, prodsourcelabel="managed"),
    rejected(fairsharepolicy="type=any:0", gshare="test", one_preassigned=True, prodsourcelabel="ptest"),
    kept(fairsharepolicy="type=any:0", gshare="test", prodsourcelabel="ptest"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_zeroshare(case: Case) -> None:
    check(Zeroshare(), case)


def test_an_unreadable_part_is_unknown_where_it_is_reached() -> None:
    rule = Zeroshare()
    tasks = make_tasks(2, processingtype=["simul", "pile"])
    queues = make_queues(3, fairsharepolicy=["type=pile:0,group=(:0", SIMUL, None])
    facts, tuning = make_facts(2, 3), tuning_for(rule)
    unknown = rule.unknown(JobPairs(tasks, queues, facts, tuning))
    assert unknown is not None
    assert unknown.tolist() == [[True, False, False], [False, False, False]]
    assert rule.keep(JobPairs(tasks, queues, facts, tuning)).tolist() == [[True, True, True], [False, False, True]]
    assert rule.unknown_policy == "keep"


def test_readable_policies_have_nothing_unknown() -> None:
    rule = Zeroshare()
    assert (
        rule.unknown(JobPairs(make_tasks(), make_queues(fairsharepolicy=SIMUL), make_facts(), tuning_for(rule))) is None
    )


def test_the_observation_names_the_part() -> None:
    rule = Zeroshare()
    queue = make_queues(fairsharepolicy=SIMUL)
    observation = rule.observe(JobPairs(make_tasks(processingtype="pile"), queue, make_facts(), tuning_for(rule)))
    assert (observation.value, observation.inputs["part"], observation.key) == (
        "reject",
        "type=any:0%",
        "queue.fairsharepolicy",
    )


def test_many_queues_share_few_policies() -> None:
    policies = [None, SIMUL, "type=any:0"] * 100
    rule, tasks = Zeroshare(), make_tasks(2, processingtype=["simul", "pile"])
    keep = rule.keep(JobPairs(tasks, make_queues(300, fairsharepolicy=policies), make_facts(2, 300), tuning_for(rule)))
    assert (keep == np.tile([[True, True, False], [True, False, False]], 100)).all()
