"""The cost of a rule: how much cheaper the best placement would be if that rule alone rejected nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from broker.domain.arrays import Bools, Floats, Ints
from broker.flow.model.problem import FlowProblem, moved_gb, pair_costs, pair_hs06, pairs_of
from broker.flow.model.program import FlowProgram, LinearSolution, Prices
from broker.flow.model.warm_program import WarmProgram

#: Fraction of the cost of the best placement below which a possible saving is ignored.
WORTH_A_LOOK = 1e-4


@dataclass(frozen=True)
class RuleWorth:
    """The cost of a rule in a cycle.

    Attributes:
        rule: code of the rule.
        chunks: number of chunks for which it closes a queue cheaper than the best use of their jobs.
        saved_hs06h: HS06 h by which the best placement would be cheaper without the rule.
        is_bound: whether this is only an upper bound, which includes pairs that other rules reject, too.
    """

    rule: str
    chunks: int
    saved_hs06h: float
    is_bound: bool


@dataclass(frozen=True)
class Rejections:
    """Pairs of all candidates (P,), and the rule that decided about each.

    Attributes:
        problem: the problem over all pairs.
        feasible: (P,) whether the pair passed.
        rule: (P,) number of the rejecting rule, -1 if the pair passed.
        codes: codes of the rules.
        alone: gives the pairs (P,) that pass without the rule of a given number.
    """

    problem: FlowProblem
    feasible: Bools
    rule: Ints
    codes: Sequence[str]
    alone: Callable[[int], Bools]


def rule_worths(
    rejections: Rejections, program: WarmProgram, best: LinearSolution, most: int, left_s: Callable[[], float]
) -> tuple[RuleWorth, ...]:
    """The rules that cost anything, dearest first.

    At the optimal prices, a rejected pair is worth the amount by which it is cheaper than the best use of its jobs.
    This bounds the cost of a rule; without a cheaper pair, a rule costs nothing. For the rules with the highest bounds
    the program is solved again with the pairs that no other rule rejects.

    Args:
        rejections: the rejected pairs.
        program: the solved program over the pairs that passed.
        best: its solution.
        most: most rules for which it is solved again.
        left_s: returns the remaining seconds.
    """
    cheaper = np.maximum(-reduced_over_all(rejections.problem, program, best.prices), 0.0)
    cheaper[rejections.feasible] = 0.0
    bounds = {int(rule): _bound(rejections, rule, cheaper) for rule in np.unique(rejections.rule[cheaper > 0])}
    least = WORTH_A_LOOK * max(1.0, best.cost)
    order = sorted((rule for rule, (_, bound) in bounds.items() if bound > least), key=lambda rule: -bounds[rule][1])
    lines = []
    for number, rule in enumerate(order):
        chunks, bound = bounds[rule]
        worth = _saved(rejections, rule, program, left_s) if number < most and left_s() > 0 else None
        lines.append(RuleWorth(rejections.codes[rule], chunks, bound if worth is None else worth, worth is None))
    costly = [one for one in lines if one.saved_hs06h > least]
    return tuple(sorted(costly, key=lambda one: (one.is_bound, -one.saved_hs06h, one.rule)))


def _saved(rejections: Rejections, rule: int, program: WarmProgram, left_s: Callable[[], float]) -> float | None:
    """What the best placement without a rule saves; None if the time is insufficient."""
    alone = rejections.alone(rule) & (rejections.rule == rule) & ~rejections.feasible
    return program.saved_by(pairs_of(rejections.problem, alone), left_s())


def _bound(rejections: Rejections, rule: int, cheaper: Floats) -> tuple[int, float]:
    """The number of chunks for which a rule closes a cheaper queue, and the most that it costs."""
    own = rejections.rule == rule
    most = np.zeros(len(rejections.problem.chunks))
    np.maximum.at(most, rejections.problem.pairs.chunk[own], cheaper[own])
    return int((most > 0).sum()), float((most * rejections.problem.chunks.jobs).sum())


def reduced_over_all(problem: FlowProblem, program: FlowProgram, prices: Prices) -> Floats:
    """(P,) how much dearer a job of each pair is than its best use, also for pairs outside the program."""
    pairs, chunks, shares = problem.pairs, problem.chunks, len(program.debt)
    k, q = pairs.chunk, pairs.queue
    inside = program.problem.pairs
    room = np.zeros((len(problem.queues), shares))
    room[inside.queue, chunks.share[inside.chunk]] = prices.room[program.rows.room_of]
    gb, link = moved_gb(problem), problem.queues.link[q]
    price = pair_costs(problem) + chunks.cores[k] * prices.wait[q] + room[q, chunks.share[k]] - prices.chunk[k]
    price += np.where(link >= 0, np.append(prices.link, 0.0)[link], 0.0) * gb
    price += np.where(pairs.output >= 0, np.append(prices.output, 0.0)[pairs.output], 0.0)
    return np.asarray(price - prices.share[chunks.share[k]] * pair_hs06(problem))
