"""From parts of jobs to whole ones: down first, then the rest by seed, and no limit is broken."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Floats, Ints
from broker.flow.model.problem import FlowProblem, Rows

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
