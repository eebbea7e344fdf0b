"""Distribution of the jobs of a chunk over its chosen candidates: in groups drawn by weight, while capacity lasts.

:func:`distribute` takes the random generator as an argument: the same seed gives the same distribution.
:func:`first_fractions` (T,) computes the first draw of each of T generators in one pass, since making a generator takes
longer than the rest of a single draw; :mod:`broker.engine.compiled.random_stream` draws more than one number.

Source: ATLAS production brokerage, distribution over the chosen candidates; numpy, SeedSequence and PCG64 (O'Neill,
PCG: setseq, XSL-RR, 128 bits).
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from broker.domain.arrays import Bools, Floats, Ints

#: Jobs given to a candidate at a time: normally, and for scouts and hyper-parameter optimisation.
GROUP_JOBS = 25
SCOUT_GROUP_JOBS = 2

End = Literal["no_files", "full"]


class JobSource(Protocol):
    """Source of the jobs of one chunk, file after file. Candidates are identified by position."""

    def has_files(self) -> bool:
        """Whether files are left for another job."""

    def make(self, candidate: int, count: int) -> int:
        """Make up to ``count`` jobs for the candidate and return their number.

        There are fewer when files run out, when a job would be below the least walltime there, or when the last file of
        a job of a distributed dataset is not at the candidate although the first one is.
        """

    def take_back(self) -> None:
        """Undo the last call of :meth:`make` that made jobs."""

    def holders_of_next(self) -> Bools | None:
        """(C,) which candidates have the next file of a distributed master dataset; ``None`` for any other dataset."""


@dataclass(frozen=True)
class Candidates:
    """The chosen candidates of a chunk (length C), best first.

    ``queued`` and ``cap``: jobs queued there and how many may be; NaN is unlimited. ``bootstrap`` marks candidates
    without any jobs, each of which gets one group first. ``chunk_size`` is the candidate's own group size, 0 without; a
    negative size is given once only.
    """

    weight: Floats
    queued: Floats
    cap: Floats
    bootstrap: Bools
    chunk_size: Ints

    def __len__(self) -> int:
        return len(self.weight)


@dataclass(frozen=True)
class Group:
    """Jobs given to a candidate at once."""

    candidate: int
    jobs: int


@dataclass(frozen=True)
class Distribution:
    """The groups given to candidates, in order, and why the distribution ended."""

    groups: tuple[Group, ...]
    end: End


def group_size(scout: bool, merging: bool, hpo: bool) -> int:
    """Jobs given at a time to a candidate without a size of its own."""
    return SCOUT_GROUP_JOBS if (scout and not merging) or hpo else GROUP_JOBS


def distribute(candidates: Candidates, source: JobSource, size: int, random: np.random.Generator) -> Distribution:
    """Give the jobs of ``source`` to the candidates.

    A group that a candidate with a size of its own could not fill because the files ran out is taken back, and a second
    pass places those files on candidates without such a size.

    Args:
        candidates: the chosen candidates.
        source: makes the jobs.
        size: jobs of a group, see :func:`group_size`.
        random: source of random numbers, seeded by the caller.
    """
    draw = _Draw(candidates, random)
    own: list[int] = candidates.chunk_size.tolist()
    wanted = [abs(one) if one else size for one in own]
    allowed, once = [True] * len(own), [one < 0 for one in own]
    groups, end = _pass(source, wanted, draw, allowed, once)
    last = groups[-1] if groups else None
    if end == "no_files" and last is not None and 0 < last.jobs < own[last.candidate]:
        source.take_back()
        more, end = _pass(source, wanted, draw, [one == 0 for one in own], once)
        groups = groups[:-1] + more
    return Distribution(tuple(groups), end)


def _pass(
    source: JobSource, wanted: list[int], draw: _Draw, allowed: list[bool], once: list[bool]
) -> tuple[list[Group], End]:
    groups: list[Group] = []
    # a candidate that made no job of the next file would fail again
    tried = allowed.copy()
    while source.has_files():
        usable, holders = tried, source.holders_of_next()
        if holders is not None:
            here = [untried and holds for untried, holds in zip(tried, holders.tolist(), strict=True)]
            usable = here if draw.can_take_any(here) else tried
        chosen = draw.next(usable)
        if chosen is None:
            return groups, "full"
        draw.count(chosen, wanted[chosen])
        jobs = source.make(chosen, wanted[chosen])
        if jobs:
            groups.append(Group(chosen, jobs))
            allowed[chosen] &= not once[chosen]
            tried = allowed.copy()
        else:
            draw.give_back(chosen)
            tried[chosen] = False
    return groups, "no_files"


class _Draw:
    """Weights, queued jobs and unused bootstrap candidates while a chunk is distributed.

    It uses lists, not arrays: there are few candidates, drawn one after the other.
    """

    def __init__(self, candidates: Candidates, random: np.random.Generator) -> None:
        self._random = random
        self._weight = [number if 0 < number < math.inf else 0.0 for number in candidates.weight.tolist()]
        queued: list[float] = candidates.queued.tolist()
        self._queued = [_finite(number) for number in queued]
        self._cap = [
            math.inf if math.isnan(cap) or math.isnan(number) else cap
            for cap, number in zip(candidates.cap.tolist(), queued, strict=True)
        ]
        self._bootstrap: list[bool] = candidates.bootstrap.tolist()
        self._first = self._bootstrap.copy()
        self._undo: dict[int, tuple[float, float, bool]] = {}

    def can_take_any(self, usable: list[bool]) -> bool:
        """Whether one of these candidates may be drawn now."""
        return any(usable[at] and first for at, first in enumerate(self._first)) or bool(self._open(usable))

    def _open(self, usable: list[bool]) -> list[int]:
        """Candidates among ``usable`` that are drawn by weight and have room."""
        rows = zip(usable, self._bootstrap, self._queued, self._cap, strict=True)
        return [at for at, (use, starts, queued, cap) in enumerate(rows) if use and not starts and queued < cap]

    def next(self, usable: list[bool]) -> int | None:
        """Draw a candidate among ``usable``: bootstrap ones first, each once, then by weight; ``None`` without any."""
        first = [at for at, waits in enumerate(self._first) if waits and usable[at]]
        if first:
            return first[int(self._random.integers(len(first)))]
        open_ = self._open(usable)
        if not open_:
            return None
        weighty = [at for at in open_ if self._weight[at] > 0]
        if not weighty:
            return open_[int(self._random.integers(len(open_)))]
        sums = list(accumulate(self._weight[at] for at in weighty))
        drawn = self._random.random() * sums[-1]
        # a product rounded up to the whole sum ends at the last candidate, not at any other
        return weighty[min(bisect_right(sums, drawn), len(weighty) - 1)]

    def count(self, candidate: int, jobs: int) -> None:
        """Count a group: more queued jobs, less weight; a bootstrap candidate has had its turn."""
        old = self._queued[candidate]
        self._undo[candidate] = (old, self._weight[candidate], self._first[candidate])
        self._first[candidate] = False
        self._queued[candidate] = old + jobs
        self._weight[candidate] *= (old + 1.0) / (old + jobs + 1.0)

    def give_back(self, candidate: int) -> None:
        """Undo the last :meth:`count` of the candidate."""
        self._queued[candidate], self._weight[candidate], self._first[candidate] = self._undo[candidate]


def _finite(jobs: float) -> float:
    """The number of jobs: 0 where unknown, and bounded by the largest floats."""
    return 0.0 if math.isnan(jobs) else min(max(jobs, -sys.float_info.max), sys.float_info.max)


Words = NDArray[np.uint64]

#: A seed of this or more takes more than one word of the pool.
ONE_WORD = 2**32
_POOL = 4
_WORD = np.uint64(ONE_WORD - 1)
_1, _11, _16, _32, _58, _63, _64 = (np.uint64(one) for one in (1, 11, 16, 32, 58, 63, 64))
_INIT_A, _MULT_A = 0x43B0D7E5, 0x931E8875
_INIT_B, _MULT_B = 0x8B51F9DD, 0x58F38DED
_MIX_LEFT, _MIX_RIGHT = np.uint64(0xCA01F9DD), np.uint64(0x4973F715)
_HIGH, _LOW = np.uint64(2549297995355413924), np.uint64(4865540595714422341)
_DOUBLE = 1.0 / 9007199254740992.0


def first_fractions(first: int, second: int, last: Ints) -> Floats:
    """(T,): the first draw of ``numpy.random.default_rng([first, second, one])`` for each ``one`` of ``last``.

    Args:
        first: not negative.
        second: not negative.
        last: (T,), not negative.

    >>> first_fractions(7, 8, np.array([9])).tolist() == [np.random.default_rng([7, 8, 9]).random()]
    True
    """
    if max(first, second, *last.tolist(), 0) >= ONE_WORD:
        return np.array([np.random.default_rng([first, second, one]).random() for one in last.tolist()])
    words = [np.full(last.shape, word, dtype=np.uint64) for word in (first, second, 0, 0)]
    words[2][:] = last
    pool = _mixed(words)
    hashes, constant = [], _INIT_B
    for at in range(2 * _POOL):
        word, constant = _hashed(pool[at % _POOL], constant, _MULT_B)
        hashes.append(word)
    seed, stream = ((hashes[at] | hashes[at + 1] << _32, hashes[at + 2] | hashes[at + 3] << _32) for at in (0, 4))
    increment = stream[0] << _1 | stream[1] >> _63, stream[1] << _1 | _1
    # the state begins at 0, so that the first step leaves the increment
    state = _stepped(_sum(increment, seed), increment)
    high, low = _stepped(state, increment)
    mixed, turn = high ^ low, high >> _58
    return np.asarray((mixed >> turn | mixed << (_64 - turn & _63)) >> _11) * _DOUBLE


def _hashed(value: Words, constant: int, factor: int) -> tuple[Words, int]:
    following = constant * factor & (ONE_WORD - 1)
    value = (value ^ np.uint64(constant)) * np.uint64(following) & _WORD
    return value ^ value >> _16, following


def _mixed(words: list[Words]) -> list[Words]:
    """The pool of entropy of four words."""
    pool, constant = [], _INIT_A
    for word in words:
        hashed, constant = _hashed(word, constant, _MULT_A)
        pool.append(hashed)
    for source in range(_POOL):
        for at in range(_POOL):
            if source != at:
                other, constant = _hashed(pool[source], constant, _MULT_A)
                mixed = (_MIX_LEFT * pool[at]) - (_MIX_RIGHT * other) & _WORD
                pool[at] = mixed ^ mixed >> _16
    return pool


def _sum(one: tuple[Words, Words], other: tuple[Words, Words]) -> tuple[Words, Words]:
    """The sum of two 128-bit numbers, as high and low halves."""
    low = one[1] + other[1]
    return one[0] + other[0] + (low < other[1]), low


def _stepped(state: tuple[Words, Words], increment: tuple[Words, Words]) -> tuple[Words, Words]:
    high, low = state
    product = _high_of_product(low) + high * _LOW + low * _HIGH, low * _LOW
    return _sum(product, increment)


def _high_of_product(one: Words) -> Any:
    """The high half of ``one`` times the low half of the multiplier."""
    a, b, c, d = one & _WORD, one >> _32, _LOW & _WORD, _LOW >> _32
    low, left, right = a * c, a * d, b * c
    middle = (low >> _32) + (left & _WORD) + (right & _WORD)
    return b * d + (left >> _32) + (right >> _32) + (middle >> _32)
