"""A program that is solved once, then warm-started with more pairs: for costs, not for decisions.

Any of several optima with its prices will do. The first vertex is therefore found by dual simplex over few columns, and
each further question takes a few pivots of the primal simplex from the same basis.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from broker.domain.arrays import Bools, Ints
from broker.flow.model.problem import FlowPairs, FlowProblem, binding_of, pairs_of, rows_of
from broker.flow.model.program import (
    MANY_COLUMNS,
    MOST_ROUNDS,
    FlowProgram,
    LinearSolution,
    Prices,
    Status,
    highs,
)

#: Excess cost at rough prices up to which a column is kept, as a fraction of the chunk's price: simplex wants few.
NEAR = 3e-4
_PRIMAL = 4


class WarmProgram(FlowProgram):
    """The program over some pairs of a problem, with rows for all of them.

    Args:
        whole: the problem with all pairs that may be evaluated.
        inside: (P,) the pairs of the program.
        time_limit_s: limit for all rounds of the first solution.
    """

    def __init__(self, whole: FlowProblem, inside: Bools, time_limit_s: float = 10.0) -> None:
        own, rows = dataclasses.replace(whole, pairs=pairs_of(whole, inside)), rows_of(whole)
        super().__init__(own, time_limit_s=time_limit_s, cells=rows.cells, binding=binding_of(whole, rows))
        self._warm: tuple[Any, Bools] | None = None

    def solve(self) -> LinearSolution:
        """Like :meth:`FlowProgram.solve`, and keep the final state.

        Raises:
            SolverMissing: the solver is not installed.
        """
        highspy = highs()
        inside, spent_s = self._first_columns(), 0.0
        if np.count_nonzero(inside) > MANY_COLUMNS:
            inside, spent_s = self._near_optimal(highspy, inside, NEAR)
        solver = self._solver(highspy, spent_s)
        self._add_pairs(solver, np.flatnonzero(inside))
        columns, rounds = [np.flatnonzero(inside)], 0
        while rounds < MOST_ROUNDS and self._runs(solver):
            rounds += 1
            more = _enter(self, solver, self._prices(solver), inside)
            if not len(more):
                self._warm = (solver, inside)
                break
            columns.append(more)
        status: Status = "time_limit" if self._warm is None else "optimal"
        return self._solution(solver, highspy, np.concatenate(columns), rounds, status)

    def saved_by(self, pairs: FlowPairs, left_s: float) -> float | None:
        """HS06 h by which the optimum is cheaper with more pairs; None if the time is insufficient.

        Args:
            pairs: pairs that are not inside.
            left_s: remaining seconds.
        """
        if self._warm is None:
            return None
        solver, inside = self._warm[0], self._warm[1].copy()
        columns, basis, cost = solver.getNumCol(), solver.getBasis(), solver.getInfo().objective_function_value
        problem, added = dataclasses.replace(self.problem, pairs=pairs), np.zeros(len(pairs), dtype=np.bool_)
        extended = FlowProgram(problem, None, left_s, self.unplaced, self.rows.cells, self._binding)
        solver.setOptionValue("time_limit", solver.getRunTime() + left_s)
        solver.setOptionValue("simplex_strategy", _PRIMAL)
        prices, saved = self._prices(solver), None
        for _ in range(MOST_ROUNDS):
            more = len(_enter(extended, solver, prices, added)) + len(_enter(self, solver, prices, inside))
            if not more:
                saved = max(0.0, cost - solver.getInfo().objective_function_value)
                break
            if not self._runs(solver):
                break
            prices = self._prices(solver)
        self._back(solver, columns, basis)
        return saved

    def _runs(self, solver: Any) -> bool:
        """Run the solver; return whether it found an optimum over its columns."""
        solver.run()
        return bool(solver.getModelStatus() == highs().HighsModelStatus.kOptimal)

    def _back(self, solver: Any, columns: int, basis: Any) -> None:
        """Remove all but the first ``columns`` columns, and restore their basis."""
        beyond = np.arange(columns, solver.getNumCol(), dtype=np.int32)
        if len(beyond):
            solver.deleteCols(len(beyond), beyond)
            solver.setBasis(basis)
            self._runs(solver)


def _enter(program: FlowProgram, solver: Any, prices: Prices, inside: Bools) -> Ints:
    """Add the pairs of a program that would lower the cost to a solver with its rows; return them."""
    more = program._improving(prices, inside)
    if len(more):
        inside[more] = True
        program._add_pairs(solver, more)
    return more
