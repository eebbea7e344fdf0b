"""One cycle: chunks in order, each with the jobs placed before it."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from broker.engine.job import cycle as job_cycle
from broker.engine.job.decision import decision_of
from broker.engine.shared.chain import QueueChain, RuleChainError
from broker.snapshot.raw import SourceState
from tests.engine.small_work import Dataset, replica
from tests.engine.toy_cycle import cycle, names, only, work
from tests.engine.toy_rules import AtMost, Factor, FewerQueued, Toy, mask

BY_NAME = ["N_PLAIN", "N_UCORE/MCORE", "N_UCORE/SCORE", "S_PLAIN"]
HEAVY = Factor("heavy", mask([0, 0, 0, 1, 0]) * 3.0 + 1.0)


def test_without_rules_every_production_queue_is_chosen() -> None:
    toy_cycle = cycle(work(currentpriority=500.0))
    assert names(toy_cycle, only(toy_cycle)) == BY_NAME


def test_a_queue_without_jobs_comes_first_where_the_chunk_may_bootstrap() -> None:
    toy_cycle = cycle(work(currentpriority=100.0, gshare="Other"), weights=[HEAVY])
    assert names(toy_cycle, only(toy_cycle)) == BY_NAME
    decision = decision_of(toy_cycle, only(toy_cycle))
    assert [(candidate.bootstrap, candidate.weight) for candidate in decision.candidates] == [(True, 0.0)] * 4


@pytest.mark.parametrize(
    ("columns", "bootstrap"),
    [
        ({"currentpriority": 150.0}, True),
        ({"currentpriority": 151.0}, False),
        ({"currentpriority": 100.0, "merging": True}, False),
        ({"currentpriority": 100.0, "processingtype": "urgent"}, False),
    ],
)
def test_which_chunks_may_bootstrap(columns: dict[str, Any], bootstrap: bool) -> None:
    toy_cycle = cycle(work(gshare="Other", **columns))
    assert [candidate.bootstrap for candidate in decision_of(toy_cycle, only(toy_cycle)).candidates] == [bootstrap] * 4


def test_placed_jobs_count_for_the_next_chunk_of_the_same_share() -> None:
    toy_cycle = cycle(
        work(3, currentpriority=500.0, gshare=["A", "A", "B"]), load_weights=[FewerQueued()], weights=[HEAVY]
    )
    order = []
    for result in toy_cycle.results():
        order.append(names(toy_cycle, result)[0])
        toy_cycle.add_load(result.row, result.chosen[:1], np.array([25]))
    # the second chunk sees 25 jobs at S_PLAIN, the chunk of another share does not
    assert order == ["S_PLAIN", "N_PLAIN", "S_PLAIN"]


def test_placed_jobs_count_at_the_unified_queue() -> None:
    toy_cycle = cycle(work(2, currentpriority=500.0), load_weights=[FewerQueued()])
    results = toy_cycle.results()
    first = next(results)
    toy_cycle.add_load(0, first.feasible[[1]], np.array([5]))
    assert names(toy_cycle, next(results)) == ["N_PLAIN", "S_PLAIN", "N_UCORE/MCORE", "N_UCORE/SCORE"]


def test_the_inputs_of_a_chunks_room() -> None:
    """For the third chunk of four, of share B: jobs placed for the share, local input, and the share's limit."""
    chunks = work(4, [Dataset([replica("N_DISK")])], currentpriority=500.0, gshare=["A", "B", "B", "A"])
    toy_cycle = cycle(chunks, tuning={"NQUEUELIMITSITE_A": 5, "NQUEUELIMITSITE_B": 7})
    results = toy_cycle.results()
    for row, jobs in ((0, 9), (1, 4)):
        next(results)
        toy_cycle.add_load(row, np.array([3]), np.array([jobs]))
    third = next(results)
    placed, local, limit = toy_cycle.room_depends_on(third)
    stats = zip(names(toy_cycle, third), placed.tolist(), local.tolist(), strict=True)
    assert sorted(stats) == [
        ("N_PLAIN", 0.0, True),
        ("N_UCORE/MCORE", 0.0, True),
        ("N_UCORE/SCORE", 0.0, True),
        ("S_PLAIN", 4.0, False),
    ]
    assert limit.tolist() == [7.0]


def test_independent_chunks_see_the_same_grid() -> None:
    toy_cycle = cycle(work(3, currentpriority=500.0), load_weights=[FewerQueued()], cuts=[AtMost(5)], independent=True)
    orders = []
    for result in toy_cycle.results():
        orders.append(names(toy_cycle, result))
        toy_cycle.add_load(result.row, result.chosen, np.array([25] * len(result.chosen)))
        # why-not shows the load that the cycle saw
        assert not toy_cycle.load(result.block, result.row, result.feasible).defined.any()
    assert orders == [BY_NAME] * 3


def test_a_cut_sees_placed_jobs() -> None:
    toy_cycle = cycle(work(2, currentpriority=500.0), cuts=[AtMost(24)])
    results = toy_cycle.results()
    first = next(results)
    toy_cycle.add_load(0, first.chosen, np.array([25] * 4))
    second = next(results)
    assert (second.reason, len(second.chosen)) == ("no_candidates", 0)
    assert set(decision_of(toy_cycle, second).rejected.values()) == {"at_most"}


@pytest.mark.parametrize("cells", [1, 10, 10**6])
def test_the_size_of_blocks_does_not_matter(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def decisions() -> list[Any]:
        chunks = work(7, gshare=list("ABABABA"), currentpriority=[float(200 - index) for index in range(7)])
        toy_cycle = cycle(chunks, [Toy("odd", lambda t, c, f: t.jeditaskid % 2 == 1)], [HEAVY], [FewerQueued()])
        outcomes = []
        for result in toy_cycle.results():
            outcomes.append(decision_of(toy_cycle, result))
            toy_cycle.add_load(result.row, result.chosen[:2], np.array([3, 2])[: len(result.chosen)])
        return outcomes

    whole = decisions()
    monkeypatch.setattr(job_cycle, "BLOCK_CELLS", cells)
    monkeypatch.setattr(job_cycle, "LEAST_BLOCK", 1)
    assert decisions() == whole
    assert len(whole) == 7


@pytest.mark.parametrize(
    ("columns", "datasets", "reason"),
    [
        ({"nucleus": "GONE"}, [], "unknown_nucleus"),
        ({"nucleus": "GONE"}, [Dataset([])], "unknown_nucleus"),
        ({}, [Dataset([])], "no_complete_replica"),
        ({}, [Dataset([], catalogued=False)], "unknown_dataset"),
        ({}, [Dataset([replica("N_DISK")])], ""),
        ({"nucleus": None}, [], ""),
        ({"nucleus": "SAT"}, [], ""),
    ],
)
def test_chunks_that_cannot_be_brokered_whatever_the_queues(
    columns: dict[str, Any], datasets: list[Dataset], reason: str
) -> None:
    toy_cycle = cycle(work(1, datasets, **columns))
    result = only(toy_cycle)
    assert (result.reason, len(result.chosen) > 0) == (reason, reason == "")
    decision = decision_of(toy_cycle, result)
    assert decision.outcome == ("pending" if reason else "brokered")


def test_no_chunks() -> None:
    assert list(cycle(work(0)).results()) == []


@pytest.mark.parametrize("broken", [ValueError("x"), "heavy", np.ones((1, 99)), np.array([["x"]], dtype=object)])
def test_a_broken_weight_weighs_nothing_and_is_noted(broken: Any) -> None:
    toy_cycle = cycle(work(currentpriority=500.0), weights=[Factor("broken", broken), HEAVY])
    assert names(toy_cycle, only(toy_cycle))[0] == "S_PLAIN"
    assert {fault.rule for fault in toy_cycle.faults} == {"broken"}


def test_a_weight_without_its_source_weighs_nothing() -> None:
    states = (SourceState("links", "stale", 1, 9.0, 5.0),)
    weights = [Factor("linked", RuntimeError("called"), sources=("links",)), HEAVY]
    toy_cycle = cycle(work(currentpriority=500.0), weights=weights, states=states)
    decision = decision_of(toy_cycle, only(toy_cycle))
    assert decision.candidates[0].factors == {"linked": 1.0, "heavy": 4.0}
    assert decision.notes == ("source_stale:links",)


@pytest.mark.parametrize("weight", [np.nan, np.inf, -1.0])
def test_an_invalid_weight_keeps_the_candidate_out(weight: float) -> None:
    toy_cycle = cycle(work(currentpriority=500.0), weights=[Factor("odd", [[1.0, 1.0, weight, 1.0, 1.0]])])
    result = only(toy_cycle)
    assert names(toy_cycle, result) == ["N_PLAIN", "N_UCORE/MCORE", "S_PLAIN"]
    assert decision_of(toy_cycle, result).rejected == {"N_UCORE/SCORE": "weight_unknown"}


def test_a_rule_twice_is_refused() -> None:
    with pytest.raises(RuleChainError, match="a is there twice"):
        QueueChain("toy", (Toy("a", mask([1])),), (Factor("a", 1.0),), (), ())


def test_input_is_read_through_relations_for_input_in_the_default_scope() -> None:
    toy_cycle = cycle()
    relations = toy_cycle.snapshot.relations
    scopes = np.array(["default", "analysis"] * len(relations), dtype=object)[: len(relations)]
    is_input = np.arange(len(relations)) % 4 < 2
    toy_cycle.snapshot = dataclasses.replace(
        toy_cycle.snapshot, relations=dataclasses.replace(relations, scope=scopes, is_input=is_input)
    )
    assert len(relations) > 2
    assert toy_cycle.reading().tolist() == [at % 4 == 0 for at in range(len(relations))]


def placements_of(toy_cycle: job_cycle.JobCycle) -> list[list[str]]:
    """The choice of each chunk, each giving 25 jobs to its first candidate."""
    chosen = []
    for result in toy_cycle.results():
        chosen.append(names(toy_cycle, result))
        toy_cycle.add_load(result.row, result.chosen[:1], np.array([25]))
    return chosen


@pytest.mark.parametrize(
    ("values", "taken_over"),
    [({"MIN_WEIGHT_managed": 3.0}, True), ({"NQUEUELIMITSITE_A": 1.0}, True), ({"IO_INTENSITY_CUTOFF": 5.0}, False)],
)
def test_a_cycle_beside_another_decides_as_a_fresh_one(values: dict[str, Any], taken_over: bool) -> None:
    chunks, rules = work(3, currentpriority=500.0, gshare=["A", "A", "B"]), {"load_weights": [FewerQueued()]}
    first = cycle(chunks, **rules, weights=[HEAVY])
    placements_of(first)
    fresh = cycle(chunks, **rules, tuning=values)
    snapshot = first._given
    beside = first.beside(snapshot, chunks, fresh.tuning, fresh.chain)
    assert (beside is not None) is taken_over
    if beside is not None:
        assert placements_of(beside) == placements_of(fresh) and beside.legend == fresh.legend
        assert first.beside(snapshot, work(3), fresh.tuning, fresh.chain) is None
