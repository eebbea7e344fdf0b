"""What a new task asks for by the tasks before it: between its request, a wider kind and its own."""

from __future__ import annotations

import math

import numpy as np
import pytest

from broker.domain.arrays import Floats
from broker.domain.memory_prior import UsedMemory, memory_prior, used_memory

NOTHING: Floats = np.empty(0)


def task(mb: float, jobs: int = 10) -> UsedMemory:
    """A task all of whose jobs used the same."""
    return used_memory(np.full(jobs, mb), NOTHING)


def drawn(seed: int, tasks: int, between: float, within: float, jobs: int = 40) -> list[UsedMemory]:
    random = np.random.default_rng(seed)
    middles = 1000.0 * np.exp(between * random.standard_normal(tasks))
    return [used_memory(one * np.exp(within * random.standard_normal(jobs)), NOTHING) for one in middles]


@pytest.mark.parametrize(
    ("kind", "wider", "expected"),
    [
        (0, 0, None),
        (1, 1, None),  # of one task nothing is known of how they differ
        (0, 2, 2000.0),  # half of the request of 4000, half of the wider kind at 1000, as logarithms
        (2, 2, math.sqrt(2000.0 * 1000.0)),
        (1, 2, 2000.0),
        (0, 6, 4000.0 ** (1 / 4) * 1000.0 ** (3 / 4)),
    ],
)
def test_more_tasks_count_more(kind: int, wider: int, expected: float | None) -> None:
    found = memory_prior([task(1000.0)] * kind, [task(1000.0)] * wider, 4000.0, 90.0, 2.0)
    assert (None if found is None else found.ask_mb) == (None if expected is None else pytest.approx(expected))
    if found is not None:
        assert (found.kind_tasks, found.kind_jobs, found.wider_tasks, found.wider_jobs) == (
            kind, 10 * kind, wider, 10 * wider,
        )  # fmt: skip
        assert math.isnan(found.kind_mb) == (kind < 2)


def test_the_own_kind_counts_before_the_wider_one() -> None:
    own, others = [task(1000.0)] * 8, [task(4000.0)] * 8
    found = memory_prior(own, own + others, 2000.0, 90.0, 0.0)
    assert found is not None and found.ask_mb == pytest.approx(1000.0) == found.kind_mb < found.wider_mb
    # without a weight the request does not count
    again = memory_prior(own, own + others, 9000.0, 90.0, 0.0)
    assert again is not None and again.ask_mb == pytest.approx(1000.0)


@pytest.mark.parametrize("request_mb", [0.0, -1.0, math.nan])
def test_a_task_that_asks_for_nothing_has_no_prior(request_mb: float) -> None:
    assert memory_prior([task(1000.0)] * 5, [task(1000.0)] * 5, request_mb, 90.0, 2.0) is None


@pytest.mark.parametrize(("between", "within"), [(0.35, 0.14), (0.0, 0.3), (0.5, 0.0)])
@pytest.mark.parametrize("rank", [75.0, 90.0, 95.0])
def test_it_is_enough_for_so_many_jobs_of_another_task(between: float, within: float, rank: float) -> None:
    found = memory_prior(kind := drawn(1, 2000, between, within), kind, 1.0, rank, 0.0)
    spread = math.hypot(between, within)
    random = np.random.default_rng(2)
    jobs = 1000.0 * np.exp(spread * random.standard_normal(100_000))
    assert found is not None and np.mean(jobs <= found.ask_mb) == pytest.approx(rank / 100.0, abs=0.01)


def test_the_mean_of_two_tasks_is_not_sure_itself() -> None:
    two = [task(1000.0), task(2000.0)]
    found = memory_prior(two, two, 1.0, 84.1344746, 0.0)  # one standard deviation above the mean
    between = math.log(2.0) ** 2 / 2.0
    assert found is not None and math.log(found.ask_mb) == pytest.approx(
        (math.log(1000.0) + math.log(2000.0)) / 2.0 + math.sqrt(1.5 * between), abs=1e-6
    )


def test_few_tasks_are_less_sure_and_killed_jobs_count() -> None:
    two, many = drawn(3, 2, 0.35, 0.14), drawn(3, 2, 0.35, 0.14) * 50
    few, sure = memory_prior(two, two, 1.0, 90.0, 0.0), memory_prior(many, many, 1.0, 90.0, 0.0)
    assert few is not None and sure is not None and few.ask_mb > sure.ask_mb
    with_killed = used_memory(np.array([1000.0]), np.array([4000.0]))
    assert with_killed.jobs == 2 and with_killed.ln_sum == pytest.approx(math.log(1000.0) + math.log(4000.0))
    assert with_killed.ln_square_sum == pytest.approx(math.log(1000.0) ** 2 + math.log(4000.0) ** 2)


def test_the_same_sums_give_the_same_value_in_any_order() -> None:
    kind = drawn(5, 30, 0.3, 0.2)
    one, two = memory_prior(kind, kind, 3000.0, 90.0, 2.0), memory_prior(kind[::-1], kind[::-1], 3000.0, 90.0, 2.0)
    assert one is not None and two is not None and one.ask_mb == pytest.approx(two.ask_mb, rel=1e-12)
