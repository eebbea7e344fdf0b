"""Two cycles that each decide some of the chunks: with the same tuning they act as one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from broker.brokerages.base import Rules
from broker.brokerages.job.assign import assign_chunks
from broker.brokerages.job.brokerage import StoredChunks
from broker.brokerages.profile import build_chain
from broker.brokerages.registry import brokerage as brokerage_of, decode_batches
from broker.engine.job.cycle import JobCycle
from broker.engine.shared.chain import RuleChain
from broker.engine.shared.split_cycle import SplitCycle
from broker.snapshot.build import build_snapshot
from broker.snapshot.raw import decode
from broker.whatif.model.cases import Case
from tests.whatif.stored import ANALYSIS, JOBS, RULES

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("brokerage", [JOBS, ANALYSIS])
def test_each_cycle_sees_what_the_other_places(cases: dict[str, Case], brokerage: str) -> None:
    case = cases[brokerage]
    parts = {name: decode(*packed) for name, packed in case.snapshot.parts.items()}
    snapshot = build_snapshot(case.snapshot.id, case.snapshot.taken_at, parts, case.snapshot.states)
    job_brokerage = brokerage_of(brokerage)
    (works,) = decode_batches(job_brokerage, [chunk.work for chunk in case.decisions])
    assert isinstance(works, StoredChunks) and works.work is not None
    rules = Rules(build_chain(RULES.profile.of(brokerage), RuleChain))

    def cycle() -> JobCycle:
        replayed = job_brokerage.replayed_cycle(snapshot, case.published.tuning("atlas"), works, rules)
        assert replayed is not None
        return replayed

    whole = list(assign_chunks(cycle(), works.work, case.seed))
    assert len(whole) == len(case.decisions)
    for rows in itertools.product([False, True], repeat=len(whole)):
        split = list(assign_chunks(SplitCycle(cycle(), cycle(), np.array(rows)), works.work, case.seed))
        assert [chunk.decision for chunk in split] == [chunk.decision for chunk in whole]
        assert [chunk.before for chunk in split] == [chunk.before for chunk in whole]
        assert [chunk.candidate.tolist() for chunk in split] == [chunk.candidate.tolist() for chunk in whole]
