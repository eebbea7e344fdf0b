"""A remaining candidate without an output endpoint in the default scope stops the chunk everywhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from broker.rules.contract import JobPairs
from broker.rules.production_job.filters.output_scope import OutputScope
from tests.rules.builders import holds, make_facts, make_queues, make_tasks, tuning_for
from tests.snapshot.raw_grid import build, endpoint, queue, uses

#: A has an output endpoint, B writes only in the analysis scope, C has no relation.
GRID = build(
    schedconfig_json=[queue(name) for name in "ABC"],
    ddm_endpoint=[endpoint("DISK", "SITE")],
    panda_ddm_relation=[uses("A", "DISK"), uses("B", "DISK", scope="analysis")],
)
RULE = OutputScope()


def _pairs(positions: list[int], prepared: bool = True) -> JobPairs:
    tuning, columns = tuning_for(RULE), np.array(positions)
    prepared_rules: dict[str, Any] = {RULE.name: RULE.prepare(GRID, None, tuning)} if prepared else {}
    facts = make_facts(1, len(positions))
    return JobPairs(make_tasks(), make_queues(len(positions)), facts, tuning, np.array([0]), columns, prepared_rules)


@pytest.mark.parametrize(
    ("alive", "keep"),
    [
        ([True, False, True], True),
        ([True, True, True], False),
        ([False, True, False], False),
        ([False, False, False], True),
    ],
)
def test_only_a_remaining_candidate_stops_the_chunk(alive: list[bool], keep: bool) -> None:
    assert list(GRID.queues.name) == ["A", "B", "C"]
    assert RULE.keep_among(np.array([alive]), _pairs([0, 1, 2])).tolist() == [[keep] * 3]


def test_an_unprepared_rule_stops_nothing() -> None:
    assert RULE.keep_among(np.ones((1, 3), dtype=np.bool_), _pairs([0, 1, 2], prepared=False)).all()


def test_the_observation_names_the_queue_at_fault() -> None:
    assert [holds(RULE.observe(_pairs([position]))) for position in range(3)] == [True, False, True]
