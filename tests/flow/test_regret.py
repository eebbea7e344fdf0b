"""The parts of the regret: they add up to it, no share has a negative one, and a rule's worth is exact."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from benchmarks.flow_problems import grid_problem
from broker.flow.model.cycle import greedy
from broker.flow.model.problem import FlowPairs, binding_of, cost_parts, pairs_of, rows_of
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


@pytest.mark.parametrize(
    ("room", "files", "binds"),
    [
        (9.0, 9.0, (True, True)),
        (10.0, 10.0, (False, False)),
        (np.inf, np.inf, (False, False)),
        (11.0, 9.0, (False, True)),
    ],
)
def test_a_limit_binds_only_below_the_jobs_that_could_come(room: float, files: float, binds: tuple[bool, bool]) -> None:
    # one chunk of ten jobs at two queues of a site, which send over one link: its jobs count once there
    whole = grid_problem(1, 2, 1)
    whole = dataclasses.replace(
        whole,
        chunks=dataclasses.replace(whole.chunks, jobs=np.array([10]), share=np.array([0])),
        queues=dataclasses.replace(whole.queues, room=np.full_like(whole.queues.room, room)),
        pairs=FlowPairs(
            np.zeros(2, dtype=np.int64), np.arange(2), np.zeros(2), np.ones(2), np.zeros(2, dtype=np.int64)
        ),
        output_jobs=np.array([files]),
    )
    found = binding_of(whole, rows_of(whole))
    assert found.room.tolist() == [binds[0]] * 2 and found.output.tolist() == [binds[1]]


@pytest.mark.parametrize("factor", [0.01, 0.3, 1e6])
def test_rows_that_bind_nothing_change_neither_the_optimum_nor_its_prices(factor: float) -> None:
    whole = grid_problem(40, 12, 2)
    whole = dataclasses.replace(
        whole,
        queues=dataclasses.replace(whole.queues, room=np.ceil((whole.queues.room + 1.0) * factor)),
        output_jobs=np.ceil(whole.output_jobs * factor),
    )
    every = np.ones(len(whole.pairs), dtype=np.bool_)
    warm, plain = WarmProgram(whole, every), FlowProgram(whole)
    found, meant = warm.solve(), plain.solve()
    kept = binding_of(whole, warm.rows)
    assert (kept.room.any() or kept.output.any()) == (factor < 1), "the limits bind as the case says"
    assert found.cost == pytest.approx(meant.cost, rel=1e-9)
    assert not found.prices.room[~kept.room].any() and not found.prices.output[~kept.output].any()
    assert regret_of_shares(warm, found.prices, meant.amount).sum() == pytest.approx(0.0, abs=1e-6 * meant.cost)
