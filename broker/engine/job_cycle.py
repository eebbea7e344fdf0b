"""One cycle of a job brokerage: chunks in order against one snapshot, with what the cycle places taken into account.

Pure: snapshot, work, tuning and chain come in; evaluations and rankings come out. Filters and fixed weights are
worked out for blocks of chunks at once; only what moves with the jobs that were placed is done chunk by chunk.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from broker.domain.arrays import AnyArray, Bools, Floats, Ints, as_column, as_row, codes_of, distinct, taken
from broker.domain.decisions import Outcome
from broker.domain.facts import JobFacts
from broker.domain.feature_table import TIGHTENING_KEYS
from broker.domain.queues import QueueTable
from broker.domain.work import Work, WorkTable
from broker.engine.chain import Chain
from broker.engine.count_facts import counts_by_status, tags_of
from broker.engine.data_facts import INPUT_FAULTS, DataFacts, InputLimits, gather_data
from broker.engine.evaluate import Evaluation, RuleFault, evaluate
from broker.engine.job_facts import CycleFacts, grid_facts, job_facts, preassignment
from broker.engine.rank import BlockRanking, Ranking, rank, rank_block
from broker.gdpconfig import Tuning
from broker.rules.contract import Load, Weight
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.tighten import tightened

#: Cells (chunks x candidates) judged at once, and the fewest chunks: large enough for the arrays to pay, small enough
#: for the processor's caches.
BLOCK_CELLS = 128 * 1024
LEAST_BLOCK = 64
NO_CANDIDATES = "no_candidates"
#: The gdpconfig keys that the steps which are no rules read.
STEP_KEYS = (
    "MAX_MISSING_INPUT_FILES",
    "MIN_INPUT_COMPLETENESS",
    "IO_INTENSITY_CUTOFF",
    "MAX_PRIO_TO_BOOTSTRAP",
    "NQUEUELIMITSITE",
    "MIN_WEIGHT",
    *TIGHTENING_KEYS,
)


@dataclass(frozen=True)
class Block:
    """What was worked out for the chunks ``rows``: facts, evaluation, and each fixed factor."""

    rows: slice
    facts: JobFacts
    evaluation: Evaluation
    factors: tuple[Floats, ...]
    fixed: tuple[Floats, ...]  # each (T, Q), in the order in which they multiply what moves
    counts: Floats  # (4, T, Q) the jobs of the chunk's tag that are defined, assigned, activated and starting
    ranking: BlockRanking  # with the jobs as the snapshot shows them


@dataclass(frozen=True)
class ChunkResult:
    """The outcome for one chunk.

    ``reason`` says why it has no candidates, empty if it has. ``ranked_alone`` is its ranking where the jobs that the
    cycle has placed made it differ from that of the block.
    """

    row: int
    block: Block
    reason: str
    blocked: bool = False  # whatever the queues are, the chunk cannot be brokered
    ranked_alone: Ranking | None = None

    @cached_property
    def left(self) -> Ints:
        """Positions of the candidates that passed the filters, none for a chunk that is blocked."""
        left = np.flatnonzero(self.block.evaluation.left[self.row - self.block.rows.start])
        return left[:0] if self.blocked else left

    @cached_property
    def ranking(self) -> Ranking | None:
        """The ranking over ``left``; None if there is nothing to rank."""
        if not len(self.left):
            return None
        return self.ranked_alone or self.block.ranking.of(self.row - self.block.rows.start, self.left)

    @property
    def chosen(self) -> Ints:
        """Positions of the candidates in the snapshot's queue table, best first."""
        return self.left[self.ranking.chosen] if self.ranking is not None else self.left[:0]


class JobCycle:
    """A job brokerage over one snapshot.

    Args:
        snapshot: the grid.
        work: the chunks, in the order in which they are brokered.
        tuning: one version of the gdpconfig values, for the VO of the work.
        chain: the rules.
        independent: every chunk meets the grid as the snapshot shows it, whatever was placed before.

    Attributes:
        snapshot: the grid, with limits of queues tightened by what pilots report where the tuning says so.
        published: the queues without that.
        moves_by_tag: whether what is placed changes nothing but the load of the chunks of the same tag.
    """

    moves_by_tag: ClassVar[bool] = True

    def __init__(
        self, snapshot: Snapshot, work: Work, tuning: Tuning, chain: Chain, *, independent: bool = False
    ) -> None:
        self._independent = independent
        self._tunings = chain.tunings(tuning)
        self._steps = tuning.only(STEP_KEYS)
        self.published: QueueTable = snapshot.queues
        snapshot = tightened(snapshot, [column for key, column in TIGHTENING_KEYS.items() if self._steps.flag(key)])
        self.snapshot, self.work, self.tuning, self.chain = snapshot, work, tuning, chain
        self._grid = grid_facts(snapshot)
        self._candidates: QueueTable = as_row(snapshot.queues)
        self._unusable = frozenset(state.name for state in snapshot.states if not state.usable)
        self._data: DataFacts = gather_data(
            work,
            snapshot,
            InputLimits(
                self._steps.number("MAX_MISSING_INPUT_FILES"),
                self._steps.number("MIN_INPUT_COMPLETENESS"),
                self._steps.number("IO_INTENSITY_CUTOFF"),
            ),
        )
        self._facts = self._cycle_facts(work.chunks)
        self._tag_names, self._tag_codes = distinct(self._facts.tag)
        self._placed = np.zeros((max(1, len(self._tag_names)), len(snapshot.unified)))
        self._moved = np.zeros(max(1, len(self._tag_names)), dtype=np.bool_)
        self._limits = self._limits_of(work.chunks)
        self._places = self._places_of(snapshot.queues)
        self.faults: list[RuleFault] = []

    def _places_of(self, queues: QueueTable) -> Ints | None:
        """(Q,): which of two candidates of equal weight goes first; None: by name."""
        return None

    def _cycle_facts(self, chunks: WorkTable) -> CycleFacts:
        initial, single, listed, unknown = preassignment(chunks, self._grid)
        return CycleFacts(
            initial=initial,
            single=single,
            listed=listed,
            unknown_queues=unknown,
            tag=tags_of(chunks, self.snapshot.jobs.resource_work_queues),
            nucleus=codes_of(chunks.nucleus, list(self.snapshot.nuclei.name)),
        )

    def _limits_of(self, chunks: WorkTable) -> tuple[Floats, Floats, Bools]:
        shares, labels = list(chunks.gshare), list(chunks.prodsourcelabel)
        urgent = (chunks.processingtype == "urgent") | (chunks.currentpriority >= 1000)
        may_bootstrap = (
            (chunks.currentpriority <= self._steps.number("MAX_PRIO_TO_BOOTSTRAP")) & ~chunks.merging & ~urgent
        )
        return (
            self._steps.by_suffix("NQUEUELIMITSITE", shares),
            self._steps.by_two_suffixes("MIN_WEIGHT", labels, shares),
            np.asarray(may_bootstrap, dtype=np.bool_),
        )

    def blocks(self) -> Iterator[Block]:
        """The chunks block by block, judged by all filters and weighed by all fixed weights."""
        size = max(LEAST_BLOCK, BLOCK_CELLS // max(1, len(self.snapshot.queues)))
        for start in range(0, len(self.work.chunks), size):
            yield self.judge(slice(start, min(start + size, len(self.work.chunks))))

    def judge(self, rows: slice) -> Block:
        """Judge and weigh the chunks ``rows``."""
        tasks = as_column(taken(self.work.chunks, rows))
        counts = counts_by_status(self.snapshot, self._facts.tag[rows])
        facts = job_facts(self.work.chunks, rows, self._facts, counts, self._grid, self._data)
        evaluation = evaluate(self.chain.filters, tasks, self._candidates, facts, self._tunings, self._unusable)
        self.faults.extend(evaluation.faults)
        factors = tuple(self._factor(rule, tasks, facts) for rule in self.chain.weights)
        fixed = tuple(np.broadcast_to(factor, facts.initial.shape) for factor in factors)
        ranking = rank_block(
            fixed, evaluation.left, self._loads(facts, rows), self.chain.load_weights, self.chain.cuts, self.faults
        )
        return Block(rows, facts, evaluation, factors, fixed, counts[:4], ranking)

    def _factor(self, rule: Weight, tasks: WorkTable, facts: JobFacts) -> Floats:
        """The factor of a fixed weight, 1 where it cannot be known: its source is unusable, or the rule is broken."""
        if not self._unusable.isdisjoint(rule.sources):
            return np.ones((1, 1))
        try:
            factor = np.asarray(rule.factor(tasks, self._candidates, facts, self._tunings[rule.name]), dtype=np.float64)
            np.broadcast_to(factor, facts.initial.shape)
        except Exception as error:  # a broken rule must not stop the broker: it is counted and weighs nothing
            self.faults.append(RuleFault(rule.name, f"{type(error).__name__}: {error}"[:200]))
            return np.ones((1, 1))
        return factor

    def _loads(self, facts: JobFacts, rows: slice) -> Load:
        """The jobs at all candidates for the chunks ``rows``, as the snapshot shows them."""
        queue_limit, min_weight, may_bootstrap = self._limits
        return Load(
            running=facts.running_equivalent,
            defined=facts.defined,
            assigned=facts.assigned,
            activated=facts.activated,
            starting=facts.starting,
            all_local=facts.all_local,
            queue_limit=queue_limit[rows, None],
            min_weight=min_weight[rows, None],
            express=facts.express,
            bootstrap_allowed=may_bootstrap[rows, None],
        )

    def results(self) -> Iterator[ChunkResult]:
        """The outcome chunk by chunk, in order; what :meth:`place` is told counts for the chunks that follow."""
        for block in self.blocks():
            for row in range(block.rows.start, block.rows.stop):
                yield self.result(block, row)

    def result(self, block: Block, row: int) -> ChunkResult:
        """The outcome of one chunk of a block, with what was placed before."""
        reason = self.blocked(row)
        if reason:
            return ChunkResult(row, block, reason, blocked=True)
        inside = row - block.rows.start
        if self._independent or not self._moved[self._tag_codes[row]]:
            return ChunkResult(row, block, "" if block.ranking.count[inside] else NO_CANDIDATES)
        left = np.flatnonzero(block.evaluation.left[inside])
        if not len(left):
            return ChunkResult(row, block, NO_CANDIDATES)
        ranking = rank(
            tuple(factor[inside, left] for factor in block.fixed),
            self.load(block, row, left),
            self.chain.load_weights,
            self.chain.cuts,
            places=None if self._places is None else self._places[left],
        )
        return ChunkResult(row, block, "" if len(ranking.chosen) else NO_CANDIDATES, ranked_alone=ranking)

    def outcome(self, result: ChunkResult) -> Outcome:
        """A chunk with candidates is brokered, any other pending."""
        return "pending" if result.reason else "brokered"

    def remarks(self, result: ChunkResult) -> tuple[str, ...]:
        """What is kept with the decision beside the reasons of rules."""
        return ()

    def blocked(self, row: int) -> str:
        """Why the chunk cannot be brokered whatever the queues are, empty if it can."""
        nucleus = self.work.chunks.nucleus[row]
        if nucleus is not None and self._facts.nucleus[row] < 0:
            return "unknown_nucleus"
        return INPUT_FAULTS[int(self._data.fault[row])]

    def load(self, block: Block, row: int, left: AnyArray) -> Load:
        """The jobs at the candidates ``left`` for a chunk, with those that the cycle has placed for its tag."""
        facts, inside = block.facts, row - block.rows.start
        queue_limit, min_weight, may_bootstrap = self._limits
        defined, assigned, activated, starting = block.counts[:, inside, left]
        if not self._independent:
            defined = defined + self._placed[self._tag_codes[row], self.snapshot.queues.unified[left]]
        return Load(
            running=facts.running_equivalent[inside, left],
            defined=defined,
            assigned=assigned,
            activated=activated,
            starting=starting,
            all_local=facts.all_local[inside, left],
            queue_limit=queue_limit[row],
            min_weight=min_weight[row],
            express=facts.express[inside, 0],
            bootstrap_allowed=may_bootstrap[row],
        )

    def judged(self, block: Block) -> tuple[AnyArray, ...]:
        """All that decides about the chunks of a block beside what is placed, in columns (T or 1, Q or 1).

        Chunks with equal rows in two cycles over the same snapshot, by the same load weights and cuts, are ranked alike
        for as long as the same jobs are placed for their tag.
        """
        limits = (column[block.rows, None] for column in self._limits)
        return block.evaluation.left, block.evaluation.reason, *block.fixed, block.facts.all_local, *limits

    def tag_of(self, row: int) -> int:
        """Number of the tag of a chunk: what is placed counts for all chunks of the tag."""
        return int(self._tag_codes[row])

    def room_depends_on(self, result: ChunkResult) -> tuple[AnyArray, ...]:
        """For the chosen candidates of a chunk, all beside the snapshot that decides how many jobs they may take."""
        inside, chosen = result.row - result.block.rows.start, result.chosen
        placed = self._placed[self._tag_codes[result.row], self.snapshot.queues.unified[chosen]]
        return placed, result.block.facts.all_local[inside, chosen], self._limits[0][result.row : result.row + 1]

    def place(self, row: int, candidates: AnyArray, jobs: AnyArray) -> None:
        """Count jobs of a chunk that went to these candidates: the chunks that follow find them defined there."""
        self._moved[self._tag_codes[row]] |= len(candidates) > 0
        unified = self.snapshot.queues.unified[candidates]
        np.add.at(self._placed[self._tag_codes[row]], unified, jobs)

    def placed_before(self, row: int) -> dict[str, int]:
        """Jobs that the cycle has placed so far for the tag of a chunk, by unified queue."""
        placed = self._placed[self._tag_codes[row]]
        queues = np.flatnonzero(placed)
        return dict(zip(self.snapshot.unified.name[queues].tolist(), placed[queues].astype(int).tolist(), strict=True))

    def restore(self, row: int, placed: Mapping[str, int]) -> None:
        """Let the cycle have placed exactly these jobs: what :meth:`placed_before` said when the chunk was decided."""
        self._placed[self._tag_codes[row]] = 0.0
        self._moved[self._tag_codes[row]] = False
        for index, name in enumerate(self.snapshot.unified.name.tolist()):
            if name in placed:
                self._placed[self._tag_codes[row], index] = placed[name]
                self._moved[self._tag_codes[row]] = True

    def facts_at(self, result: ChunkResult, candidate: Ints) -> JobFacts:
        """The facts of a chunk and the candidates at these positions, as it was judged."""
        return result.block.facts.block(np.array([result.row - result.block.rows.start]), candidate)

    def reading(self) -> Bools:
        """(L,): relations through which queues read input."""
        relations = self.snapshot.relations
        return np.asarray(relations.is_input & (relations.scope == "default"))

    def unknown_queues(self, row: int) -> tuple[str, ...]:
        """Pre-assigned names of a chunk that are no queue."""
        return self._facts.unknown_queues[row]
