"""A retry of failed input goes to another queue if one remains: avoided queues and observations."""

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


def failed_files(**queues: tuple[int, float]) -> dict[tuple[int, int], dict[str, FailedFiles]]:
    """Make the failed files of the first chunk: by queue their number and the hours since the last failure."""
    return {
        (TASK, DATASET): {name: FailedFiles(files, NOW_S - 3600 * hours) for name, (files, hours) in queues.items()}
    }


def pairs_of(inputs: Any, single: bool = False, **keys: Any) -> JobPairs:
    """Make pairs of two chunks of a task, the second of which reads another dataset."""
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


def avoided_candidates(inputs: Any, alive: Any = EVERYWHERE, **options: Any) -> list[list[int]]:
    """Return for each chunk the positions of the avoided candidates."""
    pairs, rule = pairs_of(inputs, **options), RetryElsewhere()
    keep = rule.keep_among(np.array(alive, dtype=np.bool_), pairs) | ~rule.applies(pairs)
    return [np.flatnonzero(~row).tolist() for row in keep]


@pytest.mark.parametrize(
    ("inputs", "keys", "expected"),
    [
        (failed_files(B=(2, 0)), {}, [1, 2]),
        (failed_files(B=(1, 0)), {}, []),  # less than a tenth of 20
        (failed_files(B=(1, 0)), {SHARE: 0.05}, [1, 2]),
        (failed_files(B=(1, 0)), {SHARE: 0.0}, [1, 2]),
        (failed_files(B=(19, 0)), {SHARE: 1.0}, []),
        (failed_files(B=(20, 0)), {SHARE: 1.0}, [1, 2]),
        (failed_files(B=(2, 2.0)), {}, [1, 2]),
        (failed_files(B=(2, 2.01)), {}, []),
        (failed_files(B=(2, 2.01)), {WITHIN: 3.0}, [1, 2]),
        (failed_files(B=(2, 0)), {SWITCH: False}, []),
        (failed_files(B=(2, 0)), {MOST_CLOSED: 0.0}, []),
        (failed_files(A=(2, 0), B=(3, 0)), {}, [1, 2]),  # one of three may be avoided
        (failed_files(A=(2, 0), B=(3, 0)), {MOST_CLOSED: 0.7}, [0, 1, 2]),
        (failed_files(A=(2, 0), B=(3, 0), C=(4, 0)), {MOST_CLOSED: 1.0}, []),
        (failed_files(Z=(2, 0)), {}, []),
    ],
)
def test_which_queues_a_chunk_avoids(inputs: Any, keys: dict[str, Any], expected: list[int]) -> None:
    assert avoided_candidates(inputs, **{**ON, **keys}) == [expected, []]


def test_the_last_remaining_queue_is_kept() -> None:
    only_b, b_and_c = [[False, True, True, False]] * 2, [[False, True, False, True]] * 2
    assert avoided_candidates(failed_files(B=(2, 0)), only_b, **ON) == [[], []]
    assert avoided_candidates(failed_files(B=(2, 0)), b_and_c, **ON) == [[1, 2], []]


def test_the_rule_does_not_apply_to_a_single_preassigned_queue() -> None:
    assert avoided_candidates(failed_files(B=(2, 0)), single=True, **ON) == [[], []]


@pytest.mark.parametrize(("candidate", "files", "hours"), [(0, 0.0, None), (1, 2.0, 0.5), (2, 2.0, 0.5)])
def test_the_observation_has_value_limit_and_age(candidate: int, files: float, hours: float | None) -> None:
    pairs = pairs_of(failed_files(B=(2, 0.5)), **ON)
    chunk = SimpleNamespace(n_files=pairs.chunks.n_files[:1])
    observation = RetryElsewhere().observe(
        JobPairs(
            chunk, pairs.candidates, pairs.facts, pairs.tuning, pairs.rows[:1], np.array([candidate]), pairs.prepared  # type: ignore[arg-type]
        )
    )  # fmt: skip
    assert (observation.value, observation.operator, observation.limit, observation.unit) == (files, "<", 2.0, "files")
    assert (observation.inputs["waiting_files"], observation.inputs.get("last_failed_h")) == (WAITING, hours)
    assert observation.inputs["only_while_another_is_left"] is True


def test_the_rule_needs_no_source_while_it_is_off() -> None:
    rule = RetryElsewhere()
    assert (rule.needs(tuning_for(rule)), rule.needs(tuning_for(rule, **ON))) == ((), (FAILED_INPUTS,))


def test_the_source_builds_the_records_of_the_agent() -> None:
    rows = Rows(FailedInputsSource.reads[0].columns_stored, ((TASK, DATASET, "B", 2, NOW_S),))
    source = FailedInputsSource().build(RawSource(FAILED_INPUTS, {FAILED_INPUTS: rows}), None)  # type: ignore[arg-type]
    assert source == failed_files(B=(2, 0))
