"""One cycle of a job brokerage: chunks in order against one snapshot, with placed jobs counted.

Pure: snapshot, work, tuning and chain come in; evaluations and rankings come out. Filters and fixed weights are
computed for whole blocks of chunks; only what depends on the jobs placed so far is computed chunk by chunk.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import ClassVar

import numpy as np

from broker.domain.arrays import AnyArray, Bools, Floats, Ints, RowsByKind, as_column, as_row, codes_of, distinct, taken
from broker.domain.chosen_candidates import Legend
from broker.domain.counted_load import PLAN, PLAN_FIGURES, ChunkPlan, CountedLoad, QueueJobs
from broker.domain.decisions import Outcome
from broker.domain.facts import JobFacts
from broker.domain.queues import TIGHTENING_KEYS, QueueTable
from broker.domain.work import Work, WorkTable
from broker.engine.compiled.columns import MovingState
from broker.engine.job.chunk_result import Block, ChunkResult, job_legend
from broker.engine.job.count_facts import LoadDetailFacts, accounting_keys_of
from broker.engine.job.data_facts import DataFacts, InputLimits, gather_data
from broker.engine.job.facts import CycleFacts, candidate_row, grid_facts, job_facts
from broker.engine.job.steps import LIMIT_KEYS, STEP_KEYS, RefusedNames, chunk_limits, job_groups
from broker.engine.job.veto import blocked_chunks
from broker.engine.shared.chain import QueueChain
from broker.engine.shared.evaluate import UNDECLARED, evaluate, prepare
from broker.engine.shared.filter_cache import AlikeRules, BlockCache, Evaluation, RuleFault
from broker.engine.shared.fixed_factors import fixed_factors
from broker.engine.shared.rank import BEST, BlockRanking, Ranking, rank, rank_block
from broker.gdpconfig import Tuning
from broker.rules.contract import JobPairs, Load, Rule
from broker.snapshot.snapshot import Snapshot, tightened

#: Cells (chunks x candidates) judged at once, which fit the processor's caches; and the fewest chunks for which arrays
#: pay off.
BLOCK_CELLS = 384 * 1024
LEAST_BLOCK = 64
NO_CANDIDATES = "no_candidates"


class JobCycle:
    """A job brokerage over one snapshot.

    Args:
        snapshot: the grid.
        work: the chunks, in the order in which they are brokered.
        tuning: one version of the gdpconfig values, for the VO of the work.
        chain: the rules.
        independent: every chunk meets the grid as the snapshot shows it, whatever was placed before.

    Attributes:
        snapshot: the grid, with queue limits tightened by pilot reports where the tuning says so.
        published: the queues with their published limits.
        pairs_type: the type of pairs that its rules see.
        remark, figure_names: the prefix of a remark with figures, and the names of these figures.
    """

    pairs_type: ClassVar[type[JobPairs]] = JobPairs
    remark: ClassVar[str] = ""
    figure_names: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self, snapshot: Snapshot, work: Work, tuning: Tuning, chain: QueueChain, *, independent: bool = False
    ) -> None:
        self._independent, self._given = independent, snapshot
        self._steps = tuning.only(STEP_KEYS)
        snapshot = chain.steps.snapshot_reading.read(snapshot)
        self.published: QueueTable = snapshot.queues
        snapshot = tightened(snapshot, [column for key, column in TIGHTENING_KEYS.items() if self._steps.flag(key)])
        self.snapshot, self.work, self.tuning, self.chain = snapshot, work, tuning, chain
        self._grid = grid_facts(snapshot, chain.steps.running.free_jobs(snapshot, self._steps))
        self._candidates = candidate_row(snapshot.queues)
        self._unusable = frozenset(state.name for state in snapshot.states if not state.usable)
        self._every: Ints = np.arange(len(snapshot.queues))
        self._data: DataFacts = self._gathered()
        self._facts = self._cycle_facts(work.chunks)
        self._accounting_names, self._accounting_codes = distinct(self._facts.accounting_key)
        self._vetoes = chain.steps.veto.reasons(work.chunks, self._facts.initial, snapshot)
        self.with_one_queue: Bools = self._facts.one_preassigned
        self._begin()

    def _gathered(self) -> DataFacts:
        """Gather the facts about the input."""
        return self._gathering()()

    def _gathering(self) -> Callable[[], DataFacts]:
        """A function that gathers these facts without holding the cycle."""
        limits = InputLimits(
            self._steps.number("MAX_MISSING_INPUT_FILES"),
            self._steps.number("MIN_INPUT_COMPLETENESS"),
            self._steps.number("IO_INTENSITY_CUTOFF"),
        )
        return partial(gather_data, self.work, self.snapshot, limits, lookup=self.chain.steps.input_lookup)

    def _begin(self) -> None:
        """Reset the cycle to no placed jobs, by its current values and rules."""
        chain, snapshot, chunks = self.chain, self.snapshot, self.work.chunks
        self._placed = np.zeros((max(1, len(self._accounting_names)), len(snapshot.unified)))
        self._moved = np.zeros(max(1, len(self._accounting_names)), dtype=np.bool_)
        self._limits = self._limits_of(chunks)
        self.job_groups = job_groups(snapshot, chunks, self._steps)
        details = any(rule.reads_details for rule in chain.cuts)
        self._details = LoadDetailFacts(snapshot, self._facts.accounting_key, chunks) if details else None
        self._views, faults = prepare(chain, snapshot, self.work, chain.tunings(self.tuning))
        self.faults: list[RuleFault] = list(faults)

    def beside(self, snapshot: Snapshot, work: Work, tuning: Tuning, chain: QueueChain) -> JobCycle | None:
        """A cycle with other values or rules that reuses gathered facts; None where they would differ."""
        if type(self) is not JobCycle or self._given is not snapshot or self.work is not work:
            return None
        other = copy.copy(self)
        other.tuning, other.chain, other._steps = tuning, chain, tuning.only(STEP_KEYS)
        if not self.alike(other).facts:
            return None
        other.__dict__.pop("legend", None)
        other._begin()
        return other

    def _cycle_facts(self, chunks: WorkTable) -> CycleFacts:
        first = self.chain.steps.initial_list.candidates(chunks, self.snapshot)
        return CycleFacts(
            initial=first.initial,
            one_preassigned=first.one_preassigned,
            listed=first.listed,
            refused_names=first.refused,
            accounting_key=accounting_keys_of(chunks, self.snapshot.jobs.resource_work_queues),
            nucleus=codes_of(chunks.nucleus, list(self.snapshot.nuclei.name)),
        )

    def _limits_of(self, chunks: WorkTable) -> tuple[Floats, Floats, Bools]:
        return chunk_limits(chunks, self._steps, self.chain.steps.urgency)

    def block_rows(self, *, ranked: bool = True) -> Iterator[slice]:
        """Yield the chunks of each block; ``ranked``: the blocks will be ranked where needed."""
        size = max(LEAST_BLOCK, BLOCK_CELLS // max(1, len(self.snapshot.queues)))
        # the ranking of the first block is discarded for all but the first chunk of each accounting key
        start, stop = 0, LEAST_BLOCK if ranked and not self._independent else size
        while start < len(self.work.chunks):
            yield slice(start, min(stop, len(self.work.chunks)))
            start, stop = stop, stop + size

    def blocks(self) -> Iterator[Block]:
        """The chunks block by block, judged by all filters and weighed by all fixed weights."""
        return map(self.ranked_if_needed, map(self.evaluate_block, self.block_rows()))

    def alike(self, other: JobCycle) -> AlikeRules:
        """Properties shared with another cycle, which decide what the two may reuse of a block."""
        if type(self) is not type(other) or self._given is not other._given or self.work is not other.work:
            return AlikeRules()
        differing = self.tuning.differing_keys(other.tuning)
        if self._independent != other._independent or differing & (set(STEP_KEYS) - LIMIT_KEYS):
            return AlikeRules()
        return self.chain.alike(other.chain, differing)

    def moves_alike(self, other: JobCycle) -> bool:
        """Whether placed jobs act alike in both cycles, on chunks of the same accounting key alone."""
        return type(self) is type(other) and self.chain.moves_alike(other.chain)

    def of_its_own(self, block: Block) -> Block:
        """The block with masks and weights that this cycle alone may update, if it updates any."""
        return block

    def evaluate_block(self, rows: slice, cache: BlockCache | None = None) -> Block:
        """Judge and weigh the chunks ``rows``, reusing results in ``cache`` and adding new ones to it."""
        cache = BlockCache(filters=None) if cache is None else cache
        tasks = as_column(taken(self.work.chunks, rows))
        if cache.facts is None:
            cache.facts = self._facts_and_counts(rows)
        facts, counts = cache.facts
        pairs = JobPairs(tasks, self._candidates, facts, UNDECLARED, np.arange(rows.start, rows.stop), self._every)
        if cache.evaluation is None:
            cache.evaluation = evaluate(self.chain.filters, pairs, self._views, self._unusable, cache.filters)
        self.faults.extend((evaluation := cache.evaluation).faults)
        factors = fixed_factors(self.chain.weights, pairs, self._views, self._unusable, self.faults, cache.factors)
        return Block(rows, facts, evaluation, factors, False, counts, self._ranked)

    def _facts_and_counts(self, rows: slice) -> tuple[JobFacts, RowsByKind]:
        labels = self.work.chunks.prodsourcelabel[rows]
        counts = self.chain.steps.job_count_reading.counts(self.snapshot, self._facts.accounting_key[rows], labels)
        low = self._steps.number("MAX_PRIO_TO_BOOTSTRAP")
        facts = job_facts(self.work.chunks, rows, self._facts, counts, self._grid, self._data, self.chain.steps, low)
        return facts, counts

    def ranked_if_needed(self, block: Block) -> Block:
        """The block, ranked if the cycle ignores placed jobs or the block is the first.

        Chunks of other blocks are ranked one by one, mostly with the jobs placed before. Ranking the first block shows
        which rules cannot be run.
        """
        if self._independent or not block.rows.start:
            block.ranking  # noqa: B018 - worked out now
        return block

    def _ranked(self, block: Block) -> BlockRanking:
        """Rank the chunks of a block with the job counts of the snapshot."""
        load, chain, feasible = self._loads(block.facts, block.rows), self.chain, block.evaluation.feasible
        best, taking = self.best_of(block.rows), self.taking_places(block.evaluation)
        return rank_block(block.fixed(), feasible, load, chain.load_weights, chain.cuts, self.faults, best, taking)

    def taking_places(self, evaluation: Evaluation) -> Bools | None:
        """(T, Q): queues that are no candidates but still take a place among the best; None for none."""
        return None

    def _ranked_alone(self, block: Block, row: int, feasible: AnyArray) -> Ranking:
        """Rank one chunk over its candidates ``feasible``, counting jobs placed before it."""
        inside, best = row - block.rows.start, int(self.best_of(slice(row, row + 1))[0])
        taking, rivals = self.taking_places(block.evaluation), feasible
        if taking is not None and taking[inside].any():
            rivals = (taking[inside] | block.evaluation.feasible[inside]).nonzero()[0]
        weights, cuts = self.chain.load_weights, self.chain.cuts
        ranking = rank(block.fixed_at(inside, rivals), self.load(block, row, rivals), weights, cuts, best=best)
        return ranking if rivals is feasible or taking is None else ranking.without(taking[inside, rivals])

    def best_of(self, rows: slice) -> Ints:
        """(T,): the most candidates that each of the chunks ``rows`` gets."""
        # what places all chunks together chooses among all remaining queues
        best = max(BEST, len(self.snapshot.queues)) if self.chain.steps.placement.together else BEST
        return np.full(rows.stop - rows.start, best, dtype=np.int64)

    def _loads(self, facts: JobFacts, rows: slice) -> Load:
        """The jobs at all candidates for the chunks ``rows``, as counted in the snapshot."""
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
            urgent=facts.urgent,
            bootstrap_allowed=may_bootstrap[rows, None],
            details=None if self._details is None else self._details.of(rows, facts),
        )

    def results(self) -> Iterator[ChunkResult]:
        """The outcome chunk by chunk, in order; jobs passed to :meth:`add_load` count for later chunks."""
        for block in self.blocks():
            for row in range(block.rows.start, block.rows.stop):
                yield self.result(block, row)

    def result(self, block: Block, row: int) -> ChunkResult:
        """The outcome of one chunk of a block, counting jobs placed before it."""
        if reason := self.blocked(row):
            return ChunkResult(row, block, reason, blocked=True)
        inside = row - block.rows.start
        if self._independent or (block.is_ranked and not self._moved[self._accounting_codes[row]]):
            return ChunkResult(row, block, "" if block.ranking.count[inside] else NO_CANDIDATES)
        feasible = block.evaluation.feasible[inside].nonzero()[0]
        if not len(feasible):
            return ChunkResult(row, block, NO_CANDIDATES)
        load, ranking = self.load(block, row, feasible), self._ranked_alone(block, row, feasible)
        result = ChunkResult(row, block, "" if len(ranking.chosen) else NO_CANDIDATES, ranked_alone=ranking, load=load)
        result.__dict__["feasible"] = feasible  # known already
        return result

    def outcome(self, row: int, reason: str) -> Outcome:
        """``brokered`` for a chunk with candidates, ``pending`` for one with a ``reason``."""
        return "pending" if reason else "brokered"

    @cached_property
    def legend(self) -> Legend:
        """The legend of the cycle's packed decisions."""
        if self.chain.steps.placement.together:
            return job_legend(self.snapshot.queues, self.chain, PLAN_FIGURES, PLAN)
        return job_legend(self.snapshot.queues, self.chain, self.figure_names, self.remark)

    def tuning_of(self, row: int) -> Tuning:
        """The gdpconfig values that apply to a chunk."""
        return self.tuning

    def remarks(self, row: int, plan: ChunkPlan | None = None) -> tuple[str, ...]:
        """Remarks stored with the decision alongside the reasons of rules."""
        return () if plan is None else plan.remarks

    def figures_of(self, result: ChunkResult) -> tuple[Ints, Floats] | None:
        """The candidates (K,) whose figures are stored with the decision, and the figures (F, K); None for none."""
        return None if result.plan is None else result.plan.figures(self.legend.place_of)

    def blocked(self, row: int) -> str:
        """Why the chunk cannot be brokered whatever the queues are, empty if it can."""
        return self._blocked[row]

    @cached_property
    def _blocked(self) -> list[str]:
        return blocked_chunks(self.work.chunks, self._facts.nucleus, self._vetoes, self._data.fault)

    def load(self, block: Block, row: int, feasible: AnyArray) -> Load:
        """Jobs at ``feasible`` for a chunk, including those that the cycle has placed for its accounting key."""
        facts, inside = block.facts, row - block.rows.start
        queue_limit, min_weight, may_bootstrap = self._limits
        defined, assigned, activated, starting = block.counts.at(inside, feasible)[:4]
        placed = None
        if not self._independent:
            placed = self._placed[self._accounting_codes[row], self.snapshot.queues.unified[feasible]]
            defined = defined + placed
        return Load(
            running=facts.at("running_equivalent", inside, feasible),
            defined=defined,
            assigned=assigned,
            activated=activated,
            starting=starting,
            all_local=facts.at("all_local", inside, feasible),
            queue_limit=queue_limit[row],
            min_weight=min_weight[row],
            urgent=facts.urgent[inside, 0],
            bootstrap_allowed=may_bootstrap[row],
            details=None if self._details is None else self._details.at(row, inside, feasible, facts, placed),
        )

    @property
    def moving_state(self) -> MovingState | None:
        """Jobs placed so far; None for a cycle that ignores placed jobs."""
        if self._independent:
            return None
        return MovingState(self._accounting_codes, self._placed, self._moved, *self._limits)

    def judged(self, block: Block) -> tuple[AnyArray | RowsByKind, ...]:
        """Columns that decide a block, apart from placed jobs, over (T or 1, Q or 1).

        Chunks with equal rows in two cycles over the same snapshot, by the same load weights and cuts, are ranked alike
        for as long as the same jobs are placed for their accounting key.
        """
        limits = (column[block.rows, None] for column in self._limits)
        return block.evaluation.feasible, block.evaluation.reason, *block.factors, block.facts.all_local, *limits

    def jobs_at_a_time(self, row: int) -> Ints:
        """(Q,): jobs of the chunk given to each candidate at a time; 0 for the usual number, negative for once only."""
        return np.maximum(self.job_groups, 0) if self.with_one_queue[row] else self.job_groups

    @cached_property
    def unusable_sources(self) -> tuple[str, ...]:
        """Notes on the unusable sources, as ``source_<state>:<name>``."""
        return tuple(f"source_{state.state}:{state.name}" for state in self.snapshot.states if not state.usable)

    @cached_property
    def unified_names(self) -> list[str]:
        """(U,): names of the unified queues of the snapshot."""
        return self.snapshot.unified.name.tolist()  # type: ignore[no-any-return]

    def accounting_of(self, row: int) -> int:
        """Number of the accounting key of a chunk; placed jobs count for all chunks of the key."""
        return int(self._accounting_codes[row])

    def room_depends_on(self, result: ChunkResult) -> tuple[AnyArray, ...]:
        """Everything but the snapshot that decides how many jobs the chosen candidates of a chunk may take."""
        inside, chosen = result.row - result.block.rows.start, result.chosen
        placed = self._placed[self._accounting_codes[result.row], self.snapshot.queues.unified[chosen]]
        return placed, result.block.facts.all_local[inside, chosen], self._limits[0][result.row : result.row + 1]

    def add_load(self, row: int, candidates: AnyArray, jobs: AnyArray) -> None:
        """Count jobs of a chunk placed at these candidates; later chunks see them as defined there."""
        self._moved[self._accounting_codes[row]] |= len(candidates) > 0
        np.add.at(self._placed[self._accounting_codes[row]], self.snapshot.queues.unified[candidates], jobs)

    def load_before(self, row: int) -> CountedLoad:
        """The load counted so far for a chunk: jobs of its accounting key by unified queue."""
        return CountedLoad(QueueJobs(self.unified_names, self._placed[self._accounting_codes[row]].copy()))

    def set_load(self, row: int, load: CountedLoad) -> None:
        """Set the counted load to the one that :meth:`load_before` returned when the chunk was decided."""
        self._placed[self._accounting_codes[row]] = 0.0
        self._moved[self._accounting_codes[row]] = False
        for index, name in enumerate(self.snapshot.unified.name.tolist()):
            if name in load.of_share:
                self._placed[self._accounting_codes[row], index] = load.of_share[name]
                self._moved[self._accounting_codes[row]] = True

    def facts_at(self, result: ChunkResult, candidate: Ints) -> JobFacts:
        """The facts of a chunk and the candidates at these positions, as it was judged."""
        return result.block.facts.block(np.array([result.row - result.block.rows.start]), candidate)

    def pairs_at(self, result: ChunkResult, rule: Rule, candidate: Ints) -> JobPairs:
        """A chunk and the candidates at these positions as a rule sees them, as they were judged."""
        return self.pairs_for(result, (rule,), candidate)[0]

    def pairs_for(self, result: ChunkResult, rules: Sequence[Rule], candidate: Ints) -> list[JobPairs]:
        """A chunk and the candidates at these positions as each rule sees them, as they were judged."""
        row: Ints = np.array([result.row])
        chunks = as_column(taken(self.work.chunks, row))
        queues = as_row(taken(self.snapshot.queues, candidate))
        facts = self.facts_at(result, candidate)
        pairs = self.pairs_type(chunks, queues, facts, UNDECLARED, row, candidate)
        return [self._views.of(rule, pairs) for rule in rules]

    def reading(self) -> Bools:
        """(L,): relations through which queues read input."""
        relations = self.snapshot.relations
        return np.asarray(relations.is_input & relations.of_default_scope)

    def refused_names(self, row: int) -> RefusedNames:
        """Pre-assigned names of a chunk that yield no candidate, each with the reason."""
        return self._facts.refused_names[row]
