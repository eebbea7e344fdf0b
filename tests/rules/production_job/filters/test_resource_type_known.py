"""A task without a resource type goes nowhere while a remaining queue has jobs of its work queue."""

from __future__ import annotations

import numpy as np
import pytest

from broker.rules.contract import JobPairs
from broker.rules.production_job.filters.resource_type_known import ResourceTypeKnown
from tests.rules.builders import holds, make_facts, make_queues, make_tasks, passes, tuning_for

POOLS = {"resource_type": [None, "SCORE"]}
RULE = ResourceTypeKnown()


def _keeps(kind: str | None, running: list[float], alive: list[bool]) -> bool:
    facts = make_facts(1, 2, running=running, defined=0.0, assigned=0.0, activated=0.0, starting=0.0)
    pairs = JobPairs(make_tasks(resource_type=kind), make_queues(2), facts, tuning_for(RULE))
    if not RULE.applies(pairs).item():
        return bool(passes(RULE, pairs.chunks, pairs.candidates, facts, pairs.tuning).all())
    keep = RULE.keep_among(np.array([alive]), pairs)
    assert keep.all() or not keep.any()
    return bool(keep.all())


@pytest.mark.parametrize(
    ("kind", "running", "alive", "keep"),
    [
        (None, [0.0, 1.0], [True, True], False),
        (None, [0.0, 0.0], [True, True], True),
        (None, [0.0, 1.0], [True, False], True),
        ("SCORE", [0.0, 1.0], [True, True], True),
    ],
)
def test_jobs_at_a_remaining_queue_stop_the_task(
    kind: str | None, running: list[float], alive: list[bool], keep: bool
) -> None:
    assert _keeps(kind, running, alive) is keep


@pytest.mark.parametrize("status", ["defined", "assigned", "activated", "starting", "running"])
def test_jobs_of_each_counted_status_count(status: str) -> None:
    zeros = dict.fromkeys(("defined", "assigned", "activated", "starting", "running"), 0.0)
    facts = make_facts(1, 1, **zeros | {status: 1.0})
    pairs = JobPairs(make_tasks(resource_type=None), make_queues(1), facts, tuning_for(RULE))
    assert not RULE.keep_among(np.array([[True]]), pairs).any()
    assert not holds(RULE.observe(pairs))
