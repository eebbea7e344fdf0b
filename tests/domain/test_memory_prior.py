"""The memory prior of a new task: a mean of its request and of earlier tasks of its kind and of a wider kind."""

from __future__ import annotations

import math

import numpy as np
import pytest

from broker.domain.arrays import Floats
from broker.domain.memory_prior import UsedMemory, memory_prior, used_memory

NOTHING: Floats = np.empty(0)


def task(mb: float, jobs: int = 10) -> UsedMemory:
    """A task whose jobs all used the same memory."""
    return used_memory(np.full(jobs, mb), NOTHING)


def random_tasks(seed: int, tasks: int, between: float, within: float, jobs: int = 40) -> list[UsedMemory]:
    random = np.random.default_rng(seed)
    middles = 1000.0 * np.exp(between * random.standard_normal(tasks))
    return [used_memory(middle * np.exp(within * random.standard_normal(jobs)), NOTHING) for middle in middles]


@pytest.mark.parametrize(
    ("kind", "wider", "expected"),
    [
        (0, 0, None),
        (1, 1, None),  # one task tells nothing about the differences between tasks
        (0, 2, 2000.0),  # the mean of the logarithms of the request, 4000, and of the wider kind, 1000
        (2, 2, math.sqrt(2000.0 * 1000.0)),
        (1, 2, 2000.0),
        (0, 6, 4000.0 ** (1 / 4) * 1000.0 ** (3 / 4)),
    ],
)
def test_more_tasks_count_more(kind: int, wider: int, expected: float | None) -> None:
    prior = memory_prior([task(1000.0)] * kind, [task(1000.0)] * wider, 4000.0, 90.0, 2.0)
    assert (None if prior is None else prior.ask_mb) == (None if expected is None else pytest.approx(expected))
    if prior is not None:
        assert (prior.kind_tasks, prior.kind_jobs, prior.wider_tasks, prior.wider_jobs) == (
            kind, 10 * kind, wider, 10 * wider,
        )  # fmt: skip
        assert math.isnan(prior.kind_mb) == (kind < 2)


def test_the_own_kind_takes_precedence_over_the_wider_one() -> None:
    own_tasks, other_tasks = [task(1000.0)] * 8, [task(4000.0)] * 8
    prior = memory_prior(own_tasks, own_tasks + other_tasks, 2000.0, 90.0, 0.0)
    assert prior is not None and prior.ask_mb == pytest.approx(1000.0) == prior.kind_mb < prior.wider_mb
    # without a weight the request does not count
    prior_of_larger_request = memory_prior(own_tasks, own_tasks + other_tasks, 9000.0, 90.0, 0.0)
    assert prior_of_larger_request is not None and prior_of_larger_request.ask_mb == pytest.approx(1000.0)


@pytest.mark.parametrize("request_mb", [0.0, -1.0, math.nan])
def test_a_task_without_a_request_has_no_prior(request_mb: float) -> None:
    assert memory_prior([task(1000.0)] * 5, [task(1000.0)] * 5, request_mb, 90.0, 2.0) is None


@pytest.mark.parametrize(("between", "within"), [(0.35, 0.14), (0.0, 0.3), (0.5, 0.0)])
@pytest.mark.parametrize("rank", [75.0, 90.0, 95.0])
def test_the_prior_covers_the_requested_share_of_jobs_of_another_task(
    between: float, within: float, rank: float
) -> None:
    prior = memory_prior(kind := random_tasks(1, 2000, between, within), kind, 1.0, rank, 0.0)
    spread = math.hypot(between, within)
    random = np.random.default_rng(2)
    jobs = 1000.0 * np.exp(spread * random.standard_normal(100_000))
    assert prior is not None and np.mean(jobs <= prior.ask_mb) == pytest.approx(rank / 100.0, abs=0.01)


def test_the_prior_includes_the_uncertainty_of_the_mean() -> None:
    tasks = [task(1000.0), task(2000.0)]
    prior = memory_prior(tasks, tasks, 1.0, 84.1344746, 0.0)  # one standard deviation above the mean
    between = math.log(2.0) ** 2 / 2.0
    assert prior is not None and math.log(prior.ask_mb) == pytest.approx(
        (math.log(1000.0) + math.log(2000.0)) / 2.0 + math.sqrt(1.5 * between), abs=1e-6
    )


def test_few_tasks_raise_the_prior_and_killed_jobs_count() -> None:
    two_tasks, many_tasks = random_tasks(3, 2, 0.35, 0.14), random_tasks(3, 2, 0.35, 0.14) * 50
    prior_of_few, prior_of_many = (
        memory_prior(two_tasks, two_tasks, 1.0, 90.0, 0.0),
        memory_prior(many_tasks, many_tasks, 1.0, 90.0, 0.0),
    )
    assert prior_of_few is not None and prior_of_many is not None and prior_of_few.ask_mb > prior_of_many.ask_mb
    with_killed = used_memory(np.array([1000.0]), np.array([4000.0]))
    assert with_killed.jobs == 2 and with_killed.ln_sum == pytest.approx(math.log(1000.0) + math.log(4000.0))
    assert with_killed.ln_square_sum == pytest.approx(math.log(1000.0) ** 2 + math.log(4000.0) ** 2)


def test_the_same_sums_give_the_same_value_in_any_order() -> None:
    kind = random_tasks(5, 30, 0.3, 0.2)
    prior, prior_of_reversed = (
        memory_prior(kind, kind, 3000.0, 90.0, 2.0),
        memory_prior(kind[::-1], kind[::-1], 3000.0, 90.0, 2.0),
    )
    assert (
        prior is not None
        and prior_of_reversed is not None
        and prior.ask_mb == pytest.approx(prior_of_reversed.ask_mb, rel=1e-12)
    )
