"""The synthetic day for the what-if benchmarks: copies of a cycle that can be replayed."""

from __future__ import annotations

from datetime import timedelta

from benchmarks.stored_cycles import copy_cycles
from broker.store.connection.database import Database
from broker.whatif.answers.stored_cases import Selection, stored_cases
from broker.whatif.model.cases import Change
from broker.whatif.model.executor import Comparing, answer
from tests.brokerages.small_grid import NOW, one_cycle
from tests.whatif.stored import RULES, SEED, job_scenario


def test_copies_are_independent_cycles(database: Database) -> None:
    assert one_cycle(database, job_scenario(), seed=SEED)[0].outcome == "done"
    copy_cycles(database, 3)
    cases = stored_cases(database, Selection(NOW - timedelta(hours=1), NOW))
    comparison = answer(cases, Comparing(RULES, (Change((), RULES),)), 1, lambda progress: None)
    assert comparison.failed == [] and cases.dropped_rows == []
    assert (comparison.differences[0].total("cycles"), comparison.differences[0].total("decisions")) == (3, 9)
    assert len({case.snapshot.id for case in cases}) == len({case.decided_at for case in cases}) == 3
