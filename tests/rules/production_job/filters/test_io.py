"""High IO intensity needs queues with little input missing on disk, else on disk or tape, else takes any queue."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from broker.rules.contract import JobPairs
from broker.rules.production_job.filters.io import Io
from tests.rules.builders import (
    GB,
    Case,
    holds,
    kept,
    make_facts,
    make_queues,
    make_tasks,
    passes,
    rejected,
    tuning_for,
)

TOTAL = 100 * GB


def survivors(
    bytes_on_disk: list[float],
    files_on_disk: list[float],
    bytes_anywhere: list[float] | None = None,
    files_anywhere: list[float] | None = None,
    alive: list[bool] | None = None,
    **tuning: Any,
) -> list[bool]:
    """Return which queues pass for a chunk of 100 GB in 1000 files."""
    count = len(bytes_on_disk)
    facts = make_facts(
        1,
        count,
        total_bytes=TOTAL,
        total_files=1000.0,
        available_bytes=bytes_on_disk,
        available_files=files_on_disk,
        available_tape_bytes=bytes_anywhere or bytes_on_disk,
        available_tape_files=files_anywhere or files_on_disk,
    )
    rule = Io()
    remaining = np.array([alive or [True] * count])
    keep = rule.keep_among(
        remaining, JobPairs(make_tasks(iointensity=201.0), make_queues(count), facts, tuning_for(rule, **tuning))
    )
    return list(keep[0])


def test_less_than_10_gb_and_less_than_100_files_may_be_missing() -> None:
    assert survivors([90 * GB + 1, 90 * GB, TOTAL, TOTAL], [1000, 1000, 901, 900]) == [True, False, True, False]


def test_the_cutoffs_can_be_tuned() -> None:
    bytes_on_disk = [TOTAL - 5 * GB, TOTAL - 5 * GB + 1, TOTAL]
    assert survivors(bytes_on_disk, [1000] * 3, SIZE_CUTOFF_TO_MOVE_INPUT=5) == [False, True, True]
    assert survivors([TOTAL] * 2, [990, 991], NUM_CUTOFF_TO_MOVE_INPUT=10) == [False, True]


def test_tape_counts_only_when_no_queue_has_enough_on_disk() -> None:
    assert survivors([TOTAL, 0], [1000, 0], [TOTAL, TOTAL], [1000, 1000]) == [True, False]
    assert survivors([50 * GB, 0], [500, 0], [50 * GB, TOTAL], [500, 1000]) == [False, True]


def test_the_check_is_waived_when_no_queue_has_enough() -> None:
    assert survivors([0, 50 * GB], [0, 500]) == [True, True]


def test_unknown_input_counts_as_missing() -> None:
    assert survivors([float("nan"), TOTAL], [float("nan"), 1000]) == [False, True]


def test_queues_rejected_before_do_not_count_as_having_the_input() -> None:
    assert survivors([TOTAL, 0], [1000, 0], alive=[False, True])[1]
    assert not survivors([TOTAL, 0], [1000, 0], alive=[True, True])[1]


CASES = [
    rejected(iointensity=201.0),
    kept(iointensity=200.0),
    kept(iointensity=None),
    rejected(iointensity=101.0, IO_INTENSITY_CUTOFF=100),
    kept(iointensity=201.0, merging=True),
    kept(iointensity=201.0, eventservice=1.0),
    kept(iointensity=201.0, eventservice=2.0),
    kept(iointensity=201.0, one_preassigned=True),
    rejected(iointensity=201.0, listed=True),
    kept(iointensity=201.0, total_bytes=0.0),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_which_chunks_the_rule_applies_to(case: Case) -> None:
    given = dict(case.given)
    tasks = make_tasks(**{name: given[name] for name in ("iointensity", "merging", "eventservice") if name in given})
    fact_columns: dict[str, Any] = {"total_bytes": TOTAL, "available_bytes": [TOTAL, 0.0], "total_files": 1000.0}
    fact_columns["available_files"] = fact_columns["available_tape_files"] = [1000.0, 0.0]
    fact_columns |= {name: given[name] for name in ("one_preassigned", "listed", "total_bytes") if name in given}
    tuning = {name: value for name, value in given.items() if name.isupper()}
    rule = Io()
    facts = make_facts(1, 2, available_tape_bytes=fact_columns["available_bytes"], **fact_columns)
    assert bool(passes(rule, tasks, make_queues(2), facts, tuning_for(rule, **tuning))[0, 1]) is case.keep


@pytest.mark.parametrize(
    ("available_bytes", "available_files", "key", "value"),
    [
        (0.0, 1000.0, "SIZE_CUTOFF_TO_MOVE_INPUT", TOTAL),
        (TOTAL, 800.0, "NUM_CUTOFF_TO_MOVE_INPUT", 200.0),
        (TOTAL, 900.0, "NUM_CUTOFF_TO_MOVE_INPUT", 100.0),
        (TOTAL - 10 * GB, 1000.0, "SIZE_CUTOFF_TO_MOVE_INPUT", 10 * GB),
        (0.0, 0.0, "SIZE_CUTOFF_TO_MOVE_INPUT", TOTAL),
    ],
)
def test_the_observation_shows_the_excess(
    available_bytes: float, available_files: float, key: str, value: float
) -> None:
    rule = Io()
    facts = make_facts(
        total_bytes=TOTAL, total_files=1000.0, available_bytes=available_bytes, available_files=available_files
    )
    observation = rule.observe(JobPairs(make_tasks(iointensity=201.0), make_queues(), facts, tuning_for(rule)))
    assert (observation.key, observation.value, holds(observation)) == (key, value, False)


@pytest.mark.parametrize(
    ("cloned", "event_service", "exempt"), [("exempt", False, True), ("asked", False, False), ("asked", True, True)]
)
def test_job_cloning_is_exempt_or_checked(cloned: str, event_service: bool, exempt: bool) -> None:
    """The fact ``event_service`` excludes job cloning."""
    rule = Io().configured({"cloned": cloned})
    facts = make_facts(total_bytes=TOTAL, event_service=event_service)
    tasks = make_tasks(iointensity=201.0, eventservice=2.0)
    assert bool(rule.applies(JobPairs(tasks, make_queues(), facts, tuning_for(rule))).item()) is not exempt
