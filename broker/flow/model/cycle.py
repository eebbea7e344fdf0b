"""One cycle of ``flow``: solve, round and explain; the greedy order if the time is up.

Rounding turns fractions of jobs into whole jobs: down first, then the remainder by seed, within every limit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from broker.domain.arrays import Floats, Ints
from broker.flow.model.problem import FlowProblem, Rows, pair_costs, segment_waits
from broker.flow.model.program import FlowProgram, LinearSolution

_WHOLE = 1e-6


class _Room:
    """The remaining capacity of each limit."""

    def __init__(self, problem: FlowProblem, rows: Rows) -> None:
        self._problem, self._rows = problem, rows
        self._room = np.where(rows.limited, np.floor(rows.room + _WHOLE), np.inf)
        self._link_gb = problem.link_gb.copy()
        self._output = np.floor(problem.output_jobs + _WHOLE)

    def fits(self, pair: int) -> bool:
        """Whether one more job of the pair breaks no limit."""
        rows, output = self._rows, int(self._problem.pairs.output[pair])
        link = int(rows.link_of[pair])
        return bool(
            self._room[rows.room_of[pair]] >= 1
            and (link < 0 or self._link_gb[link] >= rows.gb[pair])
            and (output < 0 or self._output[output] >= 1)
        )

    def take(self, pair: int, jobs: int = 1) -> None:
        """Deduct jobs of a pair."""
        rows, output = self._rows, int(self._problem.pairs.output[pair])
        self._room[rows.room_of[pair]] -= jobs
        if rows.link_of[pair] >= 0:
            self._link_gb[rows.link_of[pair]] -= jobs * rows.gb[pair]
        if output >= 0:
            self._output[output] -= jobs


def round_jobs(problem: FlowProblem, rows: Rows, amount: Floats, reduced: Floats, seed: int) -> Ints:
    """(P,) whole jobs of each pair.

    Every amount is rounded down. The missing jobs of a chunk are drawn among its pairs by their fractions, as long as
    all limits hold; failing that they go to the cheapest pair with room; failing that they are left over. Chunks are
    taken in an order drawn by ``seed``.

    Args:
        problem: the problem of the cycle.
        rows: its limits.
        amount: (P,) jobs of the linear program.
        reduced: (P,) reduced costs, which rank the pairs by price.
        seed: seed of the draws.
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
    total, down = (np.bincount(chunk, weights=values, minlength=size) for values in (amount, jobs))
    missing = np.round(total - down).astype(np.int64)
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
    """Draw a pair by its fraction among those that still fit; -1 for none."""
    possible = [pair for pair in own[fraction[own] > 0].tolist() if room.fits(pair)]
    if not possible:
        return -1
    weights = fraction[possible]
    return int(random.choice(possible, p=weights / weights.sum()))


def broken_limits(problem: FlowProblem, rows: Rows, jobs: Ints) -> int:
    """The number of limits that an integer solution breaks."""
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


#: Causes in the order of :meth:`.program.FlowProgram.charges`, and the cause for a chunk with jobs left over.
CAUSES = ("time_and_bytes", "wait", "queue_full", "link_full", "output_link_full", "share_debt")
LEFT_OVER = "left_over"
#: A charge below this part of the reduced cost does not bind.
_BINDS = 0.01


@dataclass(frozen=True)
class FlowResult:
    """The result of a cycle.

    Attributes:
        jobs: (P,) jobs of each pair.
        reduced_hs06h: (P,) how much dearer a job there is than at its best use; 0 for chosen pairs. The greedy order
            has no prices of limits and compares with the initially cheapest queue of the chunk.
        charges: cost of a job of each pair by cause.
        left: (K,) jobs left over.
        gap: cost of the whole jobs over that of the linear program, minus 1; NaN for the greedy order.
        fallback: empty, or ``time_limit`` if the greedy order decided.
        prices: (Q,) price of a core at each queue, for the next cycle.
        linear: the solution that was rounded; None for the greedy order.
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
        problem: the problem of the cycle.
        seed: seed of the rounding.
        earlier: damped prices of the last cycle, see :func:`damped`.
        time_limit_s: time after which the chunks are placed one by one, each at its cheapest queues with room; 0 does
            so at once.
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
        reduced, charges = _initial_costs(problem)
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
    """(P,) jobs of the chunks in order, each at its initially cheapest queues, as far as limits allow."""
    charges = _initial_charges(problem)
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


def _initial_charges(problem: FlowProblem) -> dict[str, Floats]:
    """Cost of time, bytes and wait of one more job, each (P,), before anything is placed."""
    pairs = problem.pairs
    wait = segment_waits(problem)[pairs.queue, 0] * problem.chunks.cores[pairs.chunk]
    return {"time_and_bytes": pair_costs(problem), "wait": wait}


def _initial_costs(problem: FlowProblem) -> tuple[Floats, dict[str, Floats]]:
    """(P,) excess cost of each pair over the cheapest of its chunk, and the charges; limits have no prices."""
    charges = _initial_charges(problem)
    price = charges["time_and_bytes"] + charges["wait"]
    least = np.full(len(problem.chunks), np.inf)
    np.minimum.at(least, problem.pairs.chunk, price)
    zeros = np.zeros(len(price))
    return price - least[problem.pairs.chunk], {cause: charges.get(cause, zeros) for cause in CAUSES}


def binding_causes(result: FlowResult, problem: FlowProblem) -> Ints:
    """(P,) why a job of each pair is dearer than its best use: an index into CAUSES, or len(CAUSES) for left over.

    Each cause is compared with the cheapest pair of the chunk. If jobs of a chunk are left over, the price of a place
    is that of leaving a job over, so hours would mislead.
    """
    chunk, size = problem.pairs.chunk, len(problem.chunks)
    charges = np.array([result.charges[cause] for cause in CAUSES]).reshape(len(CAUSES), -1)
    best = np.full(size, -1, dtype=np.int64)
    order = np.lexsort((np.arange(len(chunk)), result.reduced_hs06h, result.jobs == 0, chunk))[::-1]
    best[chunk[order]] = order
    dearest = np.argmax(charges - charges[:, best[chunk]], axis=0)
    full = CAUSES.index("queue_full"), CAUSES.index("link_full"), CAUSES.index("output_link_full")
    lacks = (result.left[chunk] > 0) & ((charges[list(full)] > 0).any(axis=0) | bool(result.fallback))
    return np.where(lacks, len(CAUSES), dearest).astype(np.int64)


def damped(earlier: Floats | None, now: Floats, damping: float) -> Floats:
    """Prices for the next cycle: the earlier ones weighted by ``damping``, those of ``now`` by the rest."""
    return now if earlier is None else damping * earlier + (1.0 - damping) * now


def binding(result: FlowResult, problem: FlowProblem, pair: int) -> str:
    """The main cause against a pair that was not chosen; :data:`LEFT_OVER` if the chunk lacks places.

    If jobs of a chunk are left over, the price of a place is that of leaving a job over, so hours would mislead.
    """
    if result.left[problem.pairs.chunk[pair]] > 0 and result.charges["queue_full"][pair] > 0:
        return LEFT_OVER
    against = {cause: float(result.charges[cause][pair]) for cause in CAUSES if cause != "share_debt"}
    limits = {cause: value for cause, value in against.items() if cause not in ("time_and_bytes", "wait")}
    cause, value = max(limits.items(), key=lambda entry: entry[1])
    if value > _BINDS * max(1.0, abs(float(result.reduced_hs06h[pair]))):
        return cause
    return "wait" if against["wait"] > against["time_and_bytes"] else "time_and_bytes"
