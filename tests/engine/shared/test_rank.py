"""Ranking of the candidates of one chunk."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from broker.domain.arrays import Floats
from broker.domain.decisions import Observation
from broker.engine.shared.filter_cache import RuleFault
from broker.engine.shared.rank import BEST, Ranking, cut_codes, rank, rank_block
from broker.rules.contract import Load, LoadCut, LoadWeight
from tests.engine.toy_rules import AtMost, FewerQueued
from tests.rules.builders import make_load


def ranking_of(weights: list[float], *, cuts: Any = (), load_weights: Any = (), **load: Any) -> Ranking:
    table = make_load(len(weights), **{"running": 1.0, "bootstrap_allowed": False, **load})
    return rank((np.array(weights, dtype=float),), table, load_weights, cuts)


def codes(ranking: Ranking, cuts: Any = ()) -> list[str | None]:
    return [None if index < 0 else cut_codes(cuts)[index] for index in ranking.cut]


def test_the_heaviest_first_and_ties_by_name() -> None:
    assert ranking_of([1, 3, 2, 3, 0]).chosen.tolist() == [1, 3, 2, 0, 4]


def test_the_best_ten() -> None:
    ranking = ranking_of([float(index) for index in range(13)])
    assert ranking.chosen.tolist() == list(range(12, 2, -1))
    assert codes(ranking) == ["low_weight"] * 3 + [None] * BEST
    assert ranking_of([1.0] * 12).chosen.tolist() == list(range(BEST))
    assert len(ranking_of([1.0] * 10).chosen) == 10


@pytest.mark.parametrize("weight", [np.nan, np.inf, -np.inf, -1.0, -1e-300])
def test_an_invalid_weight_is_never_chosen(weight: float) -> None:
    ranking = ranking_of([weight, 0.5, weight], bootstrap_allowed=True, running=[0.0, 1.0, 0.0])
    assert ranking.chosen.tolist() == [1]
    assert codes(ranking) == ["weight_unknown", None, "weight_unknown"]
    assert not ranking.bootstrap.any()


def test_candidates_without_jobs_come_first_by_name() -> None:
    ranking = ranking_of([1, 9, 2, 8], bootstrap_allowed=True, running=[1.0, 1.0, 0.0, 0.0])
    assert ranking.chosen.tolist() == [2, 3, 1, 0]
    assert ranking.bootstrap.tolist() == [False, False, True, True]


@pytest.mark.parametrize("state", ["running", "activated", "assigned", "starting", "defined"])
def test_one_job_of_any_kind_ends_the_bootstrap(state: str) -> None:
    ranking = ranking_of(
        [1, 2], bootstrap_allowed=True, running=0.0, **{state: [1.0, 0.0]} if state != "running" else {}
    )
    expected = [True, True] if state == "running" else [False, True]
    assert ranking.bootstrap.tolist() == expected
    if state == "running":
        assert ranking_of([1, 2], bootstrap_allowed=True, running=[1.0, 0.0]).bootstrap.tolist() == [False, True]


def test_a_chunk_that_may_not_bootstrap() -> None:
    ranking = ranking_of([1, 2], running=[0.0, 1.0])
    assert ranking.chosen.tolist() == [1, 0]
    assert not ranking.bootstrap.any()


def test_too_many_candidates_without_jobs() -> None:
    ranking = ranking_of([1.0] * 12 + [50.0], bootstrap_allowed=True, running=[0.0] * 12 + [1.0])
    assert ranking.chosen.tolist() == list(range(BEST))
    assert codes(ranking)[10:] == ["others_bootstrap", "others_bootstrap", "low_weight"]


def test_the_first_cut_is_the_reason() -> None:
    cuts = (AtMost(5, name="five"), AtMost(3, name="three"))
    ranking = ranking_of([1, 2, 3], cuts=cuts, defined=[6.0, 4.0, 3.0])
    assert codes(ranking, cuts) == ["five", "three", None]
    assert ranking.chosen.tolist() == [2]


@pytest.mark.parametrize("spares", [True, False])
def test_a_cut_that_exempts_candidates_without_jobs(spares: bool) -> None:
    cuts = (AtMost(-1, name="nobody", exempts_bootstrap=spares),)
    ranking = ranking_of([1, 2], cuts=cuts, bootstrap_allowed=True, running=[0.0, 1.0])
    assert ranking.chosen.tolist() == ([0] if spares else [])
    assert ranking.bootstrap.tolist() == [spares, False]


def test_moving_factors_are_part_of_the_weight() -> None:
    ranking = ranking_of([4, 4], load_weights=(FewerQueued(),), defined=[3.0, 0.0])
    assert ranking.weight.tolist() == [1, 4]
    assert [factor.tolist() for factor in ranking.load_factors] == [[0.25, 1.0]]
    assert ranking.chosen.tolist() == [1, 0]


def test_factors_multiply_in_order() -> None:
    def only(fixed: list[float]) -> float:
        table = make_load(1, running=1.0, defined=48.0, bootstrap_allowed=False)
        return float(rank([np.array([factor]) for factor in fixed], table, (FewerQueued(),), ()).weight[0])

    # the order of floating-point factors can change the product
    assert only([0.1, 0.3]) == 1 / 49 * 0.1 * 0.3 != 1 / 49 * (0.1 * 0.3)
    assert only([]) == 1 / 49


def test_no_candidates() -> None:
    ranking = ranking_of([])
    assert (ranking.chosen.tolist(), ranking.cut.tolist()) == ([], [])


WEIGHTS = st.lists(st.floats(width=16) | st.sampled_from([0.0, 1.0]), max_size=25)


@given(WEIGHTS, st.data())
def test_every_candidate_is_chosen_or_cut(weights: list[float], data: Any) -> None:
    size = len(weights)
    running = data.draw(st.lists(st.sampled_from([0.0, 1.0]), min_size=size, max_size=size))
    ranking = ranking_of(weights, bootstrap_allowed=data.draw(st.booleans()), running=np.array(running))
    assert sorted(ranking.chosen.tolist()) == np.flatnonzero(ranking.cut < 0).tolist()
    good = [index for index, weight in enumerate(weights) if np.isfinite(weight) and weight >= 0]
    assert len(ranking.chosen) == min(BEST, len(good))
    keys = [(not ranking.bootstrap[i], 0 if ranking.bootstrap[i] else -weights[i], i) for i in ranking.chosen]
    assert keys == sorted(keys)


@given(st.integers(0, 2**32 - 1), st.integers(0, 14), st.integers(0, 3))
def test_a_block_is_ranked_as_its_chunks_one_by_one(seed: int, queues: int, chunks: int) -> None:
    random = np.random.default_rng(seed)
    shape = (chunks, queues)
    weights = random.choice([0.0, 1.0, 1.0, 2.0, np.nan, np.inf, -1.0, 5e-324], shape)
    feasible = random.random(shape) < 0.8
    jobs = {name: random.choice([0.0, 0.0, 3.0], shape) for name in ("running", "defined", "activated")}
    zeros = np.zeros(shape)
    allowed = random.random((chunks, 1)) < 0.5
    cuts, moving = (AtMost(2), AtMost(-1, name="spares", exempts_bootstrap=True)), (FewerQueued(),)

    def load(row: Any, column: Any) -> Load:
        parts = {name: values[row, column] for name, values in jobs.items()}
        rest = dict.fromkeys(("assigned", "starting", "queue_limit", "min_weight"), zeros[row, column])
        flags = {"all_local": zeros[row, column] > 0, "urgent": zeros[row, column] > 0}
        return Load(**parts, **rest, **flags, bootstrap_allowed=allowed[row])

    block = rank_block((weights,), feasible, load(slice(None), slice(None)), moving, cuts)
    for row in range(chunks):
        positions = np.flatnonzero(feasible[row])
        alone = rank((weights[row, positions],), load(row, positions), moving, cuts)
        together = block.of(row, positions)
        assert together.chosen.tolist() == alone.chosen.tolist()
        assert together.cut.tolist() == alone.cut.tolist()
        assert block.count[row] == len(alone.chosen)
        np.testing.assert_array_equal(together.weight, alone.weight)
        np.testing.assert_array_equal(together.bootstrap, alone.bootstrap)


@given(st.integers(0, 2**32 - 1), st.integers(11, 16))
def test_candidates_that_take_a_place_leave_fewer_for_the_rest(seed: int, queues: int) -> None:
    """They count among the best but are not chosen, in a block as alone."""
    random = np.random.default_rng(seed)
    weights = random.choice([1.0, 2.0, 3.0], queues)
    taking = random.random(queues) < 0.3
    load = make_load(queues, running=1.0, bootstrap_allowed=False)
    best = [position for position in np.argsort(-weights, kind="stable")[:BEST] if not taking[position]]
    alone = rank((weights,), load, (), ()).without(taking)
    positions = np.flatnonzero(~taking)
    assert positions[alone.chosen].tolist() == best
    assert codes(alone).count(None) == len(best)
    columns: dict[str, Any] = {
        load_field.name: getattr(load, load_field.name) for load_field in dataclasses.fields(load)
    }
    rows: dict[str, Any] = {name: None if column is None else column[None] for name, column in columns.items()}
    block = rank_block((weights[None],), ~taking[None], Load(**rows), (), (), taking=taking[None])
    together = block.of(0, positions)
    assert (together.chosen.tolist(), block.count.tolist()) == (alone.chosen.tolist(), [len(best)])
    assert together.cut.tolist() == alone.cut.tolist()


class Broken(LoadWeight):
    """A load weight that always fails."""

    name = code = title = "broken"

    def factor(self, load: Load) -> Floats:
        """Always fails."""
        raise ZeroDivisionError("no jobs")


class Ends(LoadCut):
    """A cut that ends the program."""

    name = code = title = "ends"

    def keep(self, load: Load, weight: Floats) -> Any:
        """Ends the program."""
        raise SystemExit(7)

    def observe(self, load: Load, weight: Floats) -> Observation:
        """Not under test."""
        return Observation(0, "<=", 0, "-", "rule")


class Numbers(LoadCut):
    """A cut that answers with numbers."""

    name = code = title = "numbers"

    def keep(self, load: Load, weight: Floats) -> Any:
        """Numbers instead of a mask."""
        return np.zeros(len(weight))

    def observe(self, load: Load, weight: Floats) -> Observation:
        """Not under test."""
        return Observation(0, "<=", 0, "-", "rule")


def test_broken_rules_have_no_effect_and_are_noted() -> None:
    faults: list[RuleFault] = []
    table = make_load(3, running=1.0, bootstrap_allowed=False)

    ranking = rank((np.array([1.0, 3.0, 2.0]),), table, (Broken(),), (Numbers(), Ends()), faults)

    assert ranking.chosen.tolist() == [1, 2, 0]
    assert ranking.weight.tolist() == [1.0, 3.0, 2.0]
    assert [(fault.rule, fault.error.split(":")[0]) for fault in faults] == [
        ("broken", "ZeroDivisionError"),
        ("numbers", "TypeError"),
        ("ends", "SystemExit"),
    ]
