"""One chunk of a cycle with its decision and its jobs.

For chunks that the compiled loop placed, both are extracted from the columns of a block on access.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise

import numpy as np

from broker.codec.packed_reasons import FunnelSteps, Reasons, RejectedNames
from broker.codec.packed_remarks import Notes, Remarks
from broker.codec.work_codec import NO_LOAD
from broker.domain.arrays import AnyArray, Bools, Floats, Ints, Texts
from broker.domain.chosen_candidates import CandidateTable, TableCandidates
from broker.domain.counted_load import CountedLoad, QueueJobs
from broker.domain.decisions import Decision, Reason
from broker.engine.compiled.columns import FlatBlock, Outcome
from broker.engine.job.cycle import NO_CANDIDATES, JobCycle
from broker.engine.job.decision import noted_codes
from broker.work.cut_jobs import CutJobs, joined_jobs, no_jobs

CANDIDATES_FULL = "candidates_full"
CANDIDATES_FULL_REASON = Reason(
    code=CANDIDATES_FULL,
    title="candidates were left, but none took a job",
    who="wait",
    cure="Wait for the next cycle: the candidates have taken as many jobs as they may in this one.",
)


@dataclass(frozen=True)
class AssignedChunk:
    """One chunk with its decision and its jobs.

    Attributes:
        row: position of the chunk in the work.
        decision: the decision; ``pending`` also when the candidates took no job.
        candidate: for each job the position of its candidate in the snapshot's queue table.
        jobs: the jobs.
        before: the load that the cycle had counted before.
    """

    row: int
    decision: Decision
    candidate: Ints
    jobs: CutJobs
    before: CountedLoad = NO_LOAD

    @property
    def job_count(self) -> int:
        """How many jobs there are."""
        return len(self.candidate)

    def assigned(self, names: Texts) -> dict[str, int]:
        """The number of jobs by candidate name; ``names`` is the name column of the queue table."""
        return _assigned(self.given, names)

    def assigned_of(self, mask: Bools, names: Texts) -> dict[str, int]:
        """The number of jobs in ``mask`` (J,), by candidate name."""
        return _assigned(_given(self.candidate[mask]), names)

    @cached_property
    def given(self) -> tuple[Ints, Ints]:
        """The candidates that got jobs, ascending, and how many each got."""
        return _given(self.candidate)


def _assigned(given: tuple[Ints, Ints], names: Texts) -> dict[str, int]:
    """Jobs by candidate name, from positions of candidates and their numbers of jobs."""
    positions, counts = given
    return dict(zip(map(str, names[positions].tolist()), counts.tolist(), strict=True))


def _given(candidate: Ints) -> tuple[Ints, Ints]:
    counts = np.bincount(candidate)
    positions = counts.nonzero()[0]
    return positions, counts[positions]


_NOTHING_REFUSED: Mapping[str, str] = {}


class LoopPart:
    """Consecutive chunks of a block, with the loop's output for them.

    Args:
        cycle: that judged the block.
        flat: its pairs.
        out: what the loop wrote.
        rows: the chunks, as positions in the block.
        figures: for each chunk the figures stored with its decision; None if there are none at all.
        listed: files of chunks with secondary datasets, as rows of ``LISTED``.
    """

    def __init__(
        self,
        cycle: JobCycle,
        flat: FlatBlock,
        out: Outcome,
        rows: range,
        figures: Sequence[tuple[Ints, Floats] | None] | None,
        listed: AnyArray,
    ) -> None:
        self.out, self._cycle, self._flat, self._figures, self._listed = out, cycle, flat, figures, listed
        self.first = rows.start
        #: Codes of rules that have failed until now: a decision does not know of later blocks.
        self._codes = noted_codes(cycle)
        self._chosen: list[int] = out.chosen[rows.start : rows.stop].tolist()
        self._ranked: list[bool] = out.ranked[rows.start : rows.stop].tolist()
        self.spans: list[list[int]] = out.jobs[rows.start : rows.stop].tolist()
        first, stop = flat.row + rows.start, flat.row + rows.stop
        chunks = cycle.work.chunks
        self._of_task: list[int] = chunks.jeditaskid[first:stop].tolist()
        self._of_dataset: list[int] = chunks.datasetid[first:stop].tolist()
        self._memory: list[float] = chunks.ramcount[first:stop].tolist()

    def chunks(self) -> Iterator[LoopChunk]:
        """The chunks in order."""
        first = self._flat.row + self.first
        for at in range(len(self.spans)):
            yield LoopChunk(first + at, self, at)

    def decision(self, at: int) -> Decision:
        """The decision on the chunk ``at`` of the part."""
        cycle, row, inside = self._cycle, self._flat.row + self.first + at, self.first + at
        count, (first, stop), memory = self._chosen[at], self.spans[at], float(self._memory[at])
        # a chunk that is blocked has no pairs
        blocked = "" if count else cycle.blocked(row)
        reason = "" if count else blocked or NO_CANDIDATES
        outcome = cycle.outcome(row, reason)
        if count and first == stop:
            outcome, reason = "pending", CANDIDATES_FULL
        refused = cycle.refused_names(row)
        position = self._flat.position[inside]
        reasons = Reasons(cycle.legend, position, blocked, dict(refused) if refused else _NOTHING_REFUSED)
        return Decision(
            jeditaskid=self._of_task[at],
            datasetid=self._of_dataset[at],
            ramcount=None if memory != memory else memory,
            brokerage=cycle.chain.brokerage,
            outcome=outcome,
            reason=reason,
            candidates=TableCandidates(self._table, inside, count) if self._ranked[at] else self._no_candidates,
            rejected=RejectedNames(reasons),
            funnel=FunnelSteps(reasons),
            notes=self._notes(at, row),
        )

    def _notes(self, at: int, row: int) -> tuple[str, ...] | Notes:
        remarks = self._cycle.remarks(row)
        codes = (*self._codes, *remarks) if remarks else self._codes
        figures = None if self._figures is None else self._figures[at]
        return codes if figures is None else Notes(codes, Remarks(self._cycle.legend, *figures))

    @cached_property
    def _table(self) -> CandidateTable:
        out = self.out
        weight = np.where(out.bootstrap, 0.0, out.weight)
        return CandidateTable(out.place, weight, out.factors, out.bootstrap, self._cycle.legend, out.chosen)

    @cached_property
    def _no_candidates(self) -> TableCandidates:
        return TableCandidates(self._table, 0, 0)

    @cached_property
    def given(self) -> list[tuple[list[int], list[int]]]:
        """For each chunk, the candidates that got jobs, ascending, and their numbers of jobs."""
        low, high, queues = self.spans[0][0], self.spans[-1][1], self._flat.position.shape[1]
        owner = np.repeat(np.arange(len(self.spans)), [stop - first for first, stop in self.spans])
        cells, counts = np.unique(owner * queues + self.out.numbers[0, low:high], return_counts=True)
        bounds = np.searchsorted(cells, np.arange(len(self.spans) + 1) * queues).tolist()
        positions, jobs = (cells % queues).tolist(), counts.tolist()
        return [(positions[start:end], jobs[start:end]) for start, end in pairwise(bounds)]

    def before(self, at: int) -> CountedLoad:
        """The load that the cycle had counted before the chunk ``at`` of the part."""
        names, out, inside = self._cycle.unified_names, self.out, self.first + at
        of_share = QueueJobs(names, out.before[inside])
        if not out.users_before.shape[1]:
            return CountedLoad(of_share)
        of_user, of_type, new_users = (QueueJobs(names, part[inside]) for part in out.users_before)
        return CountedLoad(of_share, of_user, of_type, new_users)

    def jobs(self, first: int, stop: int) -> CutJobs:
        """The jobs ``first`` to ``stop`` (exclusive) of the block; they belong to whole chunks."""
        if first == stop:
            return no_jobs()
        _, begin, end, events, files, stored, disk_mb = self.out.numbers[:, first:stop]
        output_mb, walltime_s = self.out.figures[:, first:stop]
        extra, offsets = self._extra(first, stop)
        return CutJobs(begin, end, events, files, stored, output_mb, disk_mb, walltime_s, extra, offsets)

    def _extra(self, first: int, stop: int) -> tuple[Ints, Ints]:
        """The files of secondary datasets of these jobs, and the offsets at which those of each job begin and end."""
        out, file_parts, lengths = self.out, [np.empty(0, dtype=np.int64)], np.zeros(stop - first + 1, dtype=np.int64)
        if not len(out.spans):
            return file_parts[0], lengths
        inside = (out.jobs[:, 0] >= first) & (out.jobs[:, 1] <= stop) & (out.span_of[:, 1] > out.span_of[:, 0])
        for (low, high), own in zip(out.jobs[inside].tolist(), out.span_of[inside].tolist(), strict=True):
            begin, end = out.spans[slice(*own)].T
            sizes = end - begin
            lengths[low - first + 1 : high - first + 1] = sizes.reshape(high - low, -1).sum(axis=1)
            ahead = np.repeat(begin - np.cumsum(sizes) + sizes, sizes)
            file_parts.append(self._listed["file"][ahead + np.arange(len(ahead))])
        return np.concatenate(file_parts), np.cumsum(lengths)


class LoopChunk(AssignedChunk):
    """A chunk that the loop placed.

    Args:
        row: position of the chunk in the work.
        part: the chunks around it.
        at: its place among them.
    """

    part: LoopPart
    at: int

    def __init__(self, row: int, part: LoopPart, at: int) -> None:
        self.__dict__.update(row=row, part=part, at=at)

    @cached_property
    def decision(self) -> Decision:
        """The decision about the chunk, as in :class:`AssignedChunk`."""
        return self.part.decision(self.at)

    @cached_property
    def candidate(self) -> Ints:
        """(J,) positions of the candidates of the chunk's jobs."""
        first, stop = self.span
        return self.part.out.numbers[0, first:stop]

    @cached_property
    def jobs(self) -> CutJobs:
        """The jobs cut from the chunk."""
        return self.part.jobs(*self.span)

    @cached_property
    def before(self) -> CountedLoad:
        """The load counted before the chunk."""
        return self.part.before(self.at)

    @property
    def span(self) -> list[int]:
        """Start and stop of the chunk's jobs in the block."""
        return self.part.spans[self.at]

    @property
    def job_count(self) -> int:
        """How many jobs there are."""
        first, stop = self.span
        return stop - first

    def assigned(self, names: Texts) -> dict[str, int]:
        """The number of jobs by candidate name."""
        positions, counts = self.part.given[self.at]
        return {str(names[at]): jobs for at, jobs in zip(positions, counts, strict=True)}


def jobs_of(placed: Sequence[AssignedChunk]) -> tuple[Ints, CutJobs]:
    """The candidate of each job of all chunks, and the jobs; adjacent ones in a block are extracted at once."""
    candidates, jobs = [np.empty(0, dtype=np.int64)], []
    for out, chunks in groupby(placed, lambda one: id(one.part.out) if isinstance(one, LoopChunk) else None):
        for candidate, own in _of_block(chunks) if out is not None else ((one.candidate, one.jobs) for one in chunks):
            if len(own):
                candidates.append(candidate)
                jobs.append(own)
    return np.concatenate(candidates), joined_jobs(jobs)


def _of_block(placed: Iterable[AssignedChunk]) -> Iterator[tuple[Ints, CutJobs]]:
    """The jobs of chunks of one block, one item for each contiguous run."""
    part, start, end = None, 0, 0
    for chunk in placed:
        if not isinstance(chunk, LoopChunk):
            raise TypeError(f"chunk {chunk.row} was not placed by the loop")
        first, stop = chunk.span
        if part is not None and first != end:
            yield part.out.numbers[0, start:end], part.jobs(start, end)
        if part is None or first != end:
            part, start = chunk.part, first
        end = stop
    if part is not None:
        yield part.out.numbers[0, start:end], part.jobs(start, end)
