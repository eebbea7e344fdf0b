"""The sequential test of queues and nodes: what it finds, how soon, what it leaves alone, and the way back."""

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


def folded(*jobs: EndedJob, limits: HealthLimits = LIMITS) -> HealthFold:
    fold = HealthFold(limits)
    fold.add_all(jobs)
    return fold


def failing(count: int, tasks: int, **more: object) -> list[EndedJob]:
    return [job(number, number % tasks, **more) for number in range(count)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("failures", "tasks", "state"),
    [(7, 3, "suspected"), (8, 3, "excluded"), (4, 3, "suspected"), (3, 3, "healthy"), (40, 2, "suspected"),
     (200, 1, "healthy")],
)  # fmt: skip
def test_a_queue_is_closed_by_failures_of_three_tasks(failures: int, tasks: int, state: str) -> None:
    assert folded(*failing(failures, tasks)).places[HERE].state == state


def test_the_evidence_says_how_many_failed_of_how_many_tasks() -> None:
    place = folded(*failing(8, 3)).places[HERE]
    assert (place.failed, place.ended, place.tasks, place.since_s) == (8, 8, (0, 1, 2), START_S)
    assert place.evidence == tuple(range(8)) and place.until_s == START_S + 7 * 60.0 + LIMITS.first_s


@pytest.mark.parametrize(("elsewhere", "state"), [(9, "excluded"), (8, "suspected")])
def test_two_tasks_suffice_where_nine_of_ten_of_their_jobs_finish_elsewhere(elsewhere: int, state: str) -> None:
    others = [job(n, task, "finished" if n < elsewhere else "failed", queue="B", at_s=START_S)
              for task in (0, 1) for n in range(10)]  # fmt: skip
    assert folded(*others, *failing(12, 2)).places[HERE].state == state


def test_what_finished_elsewhere_too_long_ago_says_nothing() -> None:
    others = [job(n, task, "finished", queue="B", at_s=START_S - 8 * 3600.0) for task in (0, 1) for n in range(10)]
    assert folded(*others, *failing(12, 2)).places[HERE].state == "suspected"


def test_failures_of_the_payload_count_only_where_the_task_finishes_elsewhere() -> None:
    assert folded(*failing(30, 3, end="payload_failed")).places[HERE].statistic == 0.0
    others = [job(0, task, "finished", queue="B", at_s=START_S) for task in range(3)]
    assert folded(*others, *failing(30, 3, end="payload_failed")).places[HERE].state == "excluded"


def test_outcomes_of_one_task_in_a_row_weigh_less_and_less() -> None:
    first = job(0, 9, at_s=START_S - 60.0)
    places = [folded(first, *failing(count, 1)).places[HERE].statistic for count in (1, 2, 3, 4, 5)]
    one = math.log(0.7 / 0.2)
    assert places == pytest.approx([2 * one, 3 * one, 4 * one, 4.25 * one, 4.45 * one])


def test_a_task_that_fails_here_alone_counts_no_more_until_another_fails() -> None:
    one = math.log(0.7 / 0.2)
    assert folded(*failing(50, 1)).places[HERE].statistic == pytest.approx(3 * one)
    place = folded(*failing(50, 1), job(50, 7), *[job(51 + n, n % 2) for n in range(2)]).places[HERE]
    assert (place.failed, place.tasks) == (6, (0, 7, 1))


def test_a_queue_that_always_fails_a_third_is_compared_with_its_own_rate() -> None:
    usual = QueueHealth(*HERE, memory_ended=1000.0, memory_failed=260.0)
    assert usual.usual_rate(LIMITS) == pytest.approx(0.39)
    assert QueueHealth(*HERE, memory_ended=299.0, memory_failed=80.0).usual_rate(LIMITS) == 0.2
    assert QueueHealth(*HERE, memory_ended=1000.0, memory_failed=50.0).usual_rate(LIMITS) == 0.2
    assert QueueHealth(*HERE, memory_ended=1000.0, memory_failed=700.0).usual_rate(LIMITS) == 0.4


def test_evidence_is_dropped_after_a_day_without_an_end() -> None:
    late = START_S + 6 * 60.0 + DAY_S
    assert folded(*failing(7, 3), job(9, 1, at_s=late)).places[HERE].failed == 8
    assert folded(*failing(7, 3), job(9, 1, at_s=late + 1.0)).places[HERE].failed == 1


def closed() -> tuple[HealthFold, QueueHealth]:
    fold = folded(*failing(8, 3))
    return fold, fold.places[HERE]


def test_a_closed_queue_goes_on_probation_by_itself() -> None:
    fold, place = closed()
    fold.advance(place.until_s - 1.0)
    assert place.state == "excluded"
    until_s = place.until_s
    fold.advance(until_s)
    assert (place.state, place.changed_s) == ("probation", until_s)


def test_four_of_five_probe_jobs_bring_it_back_and_two_failed_ones_double_the_time() -> None:
    fold, place = closed()
    begun = place.until_s
    probes = [job(100 + n, n, "finished", at_s=begun + 100.0, started_s=begun) for n in range(3)]
    fold.add_all([*probes, job(103, 3, at_s=begun + 100.0, started_s=begun)])
    assert place.state == "probation"
    again = copy.deepcopy(fold)
    fold.add(job(104, 4, "finished", at_s=begun + 200.0, started_s=begun))
    assert (place.state, place.statistic, place.times) == ("suspected", 0.0, 0)
    fold.advance(begun + 200.0 + LIMITS.half_s)
    assert place.state == "healthy"
    again.add(job(104, 4, at_s=begun + 200.0, started_s=begun))
    assert again.places[HERE].state == "excluded"
    assert again.places[HERE].until_s - again.places[HERE].changed_s == 2 * LIMITS.first_s


def test_jobs_that_started_before_the_probation_are_no_probes() -> None:
    fold, place = closed()
    begun = place.until_s
    fold.add_all(job(100 + n, n, at_s=begun + 100.0, started_s=begun - 1.0) for n in range(9))
    fold.add(job(120, 1, at_s=begun + 100.0))
    assert (place.state, place.probes_ended) == ("probation", 0)


def test_a_queue_is_never_closed_for_longer_than_a_day() -> None:
    place = QueueHealth(*HERE, times=500)
    place.exclude(START_S, LIMITS)
    assert place.until_s == START_S + DAY_S


def test_one_node_is_closed_alone_and_many_are_the_queue() -> None:
    good = [job(n, n % 5, "finished", node=f"node{n % 20}") for n in range(400)]
    bad = [job(400 + n, n % 2, node="node0") for n in range(8)]
    fold = folded(*good, *bad)
    assert fold.places["A", PRODUCTION, "node0"].state == "excluded"
    assert fold.places[HERE].state != "excluded"
    more = [job(500 + 20 * n + node, n % 2, node=f"node{node}") for n in range(8) for node in (1, 2)]
    fold.add_all(more)
    states = [fold.places["A", PRODUCTION, f"node{node}"].state for node in range(3)]
    assert states.count("excluded") == 2  # a tenth of twenty


ENDS = st.lists(
    st.tuples(st.sampled_from("AB"), st.integers(0, 4), st.sampled_from(["finished", "failed", "payload_failed"]),
              st.integers(0, 4000), st.sampled_from(["", "n1", "n2"])),
    max_size=60,
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(ends=ENDS, cut=st.integers(0, 60))
def test_a_fold_in_two_parts_is_the_fold_in_one(ends: list[tuple[str, int, str, int, str]], cut: int) -> None:
    jobs, at_s = [], START_S
    for number, (queue, task, end, later_s, node) in enumerate(ends):
        at_s += later_s
        jobs.append(job(number, task, end, queue=queue, at_s=at_s, started_s=at_s - 600.0, node=node))
    whole = folded(*jobs)
    parts = folded(*jobs[:cut])
    if jobs[:cut]:
        parts.advance(jobs[:cut][-1].ended_s)
        parts.forget_tasks(jobs[:cut][-1].ended_s)
    taken_up = HealthFold(LIMITS, copy.deepcopy(parts.places), copy.deepcopy(parts.task_hours))
    taken_up.add_all(jobs[cut:])
    for fold in (whole, taken_up):
        fold.advance(at_s)
    assert repr(whole.places) == repr(taken_up.places)


def mean_ends_until_closed(rate: float, limits: HealthLimits = LIMITS, cells: int = 400) -> float:
    """Of independent ends, by the Markov chain of the statistic on a lattice (Brook and Evans, 1972)."""
    up, down = math.log(0.7 / 0.2), math.log(0.8 / 0.3)
    at = (np.arange(cells) + 0.5) * limits.evidence / cells
    at[0] = 0.0
    chain = np.zeros((cells, cells))
    for place, value in enumerate(at):
        if value + up < limits.evidence:
            chain[place, int((value + up) / limits.evidence * cells)] += rate
        chain[place, int(max(0.0, value - down) / limits.evidence * cells)] += 1.0 - rate
    return float(np.linalg.solve(np.eye(cells) - chain, np.ones(cells))[0])


def test_a_healthy_queue_of_20000_jobs_a_day_is_closed_less_than_once_a_year() -> None:
    assert mean_ends_until_closed(0.10) > 365 * 20_000
    assert mean_ends_until_closed(0.05) > 100 * 365 * 20_000


@pytest.mark.parametrize(("rate", "most_failures"), [(0.7, 20), (0.9, 12), (1.0, 8)])
def test_a_hole_is_found_within_twenty_counted_failures(rate: float, most_failures: int) -> None:
    random, found = np.random.default_rng(7), []
    for _ in range(400):
        fold, number = HealthFold(LIMITS), 0
        while HERE not in fold.places or fold.places[HERE].state != "excluded":
            fold.add(job(number, number % 3, "failed" if random.random() < rate else "finished"))
            number += 1
        found.append(fold.places[HERE].failed)
    assert np.mean(found) <= most_failures and np.quantile(found, 0.75) <= most_failures + 4
