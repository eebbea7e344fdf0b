"""One cycle: chunks in order, with what was placed before."""

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
    found = cycle(work(currentpriority=500.0))
    assert names(found, only(found)) == BY_NAME


def test_a_queue_without_jobs_comes_first_where_the_chunk_may_bootstrap() -> None:
    found = cycle(work(currentpriority=100.0, gshare="Other"), weights=[HEAVY])
    assert names(found, only(found)) == BY_NAME
    decision = decision_of(found, only(found))
    assert [(one.bootstrap, one.weight) for one in decision.candidates] == [(True, 0.0)] * 4


@pytest.mark.parametrize(
    ("columns", "bootstrap"),
    [
        ({"currentpriority": 150.0}, True),
        ({"currentpriority": 151.0}, False),
        ({"currentpriority": 100.0, "merging": True}, False),
        ({"currentpriority": 100.0, "processingtype": "urgent"}, False),
    ],
)
def test_who_may_bootstrap(columns: dict[str, Any], bootstrap: bool) -> None:
    found = cycle(work(gshare="Other", **columns))
    assert [one.bootstrap for one in decision_of(found, only(found)).candidates] == [bootstrap] * 4


def test_what_was_placed_counts_for_the_next_of_the_same_share() -> None:
    found = cycle(work(3, currentpriority=500.0, gshare=["A", "A", "B"]), load_weights=[FewerQueued()], weights=[HEAVY])
    order = []
    for result in found.results():
        order.append(names(found, result)[0])
        found.add_load(result.row, result.chosen[:1], np.array([25]))
    # the second chunk finds 25 jobs at S_PLAIN, that of another share does not
    assert order == ["S_PLAIN", "N_PLAIN", "S_PLAIN"]


def test_placed_jobs_count_at_the_unified_queue() -> None:
    found = cycle(work(2, currentpriority=500.0), load_weights=[FewerQueued()])
    results = found.results()
    first = next(results)
    found.add_load(0, first.feasible[[1]], np.array([5]))
    assert names(found, next(results)) == ["N_PLAIN", "S_PLAIN", "N_UCORE/MCORE", "N_UCORE/SCORE"]


def test_what_the_room_of_a_chunk_depends_on() -> None:
    """The third chunk of four, of share B: jobs placed for the share, whether input is there, and the share's limit."""
    given = work(4, [Dataset([replica("N_DISK")])], currentpriority=500.0, gshare=["A", "B", "B", "A"])
    found = cycle(given, tuning={"NQUEUELIMITSITE_A": 5, "NQUEUELIMITSITE_B": 7})
    results = found.results()
    for row, jobs in ((0, 9), (1, 4)):
        next(results)
        found.add_load(row, np.array([3]), np.array([jobs]))
    third = next(results)
    placed, local, limit = found.room_depends_on(third)
    stats = zip(names(found, third), placed.tolist(), local.tolist(), strict=True)
    assert sorted(stats) == [
        ("N_PLAIN", 0.0, True),
        ("N_UCORE/MCORE", 0.0, True),
        ("N_UCORE/SCORE", 0.0, True),
        ("S_PLAIN", 4.0, False),
    ]
    assert limit.tolist() == [7.0]


def test_every_chunk_meets_the_same_grid_when_independent() -> None:
    found = cycle(work(3, currentpriority=500.0), load_weights=[FewerQueued()], cuts=[AtMost(5)], independent=True)
    orders = []
    for result in found.results():
        orders.append(names(found, result))
        found.add_load(result.row, result.chosen, np.array([25] * len(result.chosen)))
        # what why-not shows is what the cycle saw
        assert not found.load(result.block, result.row, result.feasible).defined.any()
    assert orders == [BY_NAME] * 3


def test_a_cut_sees_what_was_placed() -> None:
    found = cycle(work(2, currentpriority=500.0), cuts=[AtMost(24)])
    results = found.results()
    first = next(results)
    found.add_load(0, first.chosen, np.array([25] * 4))
    second = next(results)
    assert (second.reason, len(second.chosen)) == ("no_candidates", 0)
    assert set(decision_of(found, second).rejected.values()) == {"at_most"}


@pytest.mark.parametrize("cells", [1, 10, 10**6])
def test_the_size_of_blocks_does_not_matter(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def decisions() -> list[Any]:
        chunks = work(7, gshare=list("ABABABA"), currentpriority=[float(200 - index) for index in range(7)])
        found = cycle(chunks, [Toy("odd", lambda t, c, f: t.jeditaskid % 2 == 1)], [HEAVY], [FewerQueued()])
        made = []
        for result in found.results():
            made.append(decision_of(found, result))
            found.add_load(result.row, result.chosen[:2], np.array([3, 2])[: len(result.chosen)])
        return made

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
    found = cycle(work(1, datasets, **columns))
    result = only(found)
    assert (result.reason, len(result.chosen) > 0) == (reason, reason == "")
    decision = decision_of(found, result)
    assert decision.outcome == ("pending" if reason else "brokered")


def test_no_chunks() -> None:
    assert list(cycle(work(0)).results()) == []


@pytest.mark.parametrize("broken", [ValueError("x"), "heavy", np.ones((1, 99)), np.array([["x"]], dtype=object)])
def test_a_broken_weight_weighs_nothing_and_is_noted(broken: Any) -> None:
    found = cycle(work(currentpriority=500.0), weights=[Factor("broken", broken), HEAVY])
    assert names(found, only(found))[0] == "S_PLAIN"
    assert {fault.rule for fault in found.faults} == {"broken"}


def test_a_weight_without_its_source_weighs_nothing() -> None:
    states = (SourceState("links", "stale", 1, 9.0, 5.0),)
    weights = [Factor("linked", RuntimeError("called"), sources=("links",)), HEAVY]
    found = cycle(work(currentpriority=500.0), weights=weights, states=states)
    decision = decision_of(found, only(found))
    assert decision.candidates[0].factors == {"linked": 1.0, "heavy": 4.0}
    assert decision.notes == ("source_stale:links",)


@pytest.mark.parametrize("weight", [np.nan, np.inf, -1.0])
def test_a_weight_that_is_none_keeps_the_candidate_out(weight: float) -> None:
    found = cycle(work(currentpriority=500.0), weights=[Factor("odd", [[1.0, 1.0, weight, 1.0, 1.0]])])
    result = only(found)
    assert names(found, result) == ["N_PLAIN", "N_UCORE/MCORE", "S_PLAIN"]
    assert decision_of(found, result).rejected == {"N_UCORE/SCORE": "weight_unknown"}


def test_a_rule_twice_is_refused() -> None:
    with pytest.raises(RuleChainError, match="a is there twice"):
        QueueChain("toy", (Toy("a", mask([1])),), (Factor("a", 1.0),), (), ())


def test_input_is_read_through_relations_for_input_in_the_default_scope() -> None:
    found = cycle()
    relations = found.snapshot.relations
    scopes = np.array(["default", "analysis"] * len(relations), dtype=object)[: len(relations)]
    is_input = np.arange(len(relations)) % 4 < 2
    found.snapshot = dataclasses.replace(
        found.snapshot, relations=dataclasses.replace(relations, scope=scopes, is_input=is_input)
    )
    assert len(relations) > 2
    assert found.reading().tolist() == [at % 4 == 0 for at in range(len(relations))]


def placed_in(found: job_cycle.JobCycle) -> list[list[str]]:
    """The choice of each chunk, where each gives 25 jobs to its first candidate."""
    chosen = []
    for result in found.results():
        chosen.append(names(found, result))
        found.add_load(result.row, result.chosen[:1], np.array([25]))
    return chosen


@pytest.mark.parametrize(
    ("values", "taken_over"),
    [({"MIN_WEIGHT_managed": 3.0}, True), ({"NQUEUELIMITSITE_A": 1.0}, True), ({"IO_INTENSITY_CUTOFF": 5.0}, False)],
)
def test_a_cycle_beside_another_decides_as_one_made_anew(values: dict[str, Any], taken_over: bool) -> None:
    given, rules = work(3, currentpriority=500.0, gshare=["A", "A", "B"]), {"load_weights": [FewerQueued()]}
    first = cycle(given, **rules, weights=[HEAVY])
    placed_in(first)
    anew = cycle(given, **rules, tuning=values)
    snapshot = first._given
    beside = first.beside(snapshot, given, anew.tuning, anew.chain)
    assert (beside is not None) is taken_over
    if beside is not None:
        assert placed_in(beside) == placed_in(anew) and beside.legend == anew.legend
        assert first.beside(snapshot, work(3), anew.tuning, anew.chain) is None
