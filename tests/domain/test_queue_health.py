"""The sequential test of queues and nodes: detection, its delay, false alarms, and the way back from exclusion."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from broker.domain.queue_health import (
    DAY_S,
    PRODUCTION,
    EndedJob,
    HealthFold,
    HealthLimits,
    QueueHealth,
)

LIMITS = HealthLimits()
START_S = 1_785_585_600.0
HERE = ("A", PRODUCTION, "")


def job(number: int, task: int, end: str = "failed", *, queue: str = "A", at_s: float | None = None,
        started_s: float = math.nan, node: str = "") -> EndedJob:  # fmt: skip
    ended_s = START_S + 60.0 * number if at_s is None else at_s
    return EndedJob(ended_s, number, queue, PRODUCTION, task, end, started_s, node)  # type: ignore[arg-type]


def fold_of(*jobs: EndedJob, limits: HealthLimits = LIMITS) -> HealthFold:
    fold = HealthFold(limits)
    fold.add_all(jobs)
    return fold


def failing_jobs(count: int, tasks: int, **options: object) -> list[EndedJob]:
    return [job(number, number % tasks, **options) for number in range(count)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("failures", "tasks", "state"),
    [(7, 3, "suspected"), (8, 3, "excluded"), (4, 3, "suspected"), (3, 3, "healthy"), (40, 2, "suspected"),
     (200, 1, "healthy")],
)  # fmt: skip
def test_failures_of_three_tasks_exclude_a_queue(failures: int, tasks: int, state: str) -> None:
    assert fold_of(*failing_jobs(failures, tasks)).places[HERE].state == state


def test_the_evidence_counts_failures_and_tasks() -> None:
    place = fold_of(*failing_jobs(8, 3)).places[HERE]
    assert (place.failed, place.ended, place.tasks, place.since_s) == (8, 8, (0, 1, 2), START_S)
    assert place.evidence == tuple(range(8)) and place.until_s == START_S + 7 * 60.0 + LIMITS.first_s


@pytest.mark.parametrize(("elsewhere", "state"), [(9, "excluded"), (8, "suspected")])
def test_two_tasks_suffice_if_nine_of_ten_of_their_jobs_finish_elsewhere(elsewhere: int, state: str) -> None:
    other_jobs = [job(number, task, "finished" if number < elsewhere else "failed", queue="B", at_s=START_S)
              for task in (0, 1) for number in range(10)]  # fmt: skip
    assert fold_of(*other_jobs, *failing_jobs(12, 2)).places[HERE].state == state


def test_jobs_that_finished_elsewhere_too_long_ago_do_not_count() -> None:
    other_jobs = [
        job(number, task, "finished", queue="B", at_s=START_S - 8 * 3600.0) for task in (0, 1) for number in range(10)
    ]
    assert fold_of(*other_jobs, *failing_jobs(12, 2)).places[HERE].state == "suspected"


def test_payload_failures_count_only_if_the_task_finishes_elsewhere() -> None:
    assert fold_of(*failing_jobs(30, 3, end="payload_failed")).places[HERE].statistic == 0.0
    other_jobs = [job(0, task, "finished", queue="B", at_s=START_S) for task in range(3)]
    assert fold_of(*other_jobs, *failing_jobs(30, 3, end="payload_failed")).places[HERE].state == "excluded"


def test_consecutive_outcomes_of_one_task_weigh_less_and_less() -> None:
    first = job(0, 9, at_s=START_S - 60.0)
    places = [fold_of(first, *failing_jobs(count, 1)).places[HERE].statistic for count in (1, 2, 3, 4, 5)]
    step = math.log(0.7 / 0.2)
    assert places == pytest.approx([2 * step, 3 * step, 4 * step, 4.25 * step, 4.45 * step])


def test_a_single_failing_task_stops_counting_until_another_one_fails() -> None:
    step = math.log(0.7 / 0.2)
    assert fold_of(*failing_jobs(50, 1)).places[HERE].statistic == pytest.approx(3 * step)
    place = fold_of(*failing_jobs(50, 1), job(50, 7), *[job(51 + n, n % 2) for n in range(2)]).places[HERE]
    assert (place.failed, place.tasks) == (6, (0, 7, 1))


def test_a_queue_with_a_high_failure_rate_is_compared_with_its_own_rate() -> None:
    usual = QueueHealth(*HERE, memory_ended=1000.0, memory_failed=260.0)
    assert usual.usual_rate(LIMITS) == pytest.approx(0.39)
    assert QueueHealth(*HERE, memory_ended=299.0, memory_failed=80.0).usual_rate(LIMITS) == 0.2
    assert QueueHealth(*HERE, memory_ended=1000.0, memory_failed=50.0).usual_rate(LIMITS) == 0.2
    assert QueueHealth(*HERE, memory_ended=1000.0, memory_failed=700.0).usual_rate(LIMITS) == 0.4


def test_evidence_is_dropped_after_a_day_without_an_end() -> None:
    late = START_S + 6 * 60.0 + DAY_S
    assert fold_of(*failing_jobs(7, 3), job(9, 1, at_s=late)).places[HERE].failed == 8
    assert fold_of(*failing_jobs(7, 3), job(9, 1, at_s=late + 1.0)).places[HERE].failed == 1


def excluded_queue() -> tuple[HealthFold, QueueHealth]:
    fold = fold_of(*failing_jobs(8, 3))
    return fold, fold.places[HERE]


def test_an_excluded_queue_enters_probation_by_itself() -> None:
    fold, place = excluded_queue()
    fold.advance(place.until_s - 1.0)
    assert place.state == "excluded"
    until_s = place.until_s
    fold.advance(until_s)
    assert (place.state, place.changed_s) == ("probation", until_s)


def test_four_good_probes_of_five_end_the_exclusion_and_two_failed_ones_double_it() -> None:
    fold, place = excluded_queue()
    start_s = place.until_s
    probes = [job(100 + number, number, "finished", at_s=start_s + 100.0, started_s=start_s) for number in range(3)]
    fold.add_all([*probes, job(103, 3, at_s=start_s + 100.0, started_s=start_s)])
    assert place.state == "probation"
    copied_fold = copy.deepcopy(fold)
    fold.add(job(104, 4, "finished", at_s=start_s + 200.0, started_s=start_s))
    assert (place.state, place.statistic, place.times) == ("suspected", 0.0, 0)
    fold.advance(start_s + 200.0 + LIMITS.half_s)
    assert place.state == "healthy"
    copied_fold.add(job(104, 4, at_s=start_s + 200.0, started_s=start_s))
    assert copied_fold.places[HERE].state == "excluded"
    assert copied_fold.places[HERE].until_s - copied_fold.places[HERE].changed_s == 2 * LIMITS.first_s


def test_jobs_that_started_before_the_probation_are_no_probes() -> None:
    fold, place = excluded_queue()
    start_s = place.until_s
    fold.add_all(job(100 + number, number, at_s=start_s + 100.0, started_s=start_s - 1.0) for number in range(9))
    fold.add(job(120, 1, at_s=start_s + 100.0))
    assert (place.state, place.probes_ended) == ("probation", 0)


def test_a_queue_is_never_excluded_for_longer_than_a_day() -> None:
    place = QueueHealth(*HERE, times=500)
    place.exclude(START_S, LIMITS)
    assert place.until_s == START_S + DAY_S


def test_single_nodes_are_excluded_but_only_a_tenth_of_a_queue() -> None:
    good_jobs = [job(number, number % 5, "finished", node=f"node{number % 20}") for number in range(400)]
    bad_jobs = [job(400 + number, number % 2, node="node0") for number in range(8)]
    fold = fold_of(*good_jobs, *bad_jobs)
    assert fold.places["A", PRODUCTION, "node0"].state == "excluded"
    assert fold.places[HERE].state != "excluded"
    more_bad_jobs = [
        job(500 + 20 * number + node, number % 2, node=f"node{node}") for number in range(8) for node in (1, 2)
    ]
    fold.add_all(more_bad_jobs)
    states = [fold.places["A", PRODUCTION, f"node{node}"].state for node in range(3)]
    assert states.count("excluded") == 2  # a tenth of twenty nodes


ENDS = st.lists(
    st.tuples(st.sampled_from("AB"), st.integers(0, 4), st.sampled_from(["finished", "failed", "payload_failed"]),
              st.integers(0, 4000), st.sampled_from(["", "n1", "n2"])),
    max_size=60,
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(ends=ENDS, cut=st.integers(0, 60))
def test_a_fold_in_two_parts_equals_one_fold(ends: list[tuple[str, int, str, int, str]], cut: int) -> None:
    jobs, at_s = [], START_S
    for number, (queue, task, end, later_s, node) in enumerate(ends):
        at_s += later_s
        jobs.append(job(number, task, end, queue=queue, at_s=at_s, started_s=at_s - 600.0, node=node))
    whole_fold = fold_of(*jobs)
    parts = fold_of(*jobs[:cut])
    if jobs[:cut]:
        parts.advance(jobs[:cut][-1].ended_s)
        parts.forget_tasks(jobs[:cut][-1].ended_s)
    resumed = HealthFold(LIMITS, copy.deepcopy(parts.places), copy.deepcopy(parts.task_hours))
    resumed.add_all(jobs[cut:])
    for fold in (whole_fold, resumed):
        fold.advance(at_s)
    assert repr(whole_fold.places) == repr(resumed.places)


def mean_ends_until_excluded(rate: float, limits: HealthLimits = LIMITS, cells: int = 400) -> float:
    """Mean number of independent ends until exclusion, by a Markov chain on a lattice (Brook and Evans, 1972)."""
    up, down = math.log(0.7 / 0.2), math.log(0.8 / 0.3)
    lattice = (np.arange(cells) + 0.5) * limits.evidence / cells
    lattice[0] = 0.0
    chain = np.zeros((cells, cells))
    for row, value in enumerate(lattice):
        if value + up < limits.evidence:
            chain[row, int((value + up) / limits.evidence * cells)] += rate
        chain[row, int(max(0.0, value - down) / limits.evidence * cells)] += 1.0 - rate
    return float(np.linalg.solve(np.eye(cells) - chain, np.ones(cells))[0])


def test_a_healthy_queue_of_20000_jobs_a_day_is_excluded_less_than_once_a_year() -> None:
    assert mean_ends_until_excluded(0.10) > 365 * 20_000
    assert mean_ends_until_excluded(0.05) > 100 * 365 * 20_000


@pytest.mark.parametrize(("rate", "most_failures"), [(0.7, 20), (0.9, 12), (1.0, 8)])
def test_a_failing_queue_is_detected_within_twenty_counted_failures(rate: float, most_failures: int) -> None:
    random, counts = np.random.default_rng(7), []
    for _ in range(400):
        fold, number = HealthFold(LIMITS), 0
        while HERE not in fold.places or fold.places[HERE].state != "excluded":
            fold.add(job(number, number % 3, "failed" if random.random() < rate else "finished"))
            number += 1
        counts.append(fold.places[HERE].failed)
    assert np.mean(counts) <= most_failures and np.quantile(counts, 0.75) <= most_failures + 4
