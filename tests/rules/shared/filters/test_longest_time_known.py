"""A queue that is left and has no longest walltime stops chunks that are compared with it."""

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
    ("longest", "alive", "kept"),
    [
        ([3600.0, None], [True, True], False),
        ([3600.0, None], [True, False], True),
        ([3600.0, 0.0], [True, True], True),
    ],
)
def test_a_queue_that_is_left_without_a_longest_time(
    longest: list[float | None], alive: list[bool], kept: bool
) -> None:
    rule = LongestTimeKnown()
    assert rule.keep_among(np.array([alive]), _pairs(longest, rule)).tolist() == [[kept, kept]]


@pytest.mark.parametrize(
    ("task", "by_need", "others_too"),
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
def test_which_chunks_are_compared(task: dict[str, Any], by_need: bool, others_too: bool) -> None:
    for asked, expected in (("by_need", by_need), ("hs06_and_merging_too", others_too)):
        rule = LongestTimeKnown().configured({"asked": asked})
        assert bool(rule.applies(_pairs([None], rule, **task)).item()) is expected


@pytest.mark.parametrize(("longest", "known"), [(None, False), (0.0, True), (3600.0, True)])
def test_the_observation(longest: float | None, known: bool) -> None:
    rule = LongestTimeKnown()
    assert holds(rule.observe(_pairs([longest], rule))) is known
