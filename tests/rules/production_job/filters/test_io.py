"""High IO intensity: little missing on disk, else on disk or tape, else anything."""

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


def judged(
    bytes_on_disk: list[float],
    files_on_disk: list[float],
    bytes_anywhere: list[float] | None = None,
    files_anywhere: list[float] | None = None,
    alive: list[bool] | None = None,
    **tuning: Any,
) -> list[bool]:
    """Which of some queues pass, for a chunk of 100 GB in 1000 files."""
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
    left = np.array([alive or [True] * count])
    keep = rule.keep_among(
        left, JobPairs(make_tasks(iointensity=201.0), make_queues(count), facts, tuning_for(rule, **tuning))
    )
    return list(keep[0])


def test_less_than_10_gb_and_less_than_100_files_may_be_missing() -> None:
    assert judged([90 * GB + 1, 90 * GB, TOTAL, TOTAL], [1000, 1000, 901, 900]) == [True, False, True, False]


def test_the_cut_offs_are_tuned() -> None:
    at = [TOTAL - 5 * GB, TOTAL - 5 * GB + 1, TOTAL]
    assert judged(at, [1000] * 3, SIZE_CUTOFF_TO_MOVE_INPUT=5) == [False, True, True]
    assert judged([TOTAL] * 2, [990, 991], NUM_CUTOFF_TO_MOVE_INPUT=10) == [False, True]


def test_tape_counts_only_when_nobody_has_enough_on_disk() -> None:
    assert judged([TOTAL, 0], [1000, 0], [TOTAL, TOTAL], [1000, 1000]) == [True, False]
    assert judged([50 * GB, 0], [500, 0], [50 * GB, TOTAL], [500, 1000]) == [False, True]


def test_it_is_waived_when_nobody_has_enough() -> None:
    assert judged([0, 50 * GB], [0, 500]) == [True, True]


def test_what_is_not_known_to_be_there_is_missing() -> None:
    assert judged([float("nan"), TOTAL], [float("nan"), 1000]) == [False, True]


def test_queues_that_are_gone_for_good_do_not_count_as_having_it() -> None:
    assert judged([TOTAL, 0], [1000, 0], alive=[False, True])[1]
    assert not judged([TOTAL, 0], [1000, 0], alive=[True, True])[1]


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
def test_which_chunks_are_asked(case: Case) -> None:
    given = dict(case.given)
    tasks = make_tasks(**{name: given[name] for name in ("iointensity", "merging", "eventservice") if name in given})
    facts_given: dict[str, Any] = {"total_bytes": TOTAL, "available_bytes": [TOTAL, 0.0], "total_files": 1000.0}
    facts_given["available_files"] = facts_given["available_tape_files"] = [1000.0, 0.0]
    facts_given |= {name: given[name] for name in ("one_preassigned", "listed", "total_bytes") if name in given}
    tuning = {name: value for name, value in given.items() if name.isupper()}
    rule = Io()
    facts = make_facts(1, 2, available_tape_bytes=facts_given["available_bytes"], **facts_given)
    assert bool(passes(rule, tasks, make_queues(2), facts, tuning_for(rule, **tuning))[0, 1]) is case.keep


@pytest.mark.parametrize(
    ("there", "files", "key", "value"),
    [
        (0.0, 1000.0, "SIZE_CUTOFF_TO_MOVE_INPUT", TOTAL),
        (TOTAL, 800.0, "NUM_CUTOFF_TO_MOVE_INPUT", 200.0),
        (TOTAL, 900.0, "NUM_CUTOFF_TO_MOVE_INPUT", 100.0),
        (TOTAL - 10 * GB, 1000.0, "SIZE_CUTOFF_TO_MOVE_INPUT", 10 * GB),
        (0.0, 0.0, "SIZE_CUTOFF_TO_MOVE_INPUT", TOTAL),
    ],
)
def test_the_observation_shows_what_is_too_much(there: float, files: float, key: str, value: float) -> None:
    rule = Io()
    facts = make_facts(total_bytes=TOTAL, total_files=1000.0, available_bytes=there, available_files=files)
    seen = rule.observe(JobPairs(make_tasks(iointensity=201.0), make_queues(), facts, tuning_for(rule)))
    assert (seen.key, seen.value, holds(seen)) == (key, value, False)


@pytest.mark.parametrize(
    ("cloned", "event_service", "kept"), [("exempt", False, True), ("asked", False, False), ("asked", True, True)]
)
def test_job_cloning_is_exempt_or_asked(cloned: str, event_service: bool, kept: bool) -> None:
    """``event_service`` of the facts is that without cloning."""
    rule = Io().configured({"cloned": cloned})
    facts = make_facts(total_bytes=TOTAL, event_service=event_service)
    tasks = make_tasks(iointensity=201.0, eventservice=2.0)
    assert bool(rule.applies(JobPairs(tasks, make_queues(), facts, tuning_for(rule))).item()) is not kept
