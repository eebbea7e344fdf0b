"""One side of a comparison of a job brokerage: a stored cycle decided and its jobs given out, without the explanation.

Jobs are cut and drawn only where it is not known already what comes of it: where all that decides about the draws of a
chunk is as on a side that is known, so are its jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from broker.brokerages.placing import CANDIDATES_FULL, draw_jobs, drawn_jobs
from broker.brokerages.redecide import JobWorks
from broker.domain.arrays import Bools, Ints, texts
from broker.domain.feature_table import TIGHTENING_KEYS
from broker.engine.explain import deciding, steps_of
from broker.engine.job_cycle import ChunkResult, JobCycle
from broker.gdpconfig import Tuning
from broker.whatif.cases import StoredOutcome
from broker.whatif.outcomes import Side

_NOBODY = np.empty(0, dtype=np.int64)
#: Outcomes of which it is written what jobs there were; a chunk that was skipped in the end had others.
_TOLD = ("brokered", "pending")


@dataclass(frozen=True)
class Drawn:
    """The jobs of a chunk, and all that decided about them beside what both sides have in common.

    Attributes:
        by: the candidates, their weights and their room; equal bytes give equal jobs.
        at: positions of the candidates that got jobs.
        jobs: how many each of these got.
    """

    by: bytes
    at: Ints
    jobs: Ints


Known = Callable[[ChunkResult, bytes], tuple[Ints, Ints] | None]
"""What is known of the jobs of a chunk, by its result and what decides about them: where they go and how many."""


def decide_jobs(
    cycle: JobCycle, works: JobWorks, seed: int, counts: Sequence[int], known: Known
) -> tuple[Side, list[Drawn]]:
    """Decide all chunks of one VO in order; each finds what those before it have placed.

    Args:
        cycle: over the chunks.
        works: the same chunks, with what is needed to cut them.
        seed: of the cycle.
        counts: (T,) jobs of each chunk, where it was not stored how it is cut.
        known: asked before jobs are cut.
    """
    rows, width = len(cycle.work.chunks), len(cycle.snapshot.queues)
    chosen, jobs = np.zeros((rows, width), dtype=np.bool_), np.zeros((rows, width), dtype=np.int64)
    position = np.empty((rows, width), dtype=np.int64)
    outcomes, reasons, drawn = [], [], []
    for row, result in enumerate(cycle.results()):
        one = _drawn(cycle, works, result, seed, counts[row], known)
        cycle.place(row, one.at, one.jobs)
        position[row] = deciding(cycle, result)
        chosen[row, result.chosen] = True
        jobs[row, one.at] = one.jobs
        full = not result.reason and not len(one.at)
        outcomes.append("pending" if full else cycle.outcome(result))
        reasons.append(CANDIDATES_FULL if full else result.reason)
        drawn.append(one)
    return Side(texts(outcomes), texts(reasons), chosen, jobs, position, steps_of(cycle.chain).codes), drawn


def _drawn(cycle: JobCycle, works: JobWorks, result: ChunkResult, seed: int, count: int, known: Known) -> Drawn:
    ranking = result.ranking
    if ranking is None or not len(ranking.chosen):
        return Drawn(b"", _NOBODY, _NOBODY)
    best = ranking.chosen
    parts = (result.chosen, ranking.weight[best], ranking.bootstrap[best], *cycle.room_depends_on(result))
    by = b"".join(part.tobytes() for part in parts)
    found = known(result, by)
    if found is None and works.work is not None:
        found = np.unique(drawn_jobs(cycle, works.work, result, seed)[0], return_counts=True)
    if found is None:
        source = CountedJobs(count)
        draw_jobs(cycle, result, source, seed)
        places = np.array(sorted(source.made), dtype=np.int64)
        found = result.chosen[places], np.array([source.made[place] for place in places.tolist()], dtype=np.int64)
    return Drawn(by, *found)


def as_stored(names: Sequence[str], stored: Sequence[StoredOutcome]) -> Known:
    """Jobs as they were written, where they can have come of these candidates.

    Args:
        names: of the candidates.
        stored: the decisions, one a chunk.
    """
    place = {name: at for at, name in enumerate(names)}

    def known(result: ChunkResult, by: bytes) -> tuple[Ints, Ints] | None:
        one = stored[result.row]
        if one.outcome not in _TOLD or (not one.assigned and one.reason != CANDIDATES_FULL):
            return None
        at = [place.get(name, -1) for name in one.assigned]
        if not set(result.chosen.tolist()).issuperset(at):
            return None
        return np.array(at, dtype=np.int64), np.array(list(one.assigned.values()), dtype=np.int64)

    return known


def as_before(before: Sequence[Drawn], same_limits: bool) -> Known:
    """Jobs as on another side, where the draws depend on nothing else there.

    Args:
        before: of that side, one a chunk.
        same_limits: whether the queues let jobs be as large as there.
    """

    def known(result: ChunkResult, by: bytes) -> tuple[Ints, Ints] | None:
        one = before[result.row]
        return (one.at, one.jobs) if same_limits and one.by == by else None

    return known


def nothing_known(result: ChunkResult, by: bytes) -> None:
    """All jobs are cut and drawn."""


def limits_of(tuning: Tuning) -> tuple[bool, ...]:
    """Which limits of queues the tuning tightens: jobs are cut by them."""
    view = tuning.only(tuple(TIGHTENING_KEYS))
    return tuple(view.flag(key) for key in TIGHTENING_KEYS)


def job_counts(works: JobWorks, stored: Sequence[StoredOutcome]) -> list[int]:
    """(T,) jobs to give out of each chunk that cannot be cut: as many as there were, else one for each file."""
    files = works.stored.work.chunks.n_files.tolist()
    return [sum(one.assigned.values()) or max(1, int(count)) for one, count in zip(stored, files, strict=True)]


@dataclass
class CountedJobs:
    """A number of jobs, whatever they are made of.

    Attributes:
        left: jobs that are still to be given.
        made: jobs by candidate, by its place among those of the chunk.
    """

    left: int
    made: dict[int, int] = field(default_factory=dict)
    _last: tuple[int, int] = (0, 0)

    def has_files(self) -> bool:
        """Whether jobs are left."""
        return self.left > 0

    def make(self, candidate: int, count: int) -> int:
        """Give up to ``count`` jobs to a candidate."""
        given = min(count, self.left)
        self._add(candidate, given)
        self._last = candidate, given
        return given

    def take_back(self) -> None:
        """Undo the last call of :meth:`make`."""
        candidate, given = self._last
        self._add(candidate, -given)

    def holders_of_next(self) -> Bools | None:
        """Nobody knows where the input is."""
        return None

    def _add(self, candidate: int, jobs: int) -> None:
        self.left -= jobs
        total = self.made.get(candidate, 0) + jobs
        self.made = {**self.made, candidate: total} if total else {c: n for c, n in self.made.items() if c != candidate}
