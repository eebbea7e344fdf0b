"""A task with a few failed jobs at a queue goes elsewhere; other tasks are unaffected."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from broker.domain.instants import HOUR_S
from broker.rules.contract import JobPairs
from broker.rules.shared.filters.task_fails_here import EVIDENCE, SWITCH, TaskFailsHere
from broker.snapshot.raw import RawSource, Rows
from broker.snapshot.sources.task_failures import TASK_FAILURES, TaskFailuresSource
from tests.rules.builders import tuning_for

NOW_H = 495_996
ON = {SWITCH: True}
NAMES = np.array(["A", "B", "C"], dtype=object)
FAILS_AT_A = {7: {("A", NOW_H): (0, 3), ("B", NOW_H): (4, 0)}}


def pairs_of(failures: Any, tasks: tuple[int, ...] = (7, 8), single: bool = False, **keys: Any) -> JobPairs:
    rule, snapshot = TaskFailsHere(), SimpleNamespace(now_s=NOW_H * HOUR_S, offered={TASK_FAILURES: failures})
    tuning, numbers = tuning_for(rule, **keys), np.array(tasks)
    work = SimpleNamespace(chunks=SimpleNamespace(jeditaskid=numbers))
    return JobPairs(
        SimpleNamespace(jeditaskid=numbers[:, None]),  # type: ignore[arg-type]
        SimpleNamespace(unified_name=NAMES[None, :]),  # type: ignore[arg-type]
        SimpleNamespace(one_preassigned=np.array([[single]])),  # type: ignore[arg-type]
        tuning,
        np.arange(len(tasks)),
        np.arange(len(NAMES)),
        {rule.name: rule.prepare(snapshot, work, tuning)},  # type: ignore[arg-type]
    )


def avoided_queues(failures: Any, **options: Any) -> list[list[str]]:
    """Return for each chunk the queues that it avoids."""
    pairs, rule = pairs_of(failures, **options), TaskFailsHere()
    keep = np.broadcast_to(rule.keep(pairs) | ~rule.applies(pairs), (len(pairs.rows), len(NAMES)))
    return [NAMES[~row].tolist() for row in keep]


@pytest.mark.parametrize(
    ("ends", "keys", "expected"),
    [
        ({("A", NOW_H): (0, 3)}, {}, ["A"]),
        ({("A", NOW_H): (0, 2)}, {}, []),
        ({("A", NOW_H): (1, 3)}, {}, []),
        ({("A", NOW_H): (1, 4)}, {}, ["A"]),
        ({("A", NOW_H): (0, 3)}, {SWITCH: False}, []),
        ({("A", NOW_H): (0, 3)}, {EVIDENCE: 4.0}, []),
        ({("A", NOW_H): (0, 2)}, {EVIDENCE: 2.0}, ["A"]),
        ({("A", NOW_H - 6): (0, 3)}, {}, ["A"]),
        ({("A", NOW_H - 7): (0, 3)}, {}, []),
        ({("A", NOW_H): (0, 3), ("B", NOW_H - 1): (0, 3)}, {}, []),  # the task fails everywhere
        ({("A", NOW_H): (0, 3), ("B", NOW_H): (9, 3)}, {}, ["A"]),
        ({("Z", NOW_H): (0, 3)}, {}, []),
    ],
)
def test_which_queues_a_task_avoids(ends: Any, keys: dict[str, Any], expected: list[str]) -> None:
    assert avoided_queues({7: ends}, **{**ON, **keys}) == [expected, []]


def test_the_rule_does_not_apply_to_a_single_preassigned_queue() -> None:
    assert avoided_queues(FAILS_AT_A, single=True, **ON) == [[], []]


def test_the_observation_agrees_with_the_mask_and_shows_the_figures() -> None:
    rule, pairs = TaskFailsHere(), pairs_of(FAILS_AT_A, (7,), **ON)
    for index, keep in enumerate(rule.keep(pairs)[0].tolist()):
        queue = SimpleNamespace(unified_name=NAMES[None, [index]])
        pair = JobPairs(pairs.chunks, queue, pairs.facts, pairs.tuning, pairs.rows, np.array([index]), pairs.prepared)  # type: ignore[arg-type]
        observation = rule.observe(pair)
        assert (observation.value is None or float(observation.value) < float(observation.limit)) == keep
        if not keep:
            assert dict(observation.inputs) == {
                "failed_jobs": 3, "ended_jobs": 3, "failed_elsewhere": 0, "ended_elsewhere": 4, "within_h": 6,
            }  # fmt: skip


def test_the_rule_needs_no_source_while_it_is_off() -> None:
    rule = TaskFailsHere()
    assert (rule.needs(tuning_for(rule)), rule.needs(tuning_for(rule, **ON))) == ((), (TASK_FAILURES,))


def test_the_source_builds_the_records_of_the_agent() -> None:
    rows = Rows(TaskFailuresSource.reads[0].columns_stored, ((7, "A", NOW_H, 0, 3), (7, "B", NOW_H, 4, 0)))
    assert TaskFailuresSource().build(RawSource(TASK_FAILURES, {TASK_FAILURES: rows}), None) == FAILS_AT_A  # type: ignore[arg-type]
