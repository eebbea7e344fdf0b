"""Jobs of a chunk given to its chosen candidates: in groups, drawn by weight, as long as there is capacity.

Source: ATLAS production brokerage, distribution over the chosen candidates. The random generator is an argument: the
same seed gives the same distribution.
"""

from __future__ import annotations

from dataclasses import dataclass
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
    """What was given to whom, in order, and why it ended: no files left, or no candidate could take more."""

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
    groups, end = _pass(candidates, source, size, draw, np.ones(len(candidates), dtype=np.bool_))
    sized = candidates.chunk_size > 0
    last = groups[-1] if groups else None
    if end == "no_files" and last is not None and 0 < last.jobs < candidates.chunk_size[last.candidate]:
        source.take_back()
        more, end = _pass(candidates, source, size, draw, ~sized)
        groups = groups[:-1] + more
    return Distribution(tuple(groups), end)


def _pass(candidates: Candidates, source: JobSource, size: int, draw: _Draw, allowed: Bools) -> tuple[list[Group], End]:
    groups: list[Group] = []
    # candidates that made nothing of the next file would make nothing of it again
    refused = np.zeros(len(candidates), dtype=np.bool_)
    while source.has_files():
        usable = allowed & ~refused
        holders = source.holders_of_next()
        if holders is not None and bool(np.any(holders & draw.can_take(usable))):
            usable = usable & holders
        wanted = np.where(candidates.chunk_size > 0, candidates.chunk_size, size)
        chosen = draw.next(usable)
        if chosen is None:
            return groups, "full"
        draw.count(chosen, int(wanted[chosen]))
        made = source.make(chosen, int(wanted[chosen]))
        if made:
            groups.append(Group(chosen, made))
            refused[:] = False
        else:
            draw.give_back(chosen)
            refused[chosen] = True
    return groups, "no_files"


class _Draw:
    """Weights, queued jobs and unused bootstrap candidates while a chunk is distributed."""

    def __init__(self, candidates: Candidates, random: np.random.Generator) -> None:
        self._random = random
        self._weight = np.where(np.isfinite(candidates.weight) & (candidates.weight > 0), candidates.weight, 0.0)
        self._queued = np.nan_to_num(candidates.queued)
        self._cap = np.where(np.isnan(candidates.cap) | np.isnan(candidates.queued), np.inf, candidates.cap)
        self._first = candidates.bootstrap.copy()
        self._bootstrap = candidates.bootstrap
        self._undo: dict[int, tuple[float, float, bool]] = {}

    def can_take(self, usable: Bools) -> Bools:
        """(C,) candidates that may be drawn now."""
        later = ~self._bootstrap & (self._queued < self._cap)
        return np.asarray(usable & (self._first | later))

    def next(self, usable: Bools) -> int | None:
        """A candidate among ``usable``: bootstrap candidates first, each once, then by weight; ``None`` without any."""
        first = np.flatnonzero(usable & self._first)
        if len(first):
            return int(first[int(self._random.integers(len(first)))])
        open_ = np.flatnonzero(self.can_take(usable))
        if not len(open_):
            return None
        weighty = open_[self._weight[open_] > 0]
        if not len(weighty):
            return int(open_[int(self._random.integers(len(open_)))])
        sums = np.cumsum(self._weight[weighty])
        drawn = self._random.random() * sums[-1]
        # a product rounded up to the whole sum ends at the last candidate, not at any other
        return int(weighty[min(int(np.searchsorted(sums, drawn, side="right")), len(weighty) - 1)])

    def count(self, candidate: int, jobs: int) -> None:
        """Count a group: more queued jobs, less weight; a bootstrap candidate has had its turn."""
        old = float(self._queued[candidate])
        self._undo[candidate] = (old, float(self._weight[candidate]), bool(self._first[candidate]))
        self._first[candidate] = False
        self._queued[candidate] = old + jobs
        self._weight[candidate] *= (old + 1.0) / (old + jobs + 1.0)

    def give_back(self, candidate: int) -> None:
        """Undo the last :meth:`count` of the candidate."""
        self._queued[candidate], self._weight[candidate], self._first[candidate] = self._undo[candidate]
