"""Jobs of a chunk given to its chosen candidates: in groups, drawn by weight, as long as there is capacity.

Source: ATLAS production brokerage, distribution over the chosen candidates. The random generator is an argument: the
same seed gives the same distribution.
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal, Protocol

import numpy as np

from broker.domain.arrays import Bools, Floats, Ints

#: Jobs given to a candidate at a time: normally, and for scouts and hyper-parameter optimisation.
GROUP_JOBS = 25
SCOUT_GROUP_JOBS = 2

End = Literal["no_files", "full"]


class JobSource(Protocol):
    """Makes the jobs of one chunk, file after file. Candidates are named by their position."""

    def has_files(self) -> bool:
        """Whether files are left for another job."""

    def make(self, candidate: int, count: int) -> int:
        """Make up to ``count`` jobs for the candidate and say how many there are.

        Fewer when files run out, when a job would be below the least walltime there, or when the last file of a job of
        a distributed dataset is not at the candidate although the first one is.
        """

    def take_back(self) -> None:
        """Undo the last call of :meth:`make` that made jobs."""

    def holders_of_next(self) -> Bools | None:
        """(C,) which candidates have the next file of a distributed master dataset; ``None`` for any other dataset."""


@dataclass(frozen=True)
class Candidates:
    """The chosen candidates of a chunk (length C), best first.

    ``queued`` and ``cap``: jobs queued there and how many may be; NaN is unlimited. ``bootstrap`` marks candidates
    without any jobs, each of which gets one group first. ``chunk_size`` is the candidate's own group size, 0 without.
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
    """Jobs that went to a candidate at once."""

    candidate: int
    jobs: int


@dataclass(frozen=True)
class Distribution:
    """Files given to candidates, in order, and why the distribution ended."""

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
    wanted = [one if one > 0 else size for one in own]
    groups, end = _pass(source, wanted, draw, [True] * len(own))
    last = groups[-1] if groups else None
    if end == "no_files" and last is not None and 0 < last.jobs < own[last.candidate]:
        source.take_back()
        more, end = _pass(source, wanted, draw, [one <= 0 for one in own])
        groups = groups[:-1] + more
    return Distribution(tuple(groups), end)


def _pass(source: JobSource, wanted: list[int], draw: _Draw, allowed: list[bool]) -> tuple[list[Group], End]:
    groups: list[Group] = []
    # candidates that made nothing of the next file would make nothing of it again
    tried = allowed.copy()
    while source.has_files():
        usable, holders = tried, source.holders_of_next()
        if holders is not None:
            here = [one and has for one, has in zip(tried, holders.tolist(), strict=True)]
            usable = here if draw.can_take_any(here) else tried
        chosen = draw.next(usable)
        if chosen is None:
            return groups, "full"
        draw.count(chosen, wanted[chosen])
        made = source.make(chosen, wanted[chosen])
        if made:
            groups.append(Group(chosen, made))
            tried = allowed.copy()
        else:
            draw.give_back(chosen)
            tried[chosen] = False
    return groups, "no_files"


class _Draw:
    """Weights, queued jobs and unused bootstrap candidates while a chunk is distributed.

    Lists, not arrays: there are few candidates and one draw after the other.
    """

    def __init__(self, candidates: Candidates, random: np.random.Generator) -> None:
        self._random = random
        self._weight = [one if 0 < one < math.inf else 0.0 for one in candidates.weight.tolist()]
        queued: list[float] = candidates.queued.tolist()
        self._queued = [_finite(one) for one in queued]
        self._cap = [
            math.inf if math.isnan(cap) or math.isnan(one) else cap
            for cap, one in zip(candidates.cap.tolist(), queued, strict=True)
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
        """A candidate among ``usable``: bootstrap candidates first, each once, then by weight; ``None`` without any."""
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
    """The number of jobs: none where it is not known, and no more than can be counted on from."""
    return 0.0 if math.isnan(jobs) else min(max(jobs, -sys.float_info.max), sys.float_info.max)
