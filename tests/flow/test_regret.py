"""The parts of the regret: they add up to it, no share has a negative one, and a rule's worth is exact."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from benchmarks.flow_problems import grid_problem
from broker.flow.model.cycle import greedy
from broker.flow.model.problem import cost_parts, pairs_of
from broker.flow.model.program import FlowProgram
from broker.flow.model.quality import queue_differences, regret_of_shares
from broker.flow.model.rule_worth import Rejections, rule_worths
from broker.flow.model.warm_program import WarmProgram


@pytest.mark.parametrize("seed", range(4))
def test_the_parts_of_the_shares_are_the_regret(seed: int) -> None:
    program = FlowProgram(grid_problem(40, 12, seed))
    best = program.solve()
    for jobs in (
        greedy(program.problem, program).astype(np.float64),
        best.amount,
        np.zeros(len(program.problem.pairs)),
    ):
        parts = regret_of_shares(program, best.prices, jobs)
        assert parts.min() >= 0.0
        assert parts.sum() == pytest.approx(program.cost_of(jobs) - best.cost, rel=1e-6, abs=1e-3 * best.cost * 1e-3)
    assert regret_of_shares(program, best.prices, best.amount).sum() == pytest.approx(0.0, abs=1e-6 * best.cost)
    assert queue_differences(program.problem, best.amount, best.amount) == ()


def test_the_parts_of_the_cost_are_what_the_program_minimises() -> None:
    program = FlowProgram(grid_problem(30, 10, 1))
    best = program.solve()
    parts = cost_parts(program.problem, best.amount, program.unplaced, program.debt)
    assert parts.total == pytest.approx(best.cost, rel=1e-9)
    assert min(vars(parts).values()) >= 0.0


def rejections(seed: int, also: bool = False) -> tuple[Rejections, WarmProgram]:
    """A third of the pairs is rejected by rule 0, another by rule 1; ``also``: what 0 rejects, 1 does too."""
    whole = grid_problem(30, 10, seed)
    rule = np.arange(len(whole.pairs)) % 3 - 1
    feasible = rule < 0

    def alone(number: int) -> np.ndarray:
        return feasible | ((rule == number) & (not also or number == 1))

    program = WarmProgram(whole, feasible)
    return Rejections(whole, feasible, rule, ("first", "second"), alone), program


@pytest.mark.parametrize("seed", range(3))
def test_what_a_rule_costs_is_what_the_program_saves_without_it_and_a_bound_is_never_below(seed: int) -> None:
    found, program = rejections(seed)
    best = program.solve()
    exact = {one.rule: one for one in rule_worths(found, program, best, 2, lambda: 60.0)}
    bounds = {one.rule: one for one in rule_worths(found, program, best, 0, lambda: 60.0)}
    for number, code in enumerate(found.codes):
        wider = pairs_of(found.problem, found.alone(number))
        without = FlowProgram(dataclasses.replace(found.problem, pairs=wider), None, 60.0, program.unplaced).solve()
        assert exact[code].saved_hs06h == pytest.approx(best.cost - without.cost, rel=1e-6)
        assert not exact[code].is_bound and bounds[code].is_bound
        assert bounds[code].saved_hs06h >= exact[code].saved_hs06h * (1 - 1e-9)


def test_what_other_rules_reject_as_well_is_not_the_cost_of_one() -> None:
    found, program = rejections(1, also=True)
    best = program.solve()
    assert [one.rule for one in rule_worths(found, program, best, 2, lambda: 60.0)] == ["second"]
    assert {one.is_bound for one in rule_worths(found, program, best, 2, lambda: 0.0)} == {True}, "no time is left"


@pytest.mark.parametrize("seed", range(3))
def test_questions_to_a_warm_program_are_answered_alike_in_any_order(seed: int) -> None:
    found, program = rejections(seed)
    plain = FlowProgram(program.problem, unplaced=program.unplaced).solve()
    assert program.solve().cost == pytest.approx(plain.cost, rel=1e-9)
    more = [pairs_of(found.problem, found.rule == number) for number in range(2)]
    first = [program.saved_by(one, 60.0) for one in more]
    assert all(saved is not None and saved > 0.0 for saved in first)
    for number in (1, 0, 1):
        assert program.saved_by(more[number], 60.0) == pytest.approx(first[number], rel=1e-6)
    assert program.saved_by(more[0], 0.0) is None, "no time is left"
    assert program.saved_by(more[0], 60.0) == pytest.approx(first[0], rel=1e-6)
    assert program.saved_by(pairs_of(found.problem, found.rule > 1), 60.0) == 0.0


def test_a_program_that_was_not_solved_says_nothing_of_more_pairs() -> None:
    found, program = rejections(0)
    assert program.saved_by(pairs_of(found.problem, found.rule == 0), 60.0) is None
