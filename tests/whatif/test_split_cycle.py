"""Two cycles of which each decides some chunks: with the same tuning they are one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from broker.brokerages.placing import place
from broker.brokerages.profile import build_chain
from broker.brokerages.redecide import JobWorks, Rules, job_cycle, read_works
from broker.engine.chain import RuleList
from broker.engine.job_cycle import JobCycle
from broker.engine.split_cycle import SplitCycle
from broker.snapshot.build import build_snapshot
from broker.snapshot.raw import decode
from broker.whatif.cases import Case
from tests.whatif.stored import ANALYSIS, JOBS, RULES


@pytest.mark.parametrize("brokerage", [JOBS, ANALYSIS])
def test_what_one_places_the_other_finds(cases: dict[str, Case], brokerage: str) -> None:
    case = cases[brokerage]
    parts = {name: decode(*packed) for name, packed in case.snapshot.parts.items()}
    snapshot = build_snapshot(case.snapshot.id, case.snapshot.taken_at, parts, case.snapshot.states)
    (works,) = read_works([one.work for one in case.decisions])
    assert isinstance(works, JobWorks) and works.work is not None
    rules = Rules(build_chain(RULES.profile.of(brokerage), RuleList))

    def cycle() -> JobCycle:
        return job_cycle(snapshot, case.published.tuning("atlas"), works, rules)

    whole = list(place(cycle(), works.work, case.seed))
    assert len(whole) == len(case.decisions)
    for rows in itertools.product([False, True], repeat=len(whole)):
        split = list(place(SplitCycle(cycle(), cycle(), np.array(rows)), works.work, case.seed))
        assert [one.decision for one in split] == [one.decision for one in whole]
        assert [one.before for one in split] == [one.before for one in whole]
        assert [one.candidate.tolist() for one in split] == [one.candidate.tolist() for one in whole]
