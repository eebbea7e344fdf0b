"""The index over task queues agrees with a separate check of each; draws agree with a full ordering."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from broker.domain.arrays import Texts
from broker.pilots.model.group_fields import PilotRequest
from broker.pilots.model.match_order import draw_in_tiers
from broker.pilots.model.matcher import CPUTIME_CLASSES_S, MATCHES, Pilot, TaskQueueTable
from broker.pilots.model.waiting_groups import FEW, GroupIndex, WaitingGroups, kinds_of
from tests.matching.specs.random_specs import SITES, Dice, random_job, random_node
from tests.pilots.plain_conditions import match_task_queues

QUEUES, POOLS, PLATFORMS = ("A", "B", None, None), ("p1", "p2", None, None, None), ("el7", "el9", "any")
TYPES = (("first", 1, 1.0), ("heavy", 2, 3.0), ("light", 2, 1.0), ("", 1000, 1.0), (None, 1000, 1.0))


def column(values: list[Any]) -> Texts:
    array = np.empty(len(values), dtype=np.object_)
    array[:] = values
    return array


def random_table(count: int, seed: int) -> TaskQueueTable:
    dice, specs = random.Random(seed), Dice(seed)
    types = [dice.choice(TYPES) for _ in range(count)]
    classes = np.array([dice.choice((0, *CPUTIME_CLASSES_S)) for _ in types])

    def some(values: tuple[Any, ...]) -> Texts:
        return column([dice.choice(values) for _ in range(count)])

    def lists(values: tuple[str, ...], chance: float) -> Texts:
        return column([tuple(dice.sample(values, 2)) if dice.random() < chance else () for _ in range(count)])

    return TaskQueueTable(
        id=np.array(dice.sample(range(10 * count), count)), vo=some(("lhcb", "LHCb", "lhcb", "atlas", None)),
        owner=some(("ann", "ann", "bob", None)), owner_group=some(("g", "g", None)), panda_queue=some(QUEUES),
        resource_type=some(("SCORE", "MCORE", None, None)), sites=lists(SITES, 0.3), banned_sites=lists(SITES, 0.1),
        platforms=lists(PLATFORMS, 0.3), cputime_class_s=classes,
        pool=some(POOLS), specs=column([random_job(specs).canonical if dice.random() < 0.5 else None for _ in types]),
        weight=np.array([dice.choice((0.1, 1.0, 5.0)) for _ in types]),
        job_type=column([kind for kind, _, _ in types]), tier=np.array([tier for _, tier, _ in types]),
        type_weight=np.array([weight for _, _, weight in types]),
    )  # fmt: skip


def random_request(dice: random.Random, specs: Dice) -> PilotRequest:
    node = replace(random_node(specs), site=dice.choice(SITES)) if dice.random() < 0.8 else None
    pilot = Pilot(
        dice.choice(SITES), "ce", "q", dice.choice(("lhcb", "LHCB", None)),
        tuple(dice.sample(PLATFORMS, dice.randint(0, 3))), dice.choice((None, 0, 359, 360, 361, 90_000, 2_000_000)),
        dice.choice(("SCORE", None)), dice.choice(("ann", None, None)), dice.choice(("g", None, None)), node,
    )  # fmt: skip
    return PilotRequest(pilot, dice.choice(("A", "C")), frozenset(dice.sample(("p1", "p2", "p3"), 2)), node)


def compare(queues: int, pilots: int, seed: int) -> tuple[int, int]:
    """Compare all pairs, twice to cover cached answers; return the number of pairs and of fitting pairs."""
    table, dice, specs = random_table(queues, seed), random.Random(seed + 1), Dice(seed + 1)
    index, fitting = GroupIndex(table), 0
    assert sorted(index.position) == sorted(table.id.tolist())
    for _ in range(pilots):
        request = random_request(dice, specs)
        expected = match_task_queues(index.queues, request.pilot, request.panda_queue, request.pools)
        for _ in range(2):
            fits, matches = index.fitting(request), (expected == MATCHES).tolist()
            assert [fits.has(place) for place in range(queues)] == matches  # one at a time
            assert fits.whole.runs == {
                number for number, run in enumerate(index.runs) if any(matches[run.start : run.end])
            }
            assert [fits.has(place) for place in range(queues)] == matches  # again, after all were evaluated
            assert index.reasons(request).tolist() == expected.tolist()
        fitting += int((expected == MATCHES).sum())
    return queues * pilots, fitting


def test_the_index_agrees_with_a_separate_check_of_each_task_queue() -> None:
    pairs, fitting = compare(300, 100, 11)
    assert pairs == 30_000 and 0.005 < fitting / pairs < 0.5


@pytest.mark.slow
def test_the_index_agrees_with_separate_checks_in_a_million_pairs() -> None:
    pairs, fitting = compare(2000, 500, 12)
    assert pairs == 1_000_000 and 0.005 < fitting / pairs < 0.5


def groups_for(count: int, seed: int, empty: float = 0.1) -> tuple[WaitingGroups, PilotRequest]:
    """Task queues that all fit except those of another VO; some are empty."""
    dice = random.Random(seed)
    table = replace(
        random_table(count, seed), vo=column(["lhcb" if dice.random() < 0.7 else "atlas" for _ in range(count)]),
        **{name: column([None] * count) for name in ("owner", "owner_group", "panda_queue", "resource_type", "pool")},
        **{name: column([()] * count) for name in ("sites", "banned_sites", "platforms")},
        specs=column([None] * count), cputime_class_s=np.zeros(count, dtype=np.int64),
    )  # fmt: skip
    levels = [{} if dice.random() < empty else {priority: 1 for priority in (0, 5, 1000)} for _ in range(count)]
    return WaitingGroups.of(table, levels), PilotRequest(Pilot("S", "ce", "q", "lhcb"), "q", frozenset(), None)


@pytest.mark.parametrize("count", [20, 4 * FEW])
def test_each_fitting_level_with_jobs_comes_once_in_tier_order(count: int) -> None:
    groups, request = groups_for(count, 3)
    candidates = list(groups.candidates(groups.index.fitting(request), np.random.default_rng(1)))
    queues = groups.queues
    expected = {
        (place, priority) for place in range(count) if queues.vo[place] == "lhcb" for priority in groups.levels[place]
    }
    assert len(candidates) == len(expected) and set(candidates) == expected
    tiers = [queues.tier[queue] for queue, _ in candidates]
    assert tiers == sorted(tiers)


@pytest.mark.parametrize("count", [20, 8 * FEW])
def test_draws_have_the_same_proportions_as_a_full_ordering(count: int) -> None:
    groups, request = groups_for(count, 4)
    queues, fitting, generator = groups.queues, groups.index.fitting(request), np.random.default_rng(2)
    fits = np.flatnonzero((queues.vo == "lhcb") & groups.holding)
    kinds, draws = kinds_of(queues), 6000

    def key(queue: int) -> tuple[Any, ...]:
        return queues.job_type[queue], float(queues.weight[queue])

    first = Counter(key(next(groups.candidates(fitting, generator))[0]) for _ in range(draws))
    columns = queues.tier[fits], kinds[fits], queues.type_weight[fits], queues.weight[fits]
    expected = Counter(key(int(fits[draw_in_tiers(*columns, generator)[0]])) for _ in range(draws))
    for drawn_key in first | expected:
        assert first[drawn_key] / draws == pytest.approx(expected[drawn_key] / draws, abs=0.035)
    # task queues known to be empty are not drawn
    for queue in np.flatnonzero(queues.tier == 1).tolist():
        for priority in (0, 5, 1000):
            groups.forget(queue, priority)
    drawn_types = Counter(queues.job_type[next(groups.candidates(fitting, generator))[0]] for _ in range(draws))
    assert set(drawn_types) == {"heavy", "light"} and drawn_types["heavy"] / draws == pytest.approx(0.75, abs=0.03)


def test_the_same_seed_draws_the_same() -> None:
    groups, request = groups_for(50, 5)
    fitting = groups.index.fitting(request)
    first_draw, second_draw = (list(groups.candidates(fitting, np.random.default_rng(9))) for _ in range(2))
    assert first_draw == second_draw


@pytest.mark.parametrize("count", [20, 8 * FEW])
def test_the_same_seed_draws_the_same_with_and_without_cached_fits(count: int) -> None:
    groups, request = groups_for(count, 5)
    fresh, cached = groups.index.fitting(request), groups.index.fitting(request)
    assert len(cached.whole.runs)
    for seed in range(20):
        fresh_draw, cached_draw = (
            next(groups.candidates(fits, np.random.default_rng(seed))) for fits in (fresh, cached)
        )
        assert fresh_draw == cached_draw


def test_no_task_queues() -> None:
    none = random_table(1, 1).at(np.zeros(0, dtype=np.int64))
    groups, (_, request) = WaitingGroups.of(none, []), groups_for(1, 1)
    assert list(groups.candidates(groups.index.fitting(request), np.random.default_rng(1))) == []
    assert groups.index.reasons(request).tolist() == []
