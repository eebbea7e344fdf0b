"""A remaining queue without a maximum walltime stops the chunks that are compared with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from broker.rules.contract import JobPairs
from broker.rules.shared.filters.longest_time_known import LongestTimeKnown
from tests.rules.builders import holds, make_facts, make_queues, make_tasks, tuning_for

POOLS = {"maxtime_s": [None, 0.0, 3600.0], "merging": [False]}
NEEDS = {"walltime": 5.0, "walltimeunit": "s", "atom_mb": 100.0, "cputime": None, "cputimeunit": None}
HS06 = {"cputimeunit": "HS06sPerEvent", "cputime": 0.0, "atom_events": 10.0}


def _pairs(longest: list[float | None], rule: LongestTimeKnown, **task: Any) -> JobPairs:
    facts = make_facts(1, len(longest), walltime_undefined=task.pop("walltime_undefined", False))
    return JobPairs(make_tasks(**task), make_queues(len(longest), maxtime_s=longest), facts, tuning_for(rule))


@pytest.mark.parametrize(
    ("longest", "alive", "keep"),
    [
        ([3600.0, None], [True, True], False),
        ([3600.0, None], [True, False], True),
        ([3600.0, 0.0], [True, True], True),
    ],
)
def test_a_remaining_queue_without_a_longest_time_stops_the_chunk(
    longest: list[float | None], alive: list[bool], keep: bool
) -> None:
    rule = LongestTimeKnown()
    assert rule.keep_among(np.array([alive]), _pairs(longest, rule)).tolist() == [[keep, keep]]


@pytest.mark.parametrize(
    ("task", "by_need", "by_hs06_and_merging"),
    [
        (NEEDS, True, True),
        (NEEDS | {"merging": True}, False, True),
        (NEEDS | {"walltime": 0.0}, False, False),
        (NEEDS | {"walltime": 0.0, "scout": True}, True, True),
        (NEEDS | {"walltime": None, "walltime_undefined": True}, True, True),
        (HS06, False, True),
        (HS06 | {"cputime": 1.0}, True, True),
    ],
)
def test_the_rule_applies_to_chunks_that_are_compared(
    task: dict[str, Any], by_need: bool, by_hs06_and_merging: bool
) -> None:
    for option, expected in (("by_need", by_need), ("hs06_and_merging_too", by_hs06_and_merging)):
        rule = LongestTimeKnown().configured({"asked": option})
        assert bool(rule.applies(_pairs([None], rule, **task)).item()) is expected


@pytest.mark.parametrize(("longest", "known"), [(None, False), (0.0, True), (3600.0, True)])
def test_the_observation_holds_for_a_known_longest_time(longest: float | None, known: bool) -> None:
    rule = LongestTimeKnown()
    assert holds(rule.observe(_pairs([longest], rule))) is known
