"""The next attempt of input goes to another queue while one is left: which queues a chunk avoids, and what is told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from broker.domain.failed_inputs import FailedFiles
from broker.rules.contract import JobPairs
from broker.rules.shared.filters.retry_elsewhere import MOST_CLOSED, SHARE, SWITCH, WITHIN, RetryElsewhere
from broker.snapshot.raw import RawSource, Rows
from broker.snapshot.sources.failed_inputs import FAILED_INPUTS, FailedInputsSource
from tests.rules.builders import tuning_for

NOW_S = 1_785_585_600.0
ON = {SWITCH: True}
UNIFIED = ["A", "B", "C"]
#: B has two pseudo-queues.
OF = np.array([0, 1, 1, 2])
TASK, DATASET, WAITING = 7, 70, 20
EVERYWHERE = np.ones((2, 4), dtype=np.bool_)


def failed(**queues: tuple[int, float]) -> dict[tuple[int, int], dict[str, FailedFiles]]:
    """Files of the first chunk, by queue how many, and hours since the last failed."""
    return {(TASK, DATASET): {name: FailedFiles(files, NOW_S - 3600 * ago) for name, (files, ago) in queues.items()}}


def pairs_of(inputs: Any, single: bool = False, **keys: Any) -> JobPairs:
    """Two chunks of the task, of which the second reads another dataset."""
    rule, tuning = RetryElsewhere(), tuning_for(RetryElsewhere(), **keys)
    queues, unified = SimpleNamespace(unified=OF), SimpleNamespace(name=np.array(UNIFIED, dtype=object))
    snapshot = SimpleNamespace(now_s=NOW_S, queues=queues, unified=unified, offered={FAILED_INPUTS: inputs})
    tasks, datasets = np.array([TASK, TASK]), np.array([DATASET, DATASET + 1])
    work = SimpleNamespace(chunks=SimpleNamespace(jeditaskid=tasks, datasetid=datasets))
    return JobPairs(
        SimpleNamespace(n_files=np.array([[WAITING], [WAITING]])),  # type: ignore[arg-type]
        SimpleNamespace(),  # type: ignore[arg-type]
        SimpleNamespace(one_preassigned=np.array([[single], [single]])),  # type: ignore[arg-type]
        tuning,
        np.arange(2),
        np.arange(4),
        {rule.name: rule.prepare(snapshot, work, tuning)},  # type: ignore[arg-type]
    )


def avoided(inputs: Any, alive: Any = EVERYWHERE, **about: Any) -> list[list[int]]:
    """The candidates that each chunk does not get."""
    pairs, rule = pairs_of(inputs, **about), RetryElsewhere()
    kept = rule.keep_among(np.array(alive, dtype=np.bool_), pairs) | ~rule.applies(pairs)
    return [np.flatnonzero(~row).tolist() for row in kept]


@pytest.mark.parametrize(
    ("inputs", "keys", "expected"),
    [
        (failed(B=(2, 0)), {}, [1, 2]),
        (failed(B=(1, 0)), {}, []),  # less than a tenth of 20
        (failed(B=(1, 0)), {SHARE: 0.05}, [1, 2]),
        (failed(B=(1, 0)), {SHARE: 0.0}, [1, 2]),
        (failed(B=(19, 0)), {SHARE: 1.0}, []),
        (failed(B=(20, 0)), {SHARE: 1.0}, [1, 2]),
        (failed(B=(2, 2.0)), {}, [1, 2]),
        (failed(B=(2, 2.01)), {}, []),
        (failed(B=(2, 2.01)), {WITHIN: 3.0}, [1, 2]),
        (failed(B=(2, 0)), {SWITCH: False}, []),
        (failed(B=(2, 0)), {MOST_CLOSED: 0.0}, []),
        (failed(A=(2, 0), B=(3, 0)), {}, [1, 2]),  # one of three may be avoided
        (failed(A=(2, 0), B=(3, 0)), {MOST_CLOSED: 0.7}, [0, 1, 2]),
        (failed(A=(2, 0), B=(3, 0), C=(4, 0)), {MOST_CLOSED: 1.0}, []),
        (failed(Z=(2, 0)), {}, []),
    ],
)
def test_which_queues_a_chunk_avoids(inputs: Any, keys: dict[str, Any], expected: list[int]) -> None:
    assert avoided(inputs, **{**ON, **keys}) == [expected, []]


def test_the_last_queue_that_others_leave_is_kept() -> None:
    only_b, b_and_c = [[False, True, True, False]] * 2, [[False, True, False, True]] * 2
    assert avoided(failed(B=(2, 0)), only_b, **ON) == [[], []]
    assert avoided(failed(B=(2, 0)), b_and_c, **ON) == [[1, 2], []]


def test_a_single_preassigned_queue_is_not_asked() -> None:
    assert avoided(failed(B=(2, 0)), single=True, **ON) == [[], []]


@pytest.mark.parametrize(("candidate", "files", "hours"), [(0, 0.0, None), (1, 2.0, 0.5), (2, 2.0, 0.5)])
def test_what_is_told_has_value_limit_and_age(candidate: int, files: float, hours: float | None) -> None:
    pairs = pairs_of(failed(B=(2, 0.5)), **ON)
    chunk = SimpleNamespace(n_files=pairs.chunks.n_files[:1])
    seen = RetryElsewhere().observe(
        JobPairs(
            chunk, pairs.candidates, pairs.facts, pairs.tuning, pairs.rows[:1], np.array([candidate]), pairs.prepared  # type: ignore[arg-type]
        )
    )  # fmt: skip
    assert (seen.value, seen.operator, seen.limit, seen.unit) == (files, "<", 2.0, "files")
    assert (seen.inputs["waiting_files"], seen.inputs.get("last_failed_h")) == (WAITING, hours)
    assert seen.inputs["only_while_another_is_left"] is True


def test_nothing_is_needed_while_it_is_off() -> None:
    rule = RetryElsewhere()
    assert (rule.needs(tuning_for(rule)), rule.needs(tuning_for(rule, **ON))) == ((), (FAILED_INPUTS,))


def test_the_source_builds_what_the_agent_left() -> None:
    rows = Rows(FailedInputsSource.reads[0].columns_stored, ((TASK, DATASET, "B", 2, NOW_S),))
    source = FailedInputsSource().build(RawSource(FAILED_INPUTS, {FAILED_INPUTS: rows}), None)  # type: ignore[arg-type]
    assert source == failed(B=(2, 0))
