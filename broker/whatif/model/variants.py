"""One side of a comparison of a job brokerage: a stored cycle decided and its jobs assigned, without explanations.

Jobs are cut and drawn only where the result is not known yet: a chunk whose draws depend on the same values as on a
known side gets the same jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from broker.brokerages.job.assign import CANDIDATES_FULL, JobMaker, draw_jobs
from broker.brokerages.job.assign_compiled import CompiledCycle
from broker.brokerages.job.brokerage import StoredChunks
from broker.domain.arrays import AnyArray, Bools, Ints, RowsByKind
from broker.domain.decisions import StoredOutcome
from broker.domain.queues import TIGHTENING_KEYS
from broker.engine.job.chunk_result import Block, ChunkResult
from broker.engine.job.cycle import JobCycle
from broker.engine.job.decision import deciding
from broker.engine.shared.filter_cache import BlockCache
from broker.gdpconfig import Tuning
from broker.whatif.model.compiled_blocks import BlockRows, CompiledBlocks
from broker.whatif.model.outcome_columns import NOBODY, DrawnJobs, DrawnRows, SideRows

#: Outcomes whose jobs are stored as drawn; a chunk that was skipped in the end had others.
_COMPARED = ("brokered", "pending")


Judged = tuple[AnyArray | RowsByKind, ...]
"""Everything apart from the placed load that decides about the chunks of a block; see :meth:`JobCycle.judged`."""
Known = Callable[[int, Ints, bytes], tuple[Ints, Ints] | None]
"""The known jobs of a chunk, by its row, its candidates and what decides about them: positions and numbers of jobs."""


@dataclass(frozen=True)
class JobSide:
    """A side with everything that another side may share with it.

    Attributes:
        rows: the decisions on the chunks so far.
        drawn: the jobs of each chunk.
        judged: for each block, everything apart from the placed load that decides about its chunks.
        blocked: for each chunk, why it cannot be brokered whatever the queues are; empty if it can.
        drawn_blocks: by the rows of a block, whether all its jobs result from drawing and cutting.
    """

    rows: SideRows
    drawn: DrawnRows
    judged: list[Judged]
    blocked: list[str]
    drawn_blocks: dict[tuple[int, int], bool] = field(default_factory=dict)


class Deciding:
    """A side that is decided block by block, in order; each chunk meets the load placed by those before it.

    Args:
        cycle: over the chunks.
        batch: the same chunks, with what is needed to cut them.
        seed: of the cycle.
        counts: (T,) jobs of each chunk whose cut was not stored.
        known: consulted before jobs are cut.
        other: a side over the same snapshot and chunks on which placed load acts as here, decided before this one or
            one block ahead of it; what is the same there is not decided again.
        loop: the cycle as the compiled loop takes it; None where the loop cannot run it.
        follows: the side whose jobs are ``known``; None where they are not those of another side.
        first: the side decided ahead of this one, whose flat form of blocks is reused.
    """

    def __init__(
        self,
        cycle: JobCycle,
        batch: StoredChunks,
        seed: int,
        counts: Sequence[int],
        known: Known,
        other: JobSide | None = None,
        loop: CompiledCycle | None = None,
        follows: JobSide | None = None,
        first: Deciding | None = None,
    ) -> None:
        self.cycle, self._other, self._known, self._follows = cycle, other, known, follows
        self.loop = loop
        beside = None if first is None else first._loop
        self._loop: CompiledBlocks | None = None if loop is None else CompiledBlocks(loop, beside)
        self._columns = _Columns(cycle, batch, seed, counts, known)
        self._other_keys: set[int] = set()  # accounting keys whose jobs differ from those on the other side
        self.side = JobSide(self._columns.rows, self._columns.drawn, [], self._columns.blocked)

    def decide_all(self) -> None:
        """Decide all chunks of the cycle."""
        for block in self.cycle.blocks():
            self.decide(block)

    def decide(self, block: Block) -> None:
        """Decide the chunks of the next block."""
        cycle, columns, other = self.cycle, self._columns, self._other
        rows, judged = range(block.rows.start, block.rows.stop), self.side.judged
        judged.append(cycle.judged(block))
        columns.blocked[block.rows] = [cycle.blocked(row) for row in rows]
        theirs = None if other is None else other.judged[len(judged) - 1]
        by_loop = not self._is_copied(block, theirs) and self._decide_by_loop(block)
        self.side.drawn_blocks[rows.start, rows.stop] = by_loop
        if by_loop:
            return
        alike = None if theirs is None else _alike(theirs, judged[-1])
        block = cycle.of_its_own(block)
        cycle.ranked_if_needed(block)
        for row in rows:
            tag = cycle.accounting_of(row)
            if other is None or alike is None:
                columns.decide(block, row)
            elif alike[row - rows.start] and other.blocked[row] == columns.blocked[row] and tag not in self._other_keys:
                columns.copy(row, other, block)
            else:
                columns.decide(block, row)
                if not _same_jobs(columns.drawn[row], other.drawn[row]):
                    self._other_keys.add(tag)
            cycle.add_load(row, columns.drawn[row].at, columns.drawn[row].jobs)

    def _is_copied(self, block: Block, theirs: Judged | None) -> bool:
        """Whether all chunks of a block are as on the other side."""
        if self._other is None or theirs is None or not _all_alike(theirs, self.side.judged[-1]):
            return False
        same = self._other.blocked[block.rows] == self._columns.blocked[block.rows]
        rows = range(block.rows.start, block.rows.stop)
        return same and self._other_keys.isdisjoint(map(self.cycle.accounting_of, rows))

    def _decide_by_loop(self, block: Block) -> bool:
        """Decide the block by the compiled loop; return whether it could.

        It cannot where the known jobs differ from those that would be drawn now: later chunks meet the known ones.
        """
        rows = (block.rows.start, block.rows.stop)
        if self._loop is None or (self._follows is not None and not self._follows.drawn_blocks.get(rows, False)):
            return False
        columns, own = self._columns, self.cycle.of_its_own(block)

        def alone(row: int) -> None:
            columns.decide(own, row)
            self.cycle.add_load(row, columns.drawn[row].at, columns.drawn[row].jobs)

        block_rows = self._loop.decide(block, alone)
        if isinstance(self._known, AsStored) and not self._known.agrees_with(rows[0], block_rows):
            self._loop.take_back()
            return False
        columns.put_block(block.rows, block_rows)
        if self._other is not None:
            for row in columns.rows.other_jobs(block.rows, self._other.rows).tolist():
                self._other_keys.add(self.cycle.accounting_of(row))
        return True


def decide_together(before: Deciding, others: Sequence[Deciding], *, known: bool) -> None:
    """Decide several sides block by block; what they share is judged once for each block.

    Args:
        before: the first side.
        others: sides over the same chunks.
        known: whether the first side is already decided.
    """
    blocks = list(before.cycle.block_rows())
    beside = [side for side in others if list(side.cycle.block_rows()) == blocks]
    common = [before.cycle.alike(side.cycle) for side in beside]
    shares = sum(side.facts for side in common) > int(known)
    # where all sides share their filters, no filter has to judge what another one rejects
    apart = not all(side.filters for side in common)
    for rows in blocks:
        cache = BlockCache(filters={} if apart else None)
        own = before.cycle.evaluate_block(rows, cache) if shares or not known else None
        # all sides judge the block before any of them decides on it
        theirs = [side.cycle.evaluate_block(rows, cache.alike(what)) for side, what in zip(beside, common, strict=True)]
        if own is not None and not known:
            before.decide(own)
        for side, block in zip(beside, theirs, strict=True):
            side.decide(block)
    for side in others:
        if side not in beside:
            side.decide_all()


class _Columns:
    """A side under construction, row by row."""

    def __init__(self, cycle: JobCycle, batch: StoredChunks, seed: int, counts: Sequence[int], known: Known) -> None:
        self._cycle, self._seed, self._counts, self._known = cycle, seed, counts, known
        self._maker = None if batch.work is None else JobMaker(cycle, batch.work)
        self.rows = SideRows(len(cycle.work.chunks), len(cycle.snapshot.queues), cycle.legend.codes)
        self.drawn = DrawnRows(len(cycle.work.chunks))
        self.blocked = [""] * len(cycle.work.chunks)

    def decide(self, block: Block, row: int) -> None:
        """Decide one chunk of a block."""
        result = self._cycle.result(block, row)
        one = _drawn(self._cycle, self._maker, result, self._seed, self._counts[row], self._known)
        full = not result.reason and not len(one.at)
        outcome = "pending" if full else self._cycle.outcome(row, result.reason)
        reason = CANDIDATES_FULL if full else result.reason
        self.rows.put(row, (outcome, reason), deciding(self._cycle, result), result.chosen, (one.at, one.jobs))
        self.drawn[row] = one

    def copy(self, row: int, other: JobSide, block: Block) -> None:
        """Copy a row of a block from another side."""
        self.rows.copy(row, other.rows, block.evaluation.feasible[row - block.rows.start])
        self.drawn[row] = other.drawn[row]

    def put_block(self, rows: slice, block: BlockRows) -> None:
        """Add the rows that the compiled loop decided; what decided about their jobs is not kept."""
        reasons = enumerate(block.reasons(self.blocked[rows]), rows.start)
        outcomes = [(self._cycle.outcome(row, reason), reason) for row, reason in reasons]
        self.rows.put_block(rows.start, block, outcomes)
        self.drawn.put_block(rows, block)


def _all_alike(one: Judged, two: Judged) -> bool:
    """Whether all rows are equal in all columns; stops at the first column that differs."""
    return len(one) == len(two) and all(
        _is_same(mine, theirs) or np.array_equal(_of_pairs(mine), _of_pairs(theirs))
        for mine, theirs in zip(one, two, strict=True)
    )


def _alike(one: Judged, two: Judged) -> Bools | None:
    """(T,) rows that are equal in all columns; None where the columns are not the same."""
    if len(one) != len(two):
        return None
    alike = np.ones(two[0].shape[0], dtype=np.bool_)
    for mine, theirs in zip(one, two, strict=True):
        # most columns were computed once for both sides
        if not _is_same(mine, theirs):
            alike &= (_of_pairs(mine) == _of_pairs(theirs)).all(axis=1)
    return alike


def _of_pairs(values: AnyArray | RowsByKind) -> AnyArray:
    return values.every if isinstance(values, RowsByKind) else values


def _is_same(one: AnyArray | RowsByKind, two: AnyArray | RowsByKind) -> bool:
    """Whether both are the same object, or arrays that view the same memory in the same way."""
    if isinstance(one, RowsByKind) or isinstance(two, RowsByKind):
        return one is two
    mine, theirs = one.__array_interface__, two.__array_interface__
    return all(mine[name] == theirs[name] for name in ("data", "shape", "strides", "typestr"))


def _same_jobs(one: DrawnJobs, two: DrawnJobs) -> bool:
    return np.array_equal(one.at, two.at) and np.array_equal(one.jobs, two.jobs)


def _drawn(
    cycle: JobCycle, maker: JobMaker | None, result: ChunkResult, seed: int, count: int, known: Known
) -> DrawnJobs:
    ranking = result.ranking
    if ranking is None or not len(ranking.chosen):
        return DrawnJobs(b"", NOBODY, NOBODY)
    best = ranking.chosen
    parts = (result.chosen, ranking.weight[best], ranking.bootstrap[best], *cycle.room_depends_on(result))
    by = b"".join(part.tobytes() for part in parts)
    jobs_of_known = known(result.row, result.chosen, by)
    if jobs_of_known is not None:
        return DrawnJobs(by, *jobs_of_known)
    if maker is not None:
        counted = maker.count(result, seed)
    else:
        source = CountedJobs(count)
        draw_jobs(cycle, result, source, seed)
        counted = {int(result.chosen[place]): jobs for place, jobs in source.jobs.items()}
    at = sorted(counted)
    return DrawnJobs(by, np.array(at, dtype=np.int64), np.array([counted[position] for position in at], dtype=np.int64))


class AsStored:
    """Jobs as they were stored, where the candidates can have got them; a :data:`Known`.

    Args:
        names: of the candidates.
        stored: the decisions, one a chunk.
    """

    def __init__(self, names: Sequence[str], stored: Sequence[StoredOutcome]) -> None:
        self._place = {name: at for at, name in enumerate(names)}
        self._stored = stored

    @cached_property
    def jobs(self) -> AnyArray:
        """(T, Q) the jobs of every chunk, without those at queues that are no longer candidates."""
        table = np.zeros((len(self._stored), len(self._place)), dtype=np.int32)
        jobs_at = np.array([len(one.assigned) for one in self._stored], dtype=np.int64)
        row = np.repeat(np.arange(len(self._stored)), jobs_at)
        pairs = [pair for one in self._stored for pair in one.assigned.items()]
        at = np.array([self._place.get(name, -1) for name, _ in pairs], dtype=np.int64)
        count = np.array([jobs for _, jobs in pairs], dtype=np.int32)
        table[row[at >= 0], at[at >= 0]] = count[at >= 0]
        return table

    def __call__(self, row: int, chosen: Ints, by: bytes) -> tuple[Ints, Ints] | None:
        """The jobs of a chunk; None where they are not known."""
        decided = self._stored[row]
        if decided.outcome not in _COMPARED or (not decided.assigned and decided.reason != CANDIDATES_FULL):
            return None
        jobs = {self._place.get(name, -1): count for name, count in decided.assigned.items()}
        if not set(chosen.tolist()).issuperset(jobs):
            return None
        at = sorted(jobs)
        return np.array(at, dtype=np.int64), np.array([jobs[one] for one in at], dtype=np.int64)

    def agrees_with(self, first: int, block: BlockRows) -> bool:
        """Whether these are the jobs of ``block``, whose chunks begin at row ``first``."""
        # where all jobs are at the same candidates, nothing else can have been stored
        other = (self.jobs[first : first + len(block.jobs)] != block.jobs).any(axis=1) & (block.chosen > 0)
        for at in block.by_loop[other[block.by_loop]].tolist():
            jobs = self(first + at, block.place[at, : block.chosen[at]], b"")
            if jobs is not None and not all(map(np.array_equal, jobs, block.given(at))):
                return False
        return True


def as_before(before: DrawnRows, same_limits: bool) -> Known:
    """Jobs as on another side, where the draws depend on the same values as there.

    Args:
        before: the jobs of that side, one entry a chunk.
        same_limits: whether the queues let jobs be as large as there.
    """

    def known(row: int, chosen: Ints, by: bytes) -> tuple[Ints, Ints] | None:
        one = before[row]
        return (one.at, one.jobs) if same_limits and one.by == by else None

    return known


def nothing_known(row: int, chosen: Ints, by: bytes) -> None:
    """Know no jobs: all of them are cut and drawn."""


def limits_of(tuning: Tuning) -> tuple[bool, ...]:
    """Which limits of queues the tuning tightens; jobs are cut by them."""
    view = tuning.only(tuple(TIGHTENING_KEYS))
    return tuple(view.flag(key) for key in TIGHTENING_KEYS)


def job_counts(batch: StoredChunks, stored: Sequence[StoredOutcome]) -> list[int]:
    """(T,) jobs to assign for each chunk that cannot be cut: as many as were stored, else one for each file."""
    files = batch.stored.work.chunks.n_files.tolist()
    return [sum(outcome.assigned.values()) or max(1, int(count)) for outcome, count in zip(stored, files, strict=True)]


@dataclass
class CountedJobs:
    """A number of jobs, regardless of their kind.

    Attributes:
        left: jobs still to be assigned.
        jobs: jobs by candidate, as its position among those of the chunk.
    """

    left: int
    jobs: dict[int, int] = field(default_factory=dict)
    _last: tuple[int, int] = (0, 0)

    def has_files(self) -> bool:
        """Whether jobs are left."""
        return self.left > 0

    def make(self, candidate: int, count: int) -> int:
        """Assign up to ``count`` jobs to a candidate."""
        jobs = min(count, self.left)
        self._add(candidate, jobs)
        self._last = candidate, jobs
        return jobs

    def take_back(self) -> None:
        """Undo the last call of :meth:`make`."""
        candidate, jobs = self._last
        self._add(candidate, -jobs)

    def holders_of_next(self) -> Bools | None:
        """None: the location of the input is not known."""
        return None

    def _add(self, candidate: int, jobs: int) -> None:
        self.left -= jobs
        total = self.jobs.get(candidate, 0) + jobs
        self.jobs = {**self.jobs, candidate: total} if total else {c: n for c, n in self.jobs.items() if c != candidate}
