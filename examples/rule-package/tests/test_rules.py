"""A rule reads few columns, so a test makes only those: chunks (T, 1), candidates (1, Q)."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from example_broker_rules.fast_cores import FastCores
from example_broker_rules.max_queued_here import MaxQueuedHere

from broker.rules.contract import JobPairs

NONE = SimpleNamespace()


def test_up_to_5000_jobs_may_wait() -> None:
    facts = SimpleNamespace(all_activated=np.array([[0.0, 5000.0, 5001.0]]))
    assert MaxQueuedHere().keep(JobPairs(NONE, NONE, facts, NONE)).tolist() == [[True, True, False]]


def test_urgent_chunks_are_not_asked() -> None:
    facts = SimpleNamespace(urgent=np.array([[True], [False]]))
    assert MaxQueuedHere().applies(JobPairs(NONE, NONE, facts, NONE)).tolist() == [[False], [True]]


def test_the_observation_says_the_same() -> None:
    facts = SimpleNamespace(all_activated=np.array([[5001.0]]))
    seen = MaxQueuedHere().observe(JobPairs(NONE, NONE, facts, NONE))
    assert (seen.value, seen.operator, seen.limit) == (5001.0, "<=", 5000.0)


def test_fast_cores_count_for_urgent_chunks() -> None:
    facts = SimpleNamespace(urgent=np.array([[True], [False]]))
    queues = SimpleNamespace(corepower=np.array([[20.0, 0.0, np.nan]]))
    assert FastCores().factor(JobPairs(NONE, queues, facts, NONE)).tolist() == [[2.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
