"""The index over groups agrees with a separate judgement of each spec, on random groups and nodes."""

from __future__ import annotations

import numpy as np
import pytest

from broker.matching.specs.condition import packed, unpacked
from broker.matching.specs.index import SpecIndex
from broker.matching.specs.judge import judge, misses
from broker.matching.specs.node import Node
from broker.matching.specs.spec import OWN, V02, JobSpecs, Profile, Spec
from broker.matching.specs.tags import parse_tags
from tests.matching.specs.random_specs import Dice, random_job, random_node


@pytest.mark.parametrize("profile", [OWN, V02])
def test_the_index_agrees_with_brute_force(profile: Profile) -> None:
    pairs, fitting = compare(profile, groups=150, nodes=200, seed=37)
    assert pairs == 30_000 and 0.005 < fitting / pairs < 0.5


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("profile", [OWN, V02])
def test_the_index_agrees_with_brute_force_in_a_million_pairs(profile: Profile, seed: int) -> None:
    pairs, fitting = compare(profile, groups=1000, nodes=1000, seed=seed)
    assert pairs == 1_000_000 and 0.005 < fitting / pairs < 0.5


def compare(profile: Profile, *, groups: int, nodes: int, seed: int, alone_each: int = 10) -> tuple[int, int]:
    """Compare all pairs, twice to cover cached answers; return the number of pairs and of fitting pairs.

    Every tenth group is also checked separately.
    """
    dice = Dice(seed)
    jobs = [random_job(dice) for _ in range(groups)]
    index = SpecIndex(jobs, profile)
    fitting = 0
    for node in [random_node(dice) for _ in range(nodes)]:
        expected = np.array([judge(job, node, profile).fits for job in jobs], dtype=np.bool_)
        for _ in range(2):
            different = np.flatnonzero(index.fits(node) != expected)
            assert not len(different), (jobs[different[0]], node, judge(jobs[different[0]], node, profile))
        for group in range(0, groups, alone_each):
            assert index.suits(node, group) == expected[group], (jobs[group], node)
        fitting += int(expected.sum())
    return groups * nodes, fitting


def test_groups_that_fail_one_condition_are_reported_by_its_field() -> None:
    dice = Dice(5)
    jobs = [JobSpecs((job.specs[0],)) for job in (random_job(dice) for _ in range(300))]
    index = SpecIndex(jobs)
    reported_fields = set()
    for node in [random_node(dice) for _ in range(100)]:
        near = index.missing_one(node)
        for place, job in enumerate(jobs):
            missed_fields = [miss.field for miss in misses(job.specs[0], node)]
            reported = [field for field, flags in near.items() if flags[place]]
            assert reported == (missed_fields if len(missed_fields) == 1 else []), (job, node)
            reported_fields.update(reported)
    assert {"wall-time", "tags", "site", "cpu.ram-mb.request", "gpu.count.min"} <= reported_fields


def test_no_groups_and_one_group() -> None:
    node = Node("S.One", tags=frozenset(("a",)))
    assert SpecIndex(()).fits(node).tolist() == [] and SpecIndex(()).missing_one(node) == {}
    job = JobSpecs((Spec(sites=("S.Two",)), Spec(tags=parse_tags("a"))))
    assert SpecIndex((job,)).fits(node).tolist() == [True]
    assert SpecIndex((job,)).fits(Node("S.One")).tolist() == [False]


def test_nodes_that_no_bound_separates_have_one_signature() -> None:
    index = SpecIndex([JobSpecs((Spec(wall_time_s=3600, tags=parse_tags("a")),))])
    node = Node("S.One", wall_time_s=3600, tags=frozenset(("a",)))
    assert index.signature(node) == index.signature(Node("S.Two", wall_time_s=9999, tags=frozenset(("a", "b"))))
    assert index.signature(node) != index.signature(Node("S.One", wall_time_s=3599, tags=frozenset(("a",))))


@pytest.mark.parametrize("count", [1, 7, 8, 63, 64, 65, 1000])
def test_bits_and_flags(count: int) -> None:
    flags = np.random.default_rng(count).random(count) < 0.5
    assert unpacked(packed(flags), count).tolist() == flags.tolist()
    assert packed(flags).dtype == np.uint64
