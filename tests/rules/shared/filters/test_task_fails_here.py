"""A task of which a few jobs failed at a queue goes elsewhere; other tasks do not mind."""

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


def pairs_of(failing: Any, tasks: tuple[int, ...] = (7, 8), single: bool = False, **keys: Any) -> JobPairs:
    rule, snapshot = TaskFailsHere(), SimpleNamespace(now_s=NOW_H * HOUR_S, offered={TASK_FAILURES: failing})
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


def shut(failing: Any, **about: Any) -> list[list[str]]:
    """For each chunk the queues that it may not have."""
    pairs, rule = pairs_of(failing, **about), TaskFailsHere()
    kept = np.broadcast_to(rule.keep(pairs) | ~rule.applies(pairs), (len(pairs.rows), len(NAMES)))
    return [NAMES[~row].tolist() for row in kept]


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
        ({("A", NOW_H): (0, 3), ("B", NOW_H - 1): (0, 3)}, {}, []),  # it fails everywhere
        ({("A", NOW_H): (0, 3), ("B", NOW_H): (9, 3)}, {}, ["A"]),
        ({("Z", NOW_H): (0, 3)}, {}, []),
    ],
)
def test_where_a_task_does_not_go(ends: Any, keys: dict[str, Any], expected: list[str]) -> None:
    assert shut({7: ends}, **{**ON, **keys}) == [expected, []]


def test_a_single_preassigned_queue_is_not_asked() -> None:
    assert shut(FAILS_AT_A, single=True, **ON) == [[], []]


def test_what_is_seen_agrees_with_what_is_kept_and_says_the_figures() -> None:
    rule, pairs = TaskFailsHere(), pairs_of(FAILS_AT_A, (7,), **ON)
    for at, kept in enumerate(rule.keep(pairs)[0].tolist()):
        queue = SimpleNamespace(unified_name=NAMES[None, [at]])
        one = JobPairs(pairs.chunks, queue, pairs.facts, pairs.tuning, pairs.rows, np.array([at]), pairs.prepared)  # type: ignore[arg-type]
        seen = rule.observe(one)
        assert (seen.value is None or float(seen.value) < float(seen.limit)) == kept
        if not kept:
            assert dict(seen.inputs) == {
                "failed_jobs": 3, "ended_jobs": 3, "failed_elsewhere": 0, "ended_elsewhere": 4, "within_h": 6,
            }  # fmt: skip


def test_nothing_is_needed_while_it_is_off() -> None:
    rule = TaskFailsHere()
    assert (rule.needs(tuning_for(rule)), rule.needs(tuning_for(rule, **ON))) == ((), (TASK_FAILURES,))


def test_the_source_builds_what_the_agent_left() -> None:
    rows = Rows(TaskFailuresSource.reads[0].columns_stored, ((7, "A", NOW_H, 0, 3), (7, "B", NOW_H, 4, 0)))
    assert TaskFailuresSource().build(RawSource(TASK_FAILURES, {TASK_FAILURES: rows}), None) == FAILS_AT_A  # type: ignore[arg-type]
