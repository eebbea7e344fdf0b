"""The linear program: columns priced in, and solved by HiGHS until no missing column would lower the cost.

Rows have a fixed order and the solver uses one thread, so the same problem gives the same basis and prices. Duals of a
degenerate vertex depend on the version of the solver, which is therefore recorded with every solution.

Source: Huangfu and Hall, Math. Prog. Comp. 10 (2018) 119 (HiGHS); Desaulniers et al., Column Generation (2005).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal

import numpy as np

from broker.domain.arrays import Bools, Floats, Ints
from broker.errors import BrokerError
from broker.flow.model.first_columns import cheapest_of_each, likely_pairs
from broker.flow.model.problem import (
    SEGMENTS,
    Binding,
    FlowProblem,
    Rows,
    cost_parts,
    pair_costs,
    rows_of,
    segment_size,
    segment_waits,
    unplaced_costs,
)

#: Columns that each chunk starts with, and the most that it may get in a round.
FIRST_COLUMNS, MORE_COLUMNS = 3, 5
#: More columns than this are first screened by interior point, see :meth:`FlowProgram._near_optimal`, then solved by it
#: with crossover to a vertex, then by dual simplex.
MANY_COLUMNS = 6_000
#: Accuracy of the prices used for screening, and the excess cost up to which a column is kept, as a fraction of the
#: price of the chunk.
ROUGHLY, NEAR = 1e-4, 3e-3
#: A column enters when it would lower the cost of a job by more than this fraction of the price of the chunk.
TOLERANCE = 1e-7
MOST_ROUNDS = 60

Status = Literal["optimal", "time_limit"]


class SolverMissing(BrokerError):
    """The solver, an optional extra, is not installed."""


@dataclass(frozen=True)
class Prices:
    """Duals in HS06 h, not negative: the saving from one more unit of a limit; ``chunk`` is the cost of one more job.

    Attributes:
        chunk: (K,) per job.
        room: (R,) per place of a queue and share, in the rows of :class:`Rows`.
        wait: (Q,) per additional core at the queue.
        link: (L,) per GB; ``output``: (O,) per file.
        share: (S,) credit per HS06 for a share that lacks it.
    """

    chunk: Floats
    room: Floats
    wait: Floats
    link: Floats
    output: Floats
    share: Floats


@dataclass(frozen=True)
class LinearSolution:
    """The optimum of the relaxed program.

    Attributes:
        amount: (P,) jobs of each pair, not rounded.
        unplaced: (K,) jobs left over.
        cost: cost in HS06 h.
        prices: prices of the last round.
        columns: number of pairs in the program; ``rounds``: rounds of pricing.
        solver: name and version.
    """

    status: Status
    amount: Floats
    unplaced: Floats
    cost: float
    prices: Prices
    columns: int
    rounds: int
    solver: str


class FlowProgram:
    """The program of one cycle.

    Args:
        problem: the problem of the cycle.
        earlier: (Q,) damped price of a core at each queue in the last cycle; used to choose the first columns.
        time_limit_s: limit for all rounds together.
        unplaced: (K,) HS06 h of leaving a job unplaced; by default :func:`unplaced_costs`.
        cells: queues and shares that have a row, see :func:`rows_of`; by default those that the pairs use.
        binding: the limits that get a row in the solver; by default all.
    """

    def __init__(
        self,
        problem: FlowProblem,
        earlier: Floats | None = None,
        time_limit_s: float = 10.0,
        unplaced: Floats | None = None,
        cells: Ints | None = None,
        binding: Binding | None = None,
    ) -> None:
        self.problem, self._time_limit_s = problem, time_limit_s
        self.rows: Rows = rows_of(problem, cells)
        self._binding = Binding(_all(self.rows.room), _all(problem.output_jobs)) if binding is None else binding
        self._base = pair_costs(problem)
        self.unplaced = unplaced_costs(problem) if unplaced is None else unplaced
        self._waits = segment_waits(problem)
        chunks, queues = len(problem.chunks), len(problem.queues)
        sizes = {
            "chunk": chunks,
            "room": int(np.count_nonzero(self._binding.room)),
            "wait": queues,
            "link": len(problem.link_gb),
            "output": int(np.count_nonzero(self._binding.output)),
            "share": len(problem.share_debt_hs06),
        }
        ends = accumulate(sizes.values())
        self._places = {kind: slice(end - sizes[kind], end) for kind, end in zip(sizes, ends, strict=True)}
        self._room_row = _numbered(self._binding.room, self._places["room"].start)
        self._output_row = _numbered(self._binding.output, self._places["output"].start)
        self._earlier = earlier
        self.debt = self._requestable_debt()

    def solve(self) -> LinearSolution:
        """Solve, adding columns until none would lower the cost or the time is up.

        Raises:
            SolverMissing: the solver is not installed.
        """
        highspy = highs()
        inside, spent_s = self._first_columns(), 0.0
        if np.count_nonzero(inside) > MANY_COLUMNS:
            inside, spent_s = self._near_optimal(highspy, inside)
        solver = self._solver(highspy, spent_s)
        order = np.flatnonzero(inside)
        self._add_pairs(solver, order)
        if len(order) > MANY_COLUMNS:
            solver.setOptionValue("solver", "ipm")
        rounds, status = 0, "time_limit"
        while rounds < MOST_ROUNDS:
            rounds += 1
            solver.run()
            if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
                break
            prices = self._prices(solver)
            more = self._improving(prices, inside)
            if not len(more):
                status = "optimal"
                break
            inside[more] = True
            order = np.concatenate([order, more])
            self._add_pairs(solver, more)
            solver.setOptionValue("solver", "simplex")
        return self._solution(solver, highspy, order, rounds, "optimal" if status == "optimal" else "time_limit")

    def _near_optimal(self, highspy: Any, inside: Bools, near_by: float = NEAR) -> tuple[Bools, float]:
        """Screen the columns ``inside`` by rough prices; return those worth starting with, and the seconds spent.

        An interior point needs no vertex for such prices, and the vertex of the kept columns is found much sooner. A
        dropped column comes back by its price if it is needed.
        """
        solver = self._solver(highspy)
        self._add_pairs(solver, np.flatnonzero(inside))
        for name, value in {"solver": "ipm", "run_crossover": "off", "presolve": "on"}.items():
            solver.setOptionValue(name, value)
        solver.setOptionValue("ipm_optimality_tolerance", ROUGHLY)
        solver.run()
        prices = self._prices(solver)
        if not np.isfinite(prices.chunk).all() or len(prices.chunk) != len(self.problem.chunks):
            return inside, float(solver.getRunTime())
        reduced, chunk = self.reduced_costs(prices), self.problem.pairs.chunk
        near = reduced < near_by * np.maximum(1.0, np.abs(prices.chunk[chunk]))
        return near | cheapest_of_each(chunk, reduced, FIRST_COLUMNS), float(solver.getRunTime())

    def _solver(self, highspy: Any, spent_s: float = 0.0) -> Any:
        """The program without any pair: unplaced jobs, wait segments and remaining debts.

        The console is closed first, so that no banner of the solver precedes the objects of ``--json``.
        """
        solver = highspy.Highs()
        options = {
            "log_to_console": False, "output_flag": False, "threads": 1, "parallel": "off", "random_seed": 0,
            "solver": "simplex",
            "presolve": "off", "simplex_strategy": 1, "run_crossover": "on",
            "time_limit": max(0.0, self._time_limit_s - spent_s),
        }  # fmt: skip
        for name, value in options.items():
            solver.setOptionValue(name, value)
        lower, upper = self._row_bounds(highspy.kHighsInf)
        for low, high in zip(lower, upper, strict=True):
            solver.addRow(float(low), float(high), 0, np.empty(0, dtype=np.int32), np.empty(0))
        problem, wait, share = self.problem, self._places["wait"].start, self._places["share"].start
        chunks, queues, shares = len(problem.chunks), len(problem.queues), len(problem.share_debt_hs06)
        count = chunks + queues * SEGMENTS + shares
        size = np.full((queues, SEGMENTS), np.inf)
        size[:, :-1] = segment_size(problem)[:, None]
        costs = np.concatenate([self.unplaced, self._waits.reshape(-1), np.full(shares, problem.costs.share_debt)])
        ends = np.concatenate([np.full(chunks, np.inf), size.reshape(-1), np.full(shares, np.inf)])
        ends[np.isinf(ends)] = highspy.kHighsInf
        rows = np.concatenate(
            [np.arange(chunks), wait + np.repeat(np.arange(queues), SEGMENTS), share + np.arange(shares)]
        )
        values = np.concatenate([np.ones(chunks), np.full(queues * SEGMENTS, -1.0), np.ones(shares)])
        starts = np.arange(count, dtype=np.int32)
        solver.addCols(count, costs, np.zeros(count), ends, count, starts, rows.astype(np.int32), values)
        return solver

    def _row_bounds(self, infinite: float) -> tuple[Floats, Floats]:
        problem = self.problem
        room = np.where(self.rows.limited, self.rows.room, infinite)
        jobs = problem.chunks.jobs.astype(np.float64)
        zeros = np.zeros(len(problem.queues))
        limits = [room[self._binding.room], zeros, problem.link_gb, problem.output_jobs[self._binding.output]]
        upper = np.concatenate([jobs, *limits, np.full(len(self.debt), infinite)])
        below = [np.full(len(limit), -infinite) for limit in limits]
        below[1] = zeros
        return np.concatenate([jobs, *below, self.debt]), upper

    def _requestable_debt(self) -> Floats:
        """(S,) the debt of each share in HS06, at most what its chunks request."""
        problem = self.problem
        requested = np.zeros(len(problem.share_debt_hs06))
        hs06 = problem.chunks.jobs * problem.chunks.cores * problem.costs.reference_power
        np.add.at(requested, problem.chunks.share, hs06)
        return np.clip(problem.share_debt_hs06, 0.0, requested)

    def _first_columns(self) -> Bools:
        return likely_pairs(self.problem, self.rows, self._base, self._waits, self._earlier, FIRST_COLUMNS)

    def _improving(self, prices: Prices, inside: Bools) -> Ints:
        reduced = self.reduced_costs(prices)
        scale = np.maximum(1.0, np.abs(prices.chunk[self.problem.pairs.chunk]))
        improves = ~inside & (reduced < -TOLERANCE * scale)
        places = np.flatnonzero(improves)
        return places[cheapest_of_each(self.problem.pairs.chunk[places], reduced[places], MORE_COLUMNS)]

    def charges(self, prices: Prices) -> dict[str, Floats]:
        """The cost of a job of each pair by cause, in HS06 h, each (P,)."""
        problem, rows = self.problem, self.rows
        pairs, chunks = problem.pairs, problem.chunks
        k, q = pairs.chunk, pairs.queue
        power = chunks.cores[k] * problem.queues.corepower[q]
        return {
            "time_and_bytes": self._base,
            "wait": chunks.cores[k] * prices.wait[q],
            "queue_full": prices.room[rows.room_of] if len(rows.room) else np.zeros(len(pairs)),
            "link_full": _at(prices.link, rows.link_of) * rows.gb,
            "output_link_full": _at(prices.output, pairs.output),
            "share_debt": -prices.share[chunks.share[k]] * power if len(prices.share) else np.zeros(len(pairs)),
        }

    def reduced_costs(self, prices: Prices) -> Floats:
        """(P,) HS06 h by which a job of the pair costs more than its best use; 0 for chosen pairs."""
        total = np.sum(list(self.charges(prices).values()), axis=0)
        return np.asarray(total - prices.chunk[self.problem.pairs.chunk])

    def _add_pairs(self, solver: Any, places: Ints) -> None:
        problem, rows = self.problem, self.rows
        first = {kind: place.start for kind, place in self._places.items()}
        pairs, chunks = problem.pairs, problem.chunks
        k, q = pairs.chunk[places], pairs.queue[places]
        link = rows.link_of[places]
        row = np.stack(
            [
                k,
                self._room_row[rows.room_of[places]],
                first["wait"] + q,
                np.where(link >= 0, first["link"] + link, -1),
                self._output_row[pairs.output[places]],
                first["share"] + chunks.share[k],
            ],
            axis=1,
        )
        ones = np.ones(len(places))
        power = chunks.cores[k] * problem.queues.corepower[q]
        value = np.stack([ones, ones, chunks.cores[k], rows.gb[places], ones, power], axis=1)
        exists = row >= 0
        starts = np.concatenate([[0], np.cumsum(exists.sum(axis=1))[:-1]]).astype(np.int32)
        free = np.full(len(places), 1e30)
        solver.addCols(
            len(places), self._base[places], np.zeros(len(places)), free, int(exists.sum()), starts,
            row[exists].astype(np.int32), value[exists],
        )  # fmt: skip

    def _prices(self, solver: Any) -> Prices:
        dual = np.array(solver.getSolution().row_dual)
        by_kind = {kind: dual[rows] for kind, rows in self._places.items()}
        return Prices(
            chunk=by_kind["chunk"],
            room=_spread(self._binding.room, np.maximum(-by_kind["room"], 0.0)),
            wait=-by_kind["wait"],
            link=np.maximum(-by_kind["link"], 0.0),
            output=_spread(self._binding.output, np.maximum(-by_kind["output"], 0.0)),
            share=np.maximum(by_kind["share"], 0.0),
        )

    def _solution(self, solver: Any, highspy: Any, order: Ints, rounds: int, status: Status) -> LinearSolution:
        values = np.array(solver.getSolution().col_value)
        problem = self.problem
        first = len(problem.chunks) + len(problem.queues) * SEGMENTS + len(problem.share_debt_hs06)
        amount = np.zeros(len(problem.pairs))
        if len(values):
            amount[order] = values[first:]
        return LinearSolution(
            status=status,
            amount=np.maximum(amount, 0.0),
            unplaced=values[: len(problem.chunks)] if len(values) else problem.chunks.jobs.astype(np.float64),
            cost=float(solver.getInfo().objective_function_value),
            prices=self._prices(solver),
            columns=len(order),
            rounds=rounds,
            solver=f"HiGHS {solver.version()}",
        )

    def cost_of(self, jobs: Ints | Floats) -> float:
        """Cost in HS06 h of a solution with ``jobs`` (P,) of each pair; limits are not checked."""
        return cost_parts(self.problem, jobs, self.unplaced, self.debt).total


def highs() -> Any:
    """Import the solver.

    Raises:
        SolverMissing: it is not installed.
    """
    try:
        import highspy
    except ImportError as error:
        needed = "the steps and policies named flow need the solver HiGHS, which is not installed"
        raise SolverMissing(needed, "package highspy, extra flow", 'pip install "gridbroker[flow]"') from error
    return highspy


def _all(limits: Floats) -> Bools:
    return np.ones(len(limits), dtype=np.bool_)


def _numbered(selected: Bools, first: int) -> Ints:
    """(N + 1,) the row of each kept limit, counting from ``first``; -1 for the others, and at the end for no limit."""
    return np.append(np.where(selected, first + np.cumsum(selected) - 1, -1), -1)


def _spread(selected: Bools, prices: Floats) -> Floats:
    """Prices of all limits, from those of the kept ones; the others are 0."""
    every = np.zeros(len(selected))
    if len(prices):  # without a solution there are no prices
        every[selected] = prices
    return every


def _at(values: Floats, index: Ints) -> Floats:
    """The values at an index, 0 where it is -1."""
    if not len(values):
        return np.zeros(len(index))
    return np.where(index >= 0, values[np.maximum(index, 0)], 0.0)
