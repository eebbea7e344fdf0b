from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, strategies as st

from broker.domain.arrays import Bools, Ints
from broker.engine.shared.distribute import Candidates, Distribution, Group, distribute, group_size


@dataclass
class Files:
    """A chunk of ``files`` files, one for each job; ``refusing`` maps candidates to positions of files they refuse."""

    files: int
    refusing: dict[int, set[int]] = field(default_factory=dict)
    held: Bools | None = None
    at: int = 0
    calls: list[tuple[int, int, int]] = field(default_factory=list)

    def has_files(self) -> bool:
        return self.at < self.files

    def make(self, candidate: int, count: int) -> int:
        start = self.at
        while self.at < min(start + count, self.files) and self.at not in self.refusing.get(candidate, set()):
            self.at += 1
        if self.at > start:
            self.calls.append((candidate, start, self.at))
        return self.at - start

    def take_back(self) -> None:
        self.at = self.calls.pop()[1]

    def holders_of_next(self) -> Bools | None:
        return None if self.held is None else np.asarray(self.held[:, self.at])


def jobs_of(distribution: Distribution, size: int) -> Ints:
    """(size,) number of jobs of each candidate."""
    totals = np.zeros(size, dtype=np.int64)
    for group in distribution.groups:
        totals[group.candidate] += group.jobs
    return totals


def candidates(
    weight: list[float],
    queued: list[float] | None = None,
    cap: list[float] | None = None,
    bootstrap: list[bool] | None = None,
    chunk_size: list[int] | None = None,
) -> Candidates:
    size = len(weight)
    return Candidates(
        np.array(weight, dtype=np.float64),
        np.array(queued or [0.0] * size),
        np.array(cap or [math.nan] * size),
        np.array(bootstrap or [False] * size, dtype=np.bool_),
        np.array(chunk_size or [0] * size, dtype=np.int64),
    )


def run(choices: Candidates, source: Files, size: int = 25, seed: int = 1) -> Distribution:
    return distribute(choices, source, size, np.random.default_rng(seed))


def chi_square(counts: list[int], expected: list[float]) -> float:
    return sum(
        (count - expected_count) ** 2 / expected_count for count, expected_count in zip(counts, expected, strict=True)
    )


@pytest.mark.parametrize(
    ("scout", "merging", "hpo", "size"),
    [(False, False, False, 25), (True, False, False, 2), (True, True, False, 25), (False, False, True, 2)],
)
def test_group_size(scout: bool, merging: bool, hpo: bool, size: int) -> None:
    assert group_size(scout, merging, hpo) == size


def test_candidates_are_drawn_by_weight() -> None:
    rounds, weights = 10_000, [5.0, 3.0, 1.5, 0.5]
    counts = [0, 0, 0, 0]
    for seed in range(rounds):
        (group,) = run(candidates(weights), Files(1), seed=seed).groups
        counts[group.candidate] += 1
    # 16.27 is the 99.9 % quantile for three degrees of freedom
    assert chi_square(counts, [rounds * weight / 10 for weight in weights]) < 16.27


def test_weight_falls_with_every_assigned_group() -> None:
    # after a group of 5 on 4 queued jobs a weight of 1 is 1 * 5 / 10: the same candidate again one time in three
    rounds, again = 10_000, 0
    for seed in range(rounds):
        groups = run(candidates([1.0, 1.0], queued=[4, 4]), Files(10), size=5, seed=seed).groups
        again += groups[0].candidate == groups[1].candidate
    expected = [rounds / 3, 2 * rounds / 3]
    assert chi_square([again, rounds - again], expected) < 10.83


@pytest.mark.parametrize(
    ("queued", "cap", "groups"),
    [
        (0.0, 0.0, 0),
        (19.0, 20.0, 1),
        (20.0, 20.0, 0),
        (0.0, 26.0, 2),
        (0.0, 25.0, 1),
        (7.0, math.nan, 4),
        (math.nan, 5.0, 4),
    ],
)
def test_capacity(queued: float, cap: float, groups: int) -> None:
    distribution = run(candidates([1.0], queued=[queued], cap=[cap]), Files(100))
    assert distribution.groups == (Group(0, 25),) * groups
    assert distribution.end == ("no_files" if groups == 4 else "full")


@pytest.mark.parametrize(("chunk_size", "sizes"), [(0, [25, 25]), (1, [1] * 50)])
def test_a_group_size_of_one_is_respected(chunk_size: int, sizes: list[int]) -> None:
    distribution = run(candidates([1.0], chunk_size=[chunk_size]), Files(50))
    assert [group.jobs for group in distribution.groups] == sizes


def test_a_full_candidate_leaves_the_rest_to_the_others() -> None:
    distribution = run(candidates([1000.0, 1e-6], queued=[0, 0], cap=[25, math.nan]), Files(100))
    assert jobs_of(distribution, 2).tolist() == [25, 75]


def test_every_bootstrap_candidate_gets_one_group_first() -> None:
    choices = candidates([0.0, 0.0, 0.0, 5.0], bootstrap=[True, True, True, False])
    distribution = run(choices, Files(200))
    assert sorted(group.candidate for group in distribution.groups[:3]) == [0, 1, 2]
    assert {group.candidate for group in distribution.groups[3:]} == {3}
    assert sum(group.jobs for group in distribution.groups) == 200


def test_bootstrap_candidates_come_in_any_order() -> None:
    counts = {(0, 1): 0, (1, 0): 0}
    for seed in range(2000):
        groups = run(candidates([0.0, 0.0], bootstrap=[True, True]), Files(50), seed=seed).groups
        counts[groups[0].candidate, groups[1].candidate] += 1
    assert chi_square(list(counts.values()), [1000.0, 1000.0]) < 10.83


def test_only_bootstrap_candidates_leave_files_over() -> None:
    distribution = run(candidates([0.0], bootstrap=[True]), Files(60))
    assert (distribution.groups, distribution.end) == ((Group(0, 25),), "full")


@pytest.mark.parametrize("weights", [[0.0, 0.0], [math.nan, math.nan], [-1.0, 0.0], [math.inf, 0.0]])
def test_without_any_usable_weight_all_candidates_are_equally_likely(weights: list[float]) -> None:
    counts = [0, 0]
    for seed in range(1000):
        counts[run(candidates(weights), Files(1), seed=seed).groups[0].candidate] += 1
    assert chi_square(counts, [500.0, 500.0]) < 10.83


def test_a_candidate_without_weight_is_never_drawn_beside_a_weighted_one() -> None:
    for weights in ([0.0, 1.0, math.nan], [math.nan, 1e-300, 0.0]):
        assert jobs_of(run(candidates(weights), Files(500)), 3).tolist() == [0, 500, 0]


class AlmostOne(np.random.Generator):
    """Draws the largest number below 1."""

    def __init__(self) -> None:
        super().__init__(np.random.PCG64(1))

    def random(self, *_args: object, **_kwargs: object) -> float:  # type: ignore[override]
        return math.nextafter(1.0, 0.0)


def test_a_draw_at_the_very_end_is_the_last_candidate_with_weight() -> None:
    choices = candidates([0.1, 0.2, 0.3, 5e-324, 0.0])
    distribution = distribute(choices, Files(1), 25, AlmostOne())
    assert distribution.groups[0].candidate in (2, 3)


def test_the_same_seed_gives_the_same_distribution() -> None:
    choices = candidates([3.0, 2.0, 1.0], bootstrap=[False, False, True])
    assert run(choices, Files(900), seed=7) == run(choices, Files(900), seed=7)
    assert len({run(choices, Files(900), seed=seed).groups for seed in range(20)}) > 1


def test_arrays_of_the_caller_are_not_modified() -> None:
    choices = candidates([3.0, 2.0], queued=[1.0, 1.0], bootstrap=[True, False])
    run(choices, Files(100))
    assert (choices.weight.tolist(), choices.queued.tolist(), choices.bootstrap.tolist()) == (
        [3.0, 2.0],
        [1.0, 1.0],
        [True, False],
    )


def test_no_candidates_and_no_files() -> None:
    assert run(candidates([]), Files(5)) == Distribution((), "full")
    assert run(candidates([]), Files(0)) == Distribution((), "no_files")


def test_a_candidate_that_makes_no_job_is_skipped_until_the_file_is_gone() -> None:
    source = Files(60, refusing={0: {0}})
    distribution = run(candidates([1e9, 1.0]), source)
    assert distribution.groups[0] == Group(1, 25)
    assert distribution.groups[1].candidate == 0
    assert sum(group.jobs for group in distribution.groups) == 60


def test_a_refused_turn_costs_a_bootstrap_candidate_nothing() -> None:
    source = Files(50, refusing={0: {0}})
    distribution = run(candidates([0.0, 1.0], bootstrap=[True, False]), source)
    assert distribution.groups == (Group(1, 25), Group(0, 25))


def test_files_that_no_candidate_takes_wait() -> None:
    source = Files(60, refusing={0: {30}, 1: {30}})
    distribution = run(candidates([1.0, 1.0]), source)
    assert (sum(group.jobs for group in distribution.groups), distribution.end) == (30, "full")


def test_a_candidate_may_have_its_own_group_size() -> None:
    distribution = run(candidates([1.0], chunk_size=[10]), Files(30))
    assert distribution.groups == (Group(0, 10),) * 3


def test_an_incomplete_group_of_a_candidates_own_size_is_taken_back_and_placed_elsewhere() -> None:
    choices = candidates([1.0, 0.0], chunk_size=[10, 0])
    source = Files(24)
    distribution = run(choices, source)
    assert distribution.groups == (Group(0, 10), Group(0, 10), Group(1, 4))
    assert source.calls == [(0, 0, 10), (0, 10, 20), (1, 20, 24)]
    assert distribution.end == "no_files"


def test_files_of_an_incomplete_group_wait_when_there_is_no_other_candidate() -> None:
    distribution = run(candidates([1.0], chunk_size=[10]), Files(24))
    assert (distribution.groups, distribution.end) == ((Group(0, 10), Group(0, 10)), "full")


def test_an_incomplete_group_of_the_common_size_stays() -> None:
    distribution = run(candidates([0.0, 1.0], chunk_size=[10, 0]), Files(24))
    assert distribution.groups == (Group(1, 24),)


def test_files_of_a_distributed_dataset_go_where_they_are() -> None:
    held = np.zeros((2, 60), dtype=np.bool_)
    held[0, :25], held[1, 25:50] = True, True
    distribution = run(candidates([1.0, 1.0], cap=[math.nan, math.nan]), Files(60, held=held))
    assert [group.candidate for group in distribution.groups[:2]] == [0, 1]
    assert distribution.end == "no_files"  # the last ten are nowhere: any candidate will do


def test_a_full_holder_of_a_file_does_not_stop_the_others() -> None:
    held = np.array([[True] * 50, [False] * 50])
    distribution = run(candidates([1.0, 1.0], queued=[0, 0], cap=[25, math.nan]), Files(50, held=held))
    assert [group.candidate for group in distribution.groups] == [0, 1]


@given(
    weights=st.lists(st.sampled_from([0.0, 0.1, 1.0, 50.0, math.nan]), min_size=1, max_size=10),
    caps=st.lists(st.sampled_from([0.0, 20.0, 60.0, math.nan]), min_size=10, max_size=10),
    boots=st.lists(st.booleans(), min_size=10, max_size=10),
    sizes=st.lists(st.sampled_from([0, 0, 4]), min_size=10, max_size=10),
    files=st.integers(0, 400),
    size=st.sampled_from([2, 25]),
    seed=st.integers(0, 99),
)
def test_nothing_is_lost_and_no_limit_is_broken(
    weights: list[float], caps: list[float], boots: list[bool], sizes: list[int], files: int, size: int, seed: int
) -> None:
    count = len(weights)
    choices = candidates(weights, [0.0] * count, caps[:count], boots[:count], sizes[:count])
    source = Files(files)
    distribution = run(choices, source, size, seed)
    jobs = jobs_of(distribution, count)
    assert jobs.sum() == source.at <= files
    assert [(candidate, stop - start) for candidate, start, stop in source.calls] == [
        (group.candidate, group.jobs) for group in distribution.groups
    ]
    assert [start for _, start, _ in source.calls] == [0, *[stop for *_, stop in source.calls]][: len(source.calls)]
    for at in range(count):
        own = sizes[at] or size
        assert not jobs[at] > (own if boots[at] else max(caps[at], 0) + own - 1)
        assert not (
            boots[at] and jobs[at] == 0 and distribution.groups and distribution.end == "full" and not sizes[at]
        )
    assert (distribution.end == "no_files") == (source.at == files)


@pytest.mark.parametrize(
    ("files", "chunk_size", "expected"),
    [
        (100, [-1, 0], [1, 99]),
        (1, [-1], [1]),
        (100, [-1], [1]),
        (100, [-5, 0], [5, 95]),
        (3, [-5], [3]),  # not taken back where files run out
        (12, [-1, 10], [1, 10]),  # the rest is taken back from the second, and the first gets no second group
    ],
)
def test_a_candidate_with_a_negative_size_gets_one_group_of_that_size(
    files: int, chunk_size: list[int], expected: list[int]
) -> None:
    size = len(chunk_size)
    choices = candidates([1e6, *[1e-6] * (size - 1)], bootstrap=[True, *[False] * (size - 1)], chunk_size=chunk_size)
    assert jobs_of(run(choices, Files(files)), size).tolist() == expected


@given(st.lists(st.integers(-9, 30), min_size=1, max_size=8), st.integers(0, 300), st.integers(0, 99))
def test_no_candidate_with_a_negative_size_gets_more_than_that(chunk_size: list[int], files: int, seed: int) -> None:
    jobs = jobs_of(
        run(candidates([1.0] * len(chunk_size), chunk_size=chunk_size), Files(files), seed=seed), len(chunk_size)
    )
    assert all(observed <= -size for observed, size in zip(jobs.tolist(), chunk_size, strict=True) if size < 0)
