"""Which chunks count as a day long, memory requests, and the capacity of a slot."""

from __future__ import annotations

import pytest

from broker.rules.contract import JobPairs
from broker.rules.production_job.filters.longwalltime import Longwalltime
from broker.rules.shared.memory import asks_for_memory
from broker.rules.shared.walltime_capacity import capacity
from broker.rules.shared.walltime_rules import OneDayOptions
from tests.rules.builders import make_facts, make_queues, make_tasks, tuning_for


@pytest.mark.parametrize(
    ("merging", "undefined", "needs_a_day", "if_undefined"),
    [(False, False, False, False), (True, False, True, False), (False, True, True, True), (True, True, True, True)],
)
def test_chunks_of_unknown_length(merging: bool, undefined: bool, needs_a_day: bool, if_undefined: bool) -> None:
    facts = make_facts(walltime_undefined=undefined)
    pairs = JobPairs(make_tasks(merging=merging), make_queues(), facts, tuning_for(Longwalltime()))
    assert OneDayOptions().unestimated(pairs).item() is needs_a_day
    assert OneDayOptions(merging="if_undefined").unestimated(pairs).item() is if_undefined


@pytest.mark.parametrize(("ramcount", "asks"), [(0.0, False), (None, False), (1.0, True), (2000.0, True)])
def test_chunks_that_ask_for_memory(ramcount: float | None, asks: bool) -> None:
    assert asks_for_memory(make_tasks(ramcount=ramcount)).item() is asks


@pytest.mark.parametrize(("cores", "expected"), [(0.0, 9000.0), (None, 9000.0), (1.0, 9000.0), (8.0, 72000.0)])
def test_the_capacity_of_a_slot(cores: float | None, expected: float) -> None:
    """1,000 s of 10 HS06 at 90 %; a slot of unknown size has one core."""
    queues = make_queues(cores=cores, corepower=10.0, maxtime_s=1000.0)
    assert capacity(make_tasks(), queues, queues.maxtime_s).item() == expected
