"""The parts of the regret add up to it, no part is negative, and the worth of a rule is exact."""

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
def test_the_parts_of_the_shares_add_up_to_the_regret(seed: int) -> None:
    program = FlowProgram(grid_problem(40, 12, seed))
    best = program.solve()
    for jobs in (
        greedy(program.problem, program).astype(np.float64),
        best.amount,
        np.zeros(len(program.problem.pairs)),
    ):
        parts = regret_of_shares(program, best.prices, jobs)
        assert parts.min() >= 0.0
        assert parts.sum() == pytest.approx(program.cost_of(jobs) - best.cost, rel=1e-6, abs=1e-6 * best.cost)
    assert regret_of_shares(program, best.prices, best.amount).sum() == pytest.approx(0.0, abs=1e-6 * best.cost)
    assert queue_differences(program.problem, best.amount, best.amount) == ()


def test_the_parts_of_the_cost_add_up_to_the_objective_of_the_program() -> None:
    program = FlowProgram(grid_problem(30, 10, 1))
    best = program.solve()
    parts = cost_parts(program.problem, best.amount, program.unplaced, program.debt)
    assert parts.total == pytest.approx(best.cost, rel=1e-9)
    assert min(vars(parts).values()) >= 0.0


def rejections(seed: int, also: bool = False) -> tuple[Rejections, WarmProgram]:
    """Rule 0 rejects a third of the pairs, rule 1 another third; with ``also`` rule 1 rejects those of rule 0 too."""
    whole = grid_problem(30, 10, seed)
    rule = np.arange(len(whole.pairs)) % 3 - 1
    feasible = rule < 0

    def alone(number: int) -> np.ndarray:
        return feasible | ((rule == number) & (not also or number == 1))

    program = WarmProgram(whole, feasible)
    return Rejections(whole, feasible, rule, ("first", "second"), alone), program


@pytest.mark.parametrize("seed", range(3))
def test_the_cost_of_a_rule_is_the_saving_without_it_and_a_bound_is_never_below(seed: int) -> None:
    rejection_set, program = rejections(seed)
    best = program.solve()
    exact = {worth.rule: worth for worth in rule_worths(rejection_set, program, best, 2, lambda: 60.0)}
    bounds = {worth.rule: worth for worth in rule_worths(rejection_set, program, best, 0, lambda: 60.0)}
    for number, code in enumerate(rejection_set.codes):
        wider = pairs_of(rejection_set.problem, rejection_set.alone(number))
        without = FlowProgram(
            dataclasses.replace(rejection_set.problem, pairs=wider), None, 60.0, program.unplaced
        ).solve()
        assert exact[code].saved_hs06h == pytest.approx(best.cost - without.cost, rel=1e-6)
        assert not exact[code].is_bound and bounds[code].is_bound
        assert bounds[code].saved_hs06h >= exact[code].saved_hs06h * (1 - 1e-9)


def test_pairs_that_other_rules_reject_as_well_cost_a_rule_nothing() -> None:
    rejection_set, program = rejections(1, also=True)
    best = program.solve()
    assert [worth.rule for worth in rule_worths(rejection_set, program, best, 2, lambda: 60.0)] == ["second"]
    assert {worth.is_bound for worth in rule_worths(rejection_set, program, best, 2, lambda: 0.0)} == {True}, (
        "no time is left"
    )


@pytest.mark.parametrize("seed", range(3))
def test_a_warm_program_gives_the_same_answers_in_any_order(seed: int) -> None:
    rejection_set, program = rejections(seed)
    plain = FlowProgram(program.problem, unplaced=program.unplaced).solve()
    assert program.solve().cost == pytest.approx(plain.cost, rel=1e-9)
    more = [pairs_of(rejection_set.problem, rejection_set.rule == number) for number in range(2)]
    first = [program.saved_by(pairs, 60.0) for pairs in more]
    assert all(saved is not None and saved > 0.0 for saved in first)
    for number in (1, 0, 1):
        assert program.saved_by(more[number], 60.0) == pytest.approx(first[number], rel=1e-6)
    assert program.saved_by(more[0], 0.0) is None, "no time is left"
    assert program.saved_by(more[0], 60.0) == pytest.approx(first[0], rel=1e-6)
    assert program.saved_by(pairs_of(rejection_set.problem, rejection_set.rule > 1), 60.0) == 0.0


def test_an_unsolved_program_has_no_savings() -> None:
    rejection_set, program = rejections(0)
    assert program.saved_by(pairs_of(rejection_set.problem, rejection_set.rule == 0), 60.0) is None


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
    # one chunk of ten jobs at two queues of a site that share one link: its jobs count once there
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
    binding = binding_of(whole, rows_of(whole))
    assert binding.room.tolist() == [binds[0]] * 2 and binding.output.tolist() == [binds[1]]


@pytest.mark.parametrize("factor", [0.01, 0.3, 1e6])
def test_non_binding_rows_change_neither_the_optimum_nor_its_prices(factor: float) -> None:
    whole = grid_problem(40, 12, 2)
    whole = dataclasses.replace(
        whole,
        queues=dataclasses.replace(whole.queues, room=np.ceil((whole.queues.room + 1.0) * factor)),
        output_jobs=np.ceil(whole.output_jobs * factor),
    )
    every = np.ones(len(whole.pairs), dtype=np.bool_)
    warm, plain = WarmProgram(whole, every), FlowProgram(whole)
    solution, expected = warm.solve(), plain.solve()
    binding = binding_of(whole, warm.rows)
    assert (binding.room.any() or binding.output.any()) == (factor < 1), "the limits bind as the case says"
    assert solution.cost == pytest.approx(expected.cost, rel=1e-9)
    assert not solution.prices.room[~binding.room].any() and not solution.prices.output[~binding.output].any()
    assert regret_of_shares(warm, solution.prices, expected.amount).sum() == pytest.approx(
        0.0, abs=1e-6 * expected.cost
    )
