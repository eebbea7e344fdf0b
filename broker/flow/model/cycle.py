"""One cycle of ``flow``: solve, round, and say why; the greedy order where time is up.

Rounding takes parts of jobs to whole ones: down first, then the rest by seed, within every limit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from broker.domain.arrays import Floats, Ints
from broker.flow.model.problem import FlowProblem, Rows, pair_costs, segment_waits
from broker.flow.model.program import FlowProgram, LinearSolution

_WHOLE = 1e-6


class _Room:
    """What is still free of each limit."""

    def __init__(self, problem: FlowProblem, rows: Rows) -> None:
        self._problem, self._rows = problem, rows
        self._room = np.where(rows.limited, np.floor(rows.room + _WHOLE), np.inf)
        self._link_gb = problem.link_gb.copy()
        self._output = np.floor(problem.output_jobs + _WHOLE)

    def fits(self, pair: int) -> bool:
        """Whether one job more of the pair breaks no limit."""
        rows, output = self._rows, int(self._problem.pairs.output[pair])
        link = int(rows.link_of[pair])
        return bool(
            self._room[rows.room_of[pair]] >= 1
            and (link < 0 or self._link_gb[link] >= rows.gb[pair])
            and (output < 0 or self._output[output] >= 1)
        )

    def take(self, pair: int, jobs: int = 1) -> None:
        """Count jobs of a pair."""
        rows, output = self._rows, int(self._problem.pairs.output[pair])
        self._room[rows.room_of[pair]] -= jobs
        if rows.link_of[pair] >= 0:
            self._link_gb[rows.link_of[pair]] -= jobs * rows.gb[pair]
        if output >= 0:
            self._output[output] -= jobs


def round_jobs(problem: FlowProblem, rows: Rows, amount: Floats, reduced: Floats, seed: int) -> Ints:
    """(P,) whole jobs of each pair.

    Every amount is rounded down. What a chunk lacks then is drawn among its pairs by their fractions, as long as all
    limits hold; else it goes to the cheapest pair with room; else it is left over. Chunks are taken in an order drawn
    by ``seed``.

    Args:
        problem: of the cycle.
        rows: its limits.
        amount: (P,) of the linear program.
        reduced: (P,) reduced costs, which say what is cheapest.
        seed: of the draws.
    """
    jobs = np.floor(amount + _WHOLE).astype(np.int64)
    fraction = np.where(amount - jobs > _WHOLE, amount - jobs, 0.0)
    room = _Room(problem, rows)
    for pair in np.flatnonzero(jobs).tolist():
        room.take(pair, int(jobs[pair]))
    random = np.random.default_rng(seed)
    chunk = problem.pairs.chunk
    starts = np.searchsorted(chunk, np.arange(len(problem.chunks) + 1))
    size = len(problem.chunks)
    wanted, down = (np.bincount(chunk, weights=values, minlength=size) for values in (amount, jobs))
    missing = np.round(wanted - down).astype(np.int64)
    for k in random.permutation(len(problem.chunks)).tolist():
        own = np.arange(starts[k], starts[k + 1])
        for _ in range(int(missing[k])):
            pair = _draw(own, fraction, room, random)
            if pair < 0:
                pair = next((p for p in own[np.argsort(reduced[own], kind="stable")].tolist() if room.fits(p)), -1)
            if pair < 0:
                break
            fraction[pair] = 0.0
            jobs[pair] += 1
            room.take(pair)
    return jobs


def _draw(own: Ints, fraction: Floats, room: _Room, random: np.random.Generator) -> int:
    """A pair drawn by its fraction among those that still fit, -1 for none."""
    possible = [pair for pair in own[fraction[own] > 0].tolist() if room.fits(pair)]
    if not possible:
        return -1
    weights = fraction[possible]
    return int(random.choice(possible, p=weights / weights.sum()))


def broken_limits(problem: FlowProblem, rows: Rows, jobs: Ints) -> int:
    """How many limits an integer solution breaks."""
    room = np.bincount(rows.room_of, weights=jobs, minlength=len(rows.room))
    limit = np.where(rows.limited, rows.room, np.inf)
    moving, sending = rows.link_of >= 0, problem.pairs.output >= 0
    gb = np.bincount(rows.link_of[moving], weights=(jobs * rows.gb)[moving], minlength=len(problem.link_gb))
    files = np.bincount(problem.pairs.output[sending], weights=jobs[sending], minlength=len(problem.output_jobs))
    placed = np.bincount(problem.pairs.chunk, weights=jobs, minlength=len(problem.chunks))
    return int(
        (room > limit + 1e-6).sum()
        + (gb > problem.link_gb * (1 + 1e-9) + 1e-6).sum()
        + (files > problem.output_jobs + 1e-6).sum()
        + (placed > problem.chunks.jobs).sum()
    )


#: Causes in the order of :meth:`.program.FlowProgram.charges`, and what stands for a chunk not all placed.
CAUSES = ("time_and_bytes", "wait", "queue_full", "link_full", "output_link_full", "share_debt")
LEFT_OVER = "left_over"
#: A charge below this part of the reduced cost does not bind.
_BINDS = 0.01


@dataclass(frozen=True)
class FlowResult:
    """What a cycle decided.

    Attributes:
        jobs: (P,) jobs of each pair.
        reduced_hs06h: (P,) how much dearer than the best use a job there is; 0 for what is chosen. The greedy order has
            no prices of limits: there, than the cheapest queue of the chunk as the cycle found it.
        charges: what a job of each pair costs by cause.
        left: (K,) jobs left over.
        gap: cost of the whole jobs over that of the linear program, minus 1; NaN for the greedy order.
        fallback: empty, or ``time_limit`` where the greedy order decided.
        prices: (Q,) of a core at each queue, for the next cycle.
        linear: the solution that was rounded, None for the greedy order.
    """

    jobs: Ints
    reduced_hs06h: Floats
    charges: dict[str, Floats]
    left: Ints
    gap: float
    fallback: str
    prices: Floats
    linear: LinearSolution | None


def decide(problem: FlowProblem, seed: int, earlier: Floats | None = None, time_limit_s: float = 10.0) -> FlowResult:
    """Place the jobs of all chunks together.

    Args:
        problem: of the cycle.
        seed: of the rounding.
        earlier: damped prices of the last cycle, see :func:`damped`.
        time_limit_s: past it the chunks are placed one after the other, each at its cheapest queues with room; so they
            are at once with 0.
    """
    program = FlowProgram(problem, earlier, time_limit_s)
    linear = program.solve() if time_limit_s > 0 else None
    if linear is not None and linear.status == "optimal":
        reduced, charges = program.reduced_costs(linear.prices), program.charges(linear.prices)
        jobs = round_jobs(problem, program.rows, linear.amount, reduced, seed)
        gap = program.cost_of(jobs) / linear.cost - 1.0 if linear.cost > 0 else 0.0
        fallback, prices = "", linear.prices.wait
    else:
        jobs = greedy(problem, program)
        reduced, charges = _as_found(problem)
        gap, fallback, prices = float("nan"), "time_limit", np.zeros(len(problem.queues))
    placed = np.bincount(problem.pairs.chunk, weights=jobs, minlength=len(problem.chunks)).astype(np.int64)
    return FlowResult(
        jobs=jobs,
        reduced_hs06h=reduced,
        charges=charges,
        left=problem.chunks.jobs - placed,
        gap=gap,
        fallback=fallback,
        prices=prices,
        linear=None if fallback else linear,
    )


def greedy(problem: FlowProblem, program: FlowProgram) -> Ints:
    """(P,) the chunks in order, each at its cheapest queues as the cycle found them, as far as limits allow."""
    charges = _charges_as_found(problem)
    price = charges["time_and_bytes"] + charges["wait"]
    rows, pairs = program.rows, problem.pairs
    room = np.where(rows.limited, np.floor(rows.room), np.inf)
    link_gb, output = problem.link_gb.copy(), np.floor(problem.output_jobs)
    jobs = np.zeros(len(pairs), dtype=np.int64)
    starts = np.searchsorted(pairs.chunk, np.arange(len(problem.chunks) + 1))
    for k in range(len(problem.chunks)):
        left = int(problem.chunks.jobs[k])
        own = np.arange(starts[k], starts[k + 1])
        for pair in own[np.argsort(price[own], kind="stable")].tolist():
            link, out = int(rows.link_of[pair]), int(pairs.output[pair])
            most = min(left, room[rows.room_of[pair]])
            most = min(most, link_gb[link] // rows.gb[pair]) if link >= 0 else most
            most = int(max(0, min(most, output[out]) if out >= 0 else most))
            if most:
                jobs[pair] = most
                left -= most
                room[rows.room_of[pair]] -= most
                if link >= 0:
                    link_gb[link] -= most * rows.gb[pair]
                if out >= 0:
                    output[out] -= most
    return jobs


def _charges_as_found(problem: FlowProblem) -> dict[str, Floats]:
    """Time, bytes and the wait for a job more, (P,) each, before anything is placed."""
    pairs = problem.pairs
    wait = segment_waits(problem)[pairs.queue, 0] * problem.chunks.cores[pairs.chunk]
    return {"time_and_bytes": pair_costs(problem), "wait": wait}


def _as_found(problem: FlowProblem) -> tuple[Floats, dict[str, Floats]]:
    """(P,) how much dearer each pair is than the cheapest of its chunk, and the charges; limits have no prices."""
    charges = _charges_as_found(problem)
    price = charges["time_and_bytes"] + charges["wait"]
    least = np.full(len(problem.chunks), np.inf)
    np.minimum.at(least, problem.pairs.chunk, price)
    nothing = np.zeros(len(price))
    return price - least[problem.pairs.chunk], {cause: charges.get(cause, nothing) for cause in CAUSES}


def binding_causes(result: FlowResult, problem: FlowProblem) -> Ints:
    """(P,) what makes a job of each pair dearer than the best use of it: an index into CAUSES, len(CAUSES) left over.

    Each cause is compared with the cheapest pair of the chunk. Where jobs of a chunk are left over, the price of a
    place is that of leaving a job over, so that hours would mislead.
    """
    chunk, size = problem.pairs.chunk, len(problem.chunks)
    charges = np.array([result.charges[cause] for cause in CAUSES]).reshape(len(CAUSES), -1)
    best = np.full(size, -1, dtype=np.int64)
    order = np.lexsort((np.arange(len(chunk)), result.reduced_hs06h, result.jobs == 0, chunk))[::-1]
    best[chunk[order]] = order
    found = np.argmax(charges - charges[:, best[chunk]], axis=0)
    full = CAUSES.index("queue_full"), CAUSES.index("link_full"), CAUSES.index("output_link_full")
    lacks = (result.left[chunk] > 0) & ((charges[list(full)] > 0).any(axis=0) | bool(result.fallback))
    return np.where(lacks, len(CAUSES), found).astype(np.int64)


def damped(earlier: Floats | None, now: Floats, damping: float) -> Floats:
    """Prices for the next cycle: ``damping`` of the earlier ones and the rest of those found now."""
    return now if earlier is None else damping * earlier + (1.0 - damping) * now


def binding(result: FlowResult, problem: FlowProblem, pair: int) -> str:
    """The cause that weighs most against a pair that was not chosen; :data:`LEFT_OVER` where the chunk lacks places.

    Where jobs of a chunk are left over, the price of a place is that of leaving a job over: hours would mislead.
    """
    if result.left[problem.pairs.chunk[pair]] > 0 and result.charges["queue_full"][pair] > 0:
        return LEFT_OVER
    against = {cause: float(result.charges[cause][pair]) for cause in CAUSES if cause != "share_debt"}
    limits = {cause: value for cause, value in against.items() if cause not in ("time_and_bytes", "wait")}
    cause, value = max(limits.items(), key=lambda entry: entry[1])
    if value > _BINDS * max(1.0, abs(float(result.reduced_hs06h[pair]))):
        return cause
    return "wait" if against["wait"] > against["time_and_bytes"] else "time_and_bytes"
