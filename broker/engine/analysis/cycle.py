"""One cycle of the analysis brokerage: throttle, a pass with and one without the locality check, weights.

Pure, like the cycle that it extends. Source: ATLAS Analysis Job Brokerage.
"""

from __future__ import annotations

import copy
import dataclasses
from functools import cached_property
from typing import cast

import numpy as np

from broker.domain.analysis import FIGURES, KEYS as STABILIZER_KEYS, SITE_MID, AnalysisFacts, load_of, stabilize
from broker.domain.arrays import AnyArray, Bools, Floats, Ints, RowsByKind, as_column, taken
from broker.domain.counted_load import ChunkPlan
from broker.domain.decisions import Outcome
from broker.domain.facts import JobFacts
from broker.domain.work import Work, WorkTable
from broker.engine.analysis.candidates import AnalysisCandidates, analysis_candidates
from broker.engine.analysis.chain import AnalysisChain, stabilizer_at
from broker.engine.analysis.class_weights import CLASSED_SHARES, Competition, new_basic_weight, weight_by_room
from broker.engine.analysis.data_facts import NO_COMPLETE_REPLICA, AnalysisData, gather_analysis_data
from broker.engine.analysis.facts import FactsOfAnalysis
from broker.engine.analysis.job_counts import ActiveUsers, figures_at, load_at
from broker.engine.analysis.load_tracking import LoadTrackingCycle
from broker.engine.analysis.passes import (
    CUTOFF,
    TIMEOUT,
    Judging,
    passing,
    second_pass,
    suppresses_check,
    too_few,
    with_problems,
)
from broker.engine.analysis.queue_attributes import AnalysisQueues, analysis_queues, scope_in_use
from broker.engine.analysis.throttle import KEYS as THROTTLE_KEYS, THROTTLED, Throttle, requesters, throttle_of
from broker.engine.job.chunk_result import Block, ChunkResult
from broker.engine.job.count_facts import accounting_keys_of, counts_by_status
from broker.engine.job.cycle import JobCycle
from broker.engine.job.data_facts import DataFacts, DataFactsLater, InputLimits
from broker.engine.job.facts import CycleFacts, job_facts
from broker.engine.job.snapshot_reading import SnapshotReading
from broker.engine.job.steps import STEP_KEYS as JOB_STEP_KEYS
from broker.engine.job.veto import OF_ANY_QUEUE
from broker.engine.shared.chain import QueueChain, same_part
from broker.engine.shared.evaluate import UNDECLARED, AnyFilter, evaluate, rows_of
from broker.engine.shared.filter_cache import AlikeRules, BlockCache, Evaluation, FilterAnswer, LastPass
from broker.engine.shared.fixed_factors import fixed_factors
from broker.engine.shared.pass_cache import Passes, of_chunks
from broker.gdpconfig import Tuning
from broker.rules.contract import AnalysisPairs, Load
from broker.snapshot.snapshot import Snapshot

NEW_WEIGHT = "NEW_BASIC_WEIGHT"
MISSING_FILES, COMPLETENESS = "MAX_MISSING_INPUT_FILES_USER", "MIN_INPUT_COMPLETENESS_USER"
STEP_KEYS = (CUTOFF, TIMEOUT, NEW_WEIGHT, MISSING_FILES, COMPLETENESS)
OWN_KEYS = (*STEP_KEYS, *THROTTLE_KEYS, *STABILIZER_KEYS)
#: Those of them that decide facts, or that moving filters and weights read when they judge again.
FACT_KEYS = frozenset((*STEP_KEYS, *STABILIZER_KEYS))


class AnalysisCycle(LoadTrackingCycle):
    """The analysis brokerage over one snapshot.

    Args:
        snapshot: the grid, made with the sources of analysis.
        work: the chunks, in the order in which they are brokered, with the columns of analysis.
        tuning: one version of the gdpconfig values, for the VO of the work.
        chain: the rules.
        independent: every chunk meets the grid as the snapshot shows it, whatever was placed before.
        quota_closed: no chunk may go on while the quotas cannot be read.
    """

    pairs_type = AnalysisPairs
    remark, figure_names = "stabilizer", FIGURES
    chain: AnalysisChain

    def __init__(
        self,
        snapshot: Snapshot,
        work: Work,
        tuning: Tuning,
        chain: AnalysisChain,
        *,
        independent: bool = False,
        quota_closed: bool = True,
    ) -> None:
        if work.analysis_request is None:
            raise ValueError("work of analysis has no columns of its own")
        analysis_request = self.analysis_request = work.analysis_request
        self.quota_closed, self._before_reading, self._reading = quota_closed, snapshot, chain.steps.snapshot_reading
        self.own_tuning = tuning.only(OWN_KEYS)
        steps = chain.steps
        self._new = steps.basic_weight.is_new(self.own_tuning.flag(NEW_WEIGHT))
        # the snapshot is read before anything is derived from it
        snapshot = steps.snapshot_reading.read(snapshot)
        self._named: AnalysisCandidates = analysis_candidates(work.chunks, analysis_request, snapshot, steps.wishes)
        self._at: AnalysisQueues = analysis_queues(snapshot, steps.locality.options.vp_scope)
        self._used = steps.candidate_number.used_queues(work.chunks.jeditaskid, snapshot)
        limits = InputLimits(self.own_tuning.number(MISSING_FILES), self.own_tuning.number(COMPLETENESS), np.inf)
        self._input: AnalysisData = gather_analysis_data(
            work,
            analysis_request,
            self._named.at_queues,
            snapshot,
            limits,
            (steps.locality, self._named.one_preassigned),
        )
        self._suppressed = suppresses_check(work.chunks, snapshot.now_s, self.own_tuning)
        self._checked = steps.passes.checked(self._input.real, self._suppressed, self._input.remote_source)
        self._requesters = requesters(work.chunks, analysis_request.task_class, steps.throttles)
        self._users = ActiveUsers(snapshot, work.chunks, steps.user_figures)
        super().__init__(
            snapshot,
            work,
            tuning,
            _in_use(chain, self._new),
            independent=independent,
            own=self.own_tuning,
            new_weight=self._new,
        )

    def _begin(self) -> None:
        super()._begin()
        self._with_input: Ints = np.zeros(len(self.work.chunks), dtype=np.int64)

    def beside(self, snapshot: Snapshot, work: Work, tuning: Tuning, chain: QueueChain) -> AnalysisCycle | None:
        """A cycle with other rules or values over the same work, as in production; throttles are evaluated again."""
        if type(self) is not AnalysisCycle or not isinstance(chain, AnalysisChain):
            return None
        if self._before_reading is not snapshot or self.work is not work:
            return None
        own = tuning.only(OWN_KEYS)
        if chain.steps.basic_weight.is_new(own.flag(NEW_WEIGHT)) != self._new:
            return None
        other = copy.copy(self)
        other.tuning, other.own_tuning, other._steps = tuning, own, tuning.only(JOB_STEP_KEYS)
        other.chain, other._reading = _in_use(chain, self._new), chain.steps.snapshot_reading
        if not self.alike(other).facts:
            return None
        for name in ("legend", "_throttles"):
            other.__dict__.pop(name, None)
        other._begin()
        return other

    def alike(self, other: JobCycle) -> AlikeRules:
        """Parts shared with another cycle, as in production, compared by the keys of analysis as well."""
        if not isinstance(other, AnalysisCycle) or self._new != other._new:
            return AlikeRules()
        if not same_part(self._reading, other._reading) or not FACT_KEYS.isdisjoint(
            self.tuning.differing_keys(other.tuning)
        ):
            return AlikeRules()
        return super().alike(other)

    @cached_property
    def _analysis_facts(self) -> FactsOfAnalysis:
        return FactsOfAnalysis(
            self.snapshot,
            self.work.chunks,
            self.analysis_request,
            self._at,
            self._named,
            self._input,
            self._requesters,
            self._users,
            self.own_tuning.number,
        )

    def _cycle_facts(self, chunks: WorkTable) -> CycleFacts:
        count = len(chunks)
        no_chunks = np.zeros(count, dtype=np.bool_)
        return CycleFacts(
            initial=self._named.initial.every,
            one_preassigned=no_chunks,
            listed=no_chunks,
            refused_names=[()] * count,
            # analysis is counted by share, whatever its work queue
            accounting_key=accounting_keys_of(chunks, frozenset()),
            nucleus=np.full(count, -1, dtype=np.int64),
        )

    def _gathered(self) -> DataFacts:
        """Production's facts about input, for rules that read them; rules of analysis read those of datasets."""
        return DataFactsLater(self._input.remote_source, self._gathering())

    def _limits_of(self, chunks: WorkTable) -> tuple[Floats, Floats, Bools]:
        queue_limit, min_weight, may_bootstrap = super()._limits_of(chunks)
        return queue_limit, min_weight, np.zeros_like(may_bootstrap)

    def evaluate_block(self, rows: slice, cache: BlockCache | None = None) -> Block:
        """Judge and weigh the chunks ``rows``, reusing results in ``cache`` and adding new ones to it.

        Moving values are updated in the block; where other cycles share it, in a copy for this cycle.
        """
        cache = BlockCache(filters=None) if cache is None else cache
        if cache.facts is None:
            counts = counts_by_status(self.snapshot, self._facts.accounting_key[rows])
            cache.facts = self._facts_of(rows, counts), counts
        facts, counts = cache.facts
        tasks, every = as_column(taken(self.work.chunks, rows)), np.arange(rows.start, rows.stop)
        pairs = AnalysisPairs(tasks, self._candidates, facts, UNDECLARED, every, self._every)
        if cache.evaluation is None or cache.last_pass is None:
            cache.evaluation, cache.last_pass = self._in_passes(rows, pairs, cache)
        evaluation, facts = cache.evaluation, cache.last_pass.facts
        self._with_input[rows] = cache.last_pass.candidate_counts
        self.faults.extend(evaluation.faults)
        pairs = dataclasses.replace(pairs, facts=facts)
        factors = fixed_factors(self.chain.weights, pairs, self._views, self._unusable, self.faults, cache.factors)
        return Block(rows, facts, evaluation, factors, True, counts, self._ranked)

    def _in_passes(self, rows: slice, pairs: AnalysisPairs, cache: BlockCache) -> tuple[Evaluation, LastPass]:
        """Evaluate all filters for the chunks ``rows`` in passes; stale parts of ``cache`` are dropped."""
        answers: dict[str, FilterAnswer] = {}
        passes = Passes(noted=answers)
        evaluation = evaluate(self.chain.filters, pairs, self._views, self._unusable, cache.filters, passes)
        wanted = self.analysis_request.sites_per_job[rows]
        looks_further = self._checked[rows] & self._input.remote_source[rows]
        passed = passing(self.chain, evaluation)
        if not self.chain.steps.passes.counts_problems:
            # a first pass that leaves only queues with problems of the user has found nothing
            fine = (passed & ~with_problems(self.chain, evaluation)).any(axis=1)
            passed &= (fine | ~self._suppressed[rows])[:, None]
        counted, again = passed.sum(axis=1), np.flatnonzero(too_few(passed, wanted) & looks_further)
        facts, earlier = pairs.facts, cache.last_pass
        if earlier is not None and np.array_equal(earlier.again, again):
            facts = earlier.facts
        elif len(again):
            local_pass = facts.local_pass.copy()
            local_pass[again] = False
            facts = self._analysis_facts.in_pass(facts, rows, local_pass)
        if self._new or earlier is None or facts is not earlier.facts:
            # weights depend on where the input must be, and on which candidates compete
            cache.factors = {}
        if len(again):
            judging = self._judging(dataclasses.replace(pairs, facts=facts), again, answers)
            evaluation = second_pass(self.chain, evaluation, again, wanted, judging, passed)
            first_empty = again[counted[again] == 0]
            counted[first_empty] = passing(self.chain, evaluation)[first_empty].sum(axis=1)
        evaluation = self.chain.steps.passes.only_enough(evaluation, passing(self.chain, evaluation), wanted)
        if self._new:
            weight = self._new_weight(rows, pairs.chunks, facts, self._competing(evaluation))
            facts = facts.but({"new_weight": weight})
        return evaluation, LastPass(again, facts, counted)

    def judged(self, block: Block) -> tuple[AnyArray | RowsByKind, ...]:
        """The columns as in production, and the largest number of candidates for each chunk."""
        return *super().judged(block), self.best_of(block.rows)[:, None]

    def best_of(self, rows: slice) -> Ints:
        """(T,): the most candidates of each chunk; a cloned job needs as many as it has copies."""
        return self.chain.steps.candidate_number.best(
            super().best_of(rows),
            self.analysis_request.sites_per_job[rows],
            self._input.distributed[rows] & self._checked[rows],
            self._with_input[rows],
            len(self.snapshot.queues),
        )

    def _loads(self, facts: JobFacts, rows: slice) -> Load:
        """The load of a block as in production; queues that the task already uses may be preferred."""
        base = super()._loads(facts, rows)
        return base if self._used is None else dataclasses.replace(base, preferred=self._used[rows])

    def load(self, block: Block, row: int, feasible: AnyArray) -> Load:
        """The load of a chunk as in production; queues that the task already uses may be preferred."""
        base = super().load(block, row, feasible)
        return base if self._used is None else dataclasses.replace(base, preferred=self._used[row, feasible])

    def taking_places(self, evaluation: Evaluation) -> Bools | None:
        """(T, Q): queues that lack files of the input, where files are checked after the choice of the best."""
        return self.chain.steps.candidate_number.taking(evaluation.reason, self.chain.filters)

    def _competing(self, evaluation: Evaluation) -> Bools:
        """(T, Q): the candidates among which the new basic weight shares jobs out."""
        if self.chain.steps.basic_weight.options.over == "left":
            return evaluation.feasible
        return passing(self.chain, evaluation)

    def _judging(self, pairs: AnalysisPairs, again: Ints, answers: dict[str, FilterAnswer]) -> Judging:
        """A judge of the chunks ``again`` of a block without the locality check; ``answers``: of the pass with it."""
        chunks, rows = rows_of(pairs.chunks, again), pairs.rows[again]
        passes = Passes(of_chunks(answers, again, len(pairs.rows)))

        def judging(filters: tuple[AnyFilter, ...], candidates: Bools | None) -> Evaluation:
            own = rows_of(pairs.facts, again)
            if candidates is not None:
                own.__dict__["initial"] = candidates
            part = AnalysisPairs(chunks, self._candidates, own, UNDECLARED, rows, self._every)
            return evaluate(filters, part, self._views, self._unusable, passes=passes)

        return judging

    def _facts_of(self, rows: slice, counts: RowsByKind) -> AnalysisFacts:
        low = self._steps.number("MAX_PRIO_TO_BOOTSTRAP")
        base = job_facts(self.work.chunks, rows, self._facts, counts, self._grid, self._data, self.chain.steps, low)
        return self._analysis_facts.of_block(rows, base, self._checked[rows, None])

    def _new_weight(self, rows: slice, tasks: WorkTable, facts: AnalysisFacts, feasible: Bools) -> Floats:
        figures = stabilize(load_of(facts), self.own_tuning.number)
        task_class, own_share, queue_class = self.classes_of(rows)
        classed = own_share[:, None]
        if self.chain.steps.basic_weight.by_room:
            return self._weight_by_room(rows, np.maximum(figures.max_q_len - facts.user_queued, 0.0), classed, feasible)
        return new_basic_weight(
            figures.max_q_len - facts.user_queued,
            self.analysis_request.jobs_estimate[rows, None],
            (task_class[:, None], queue_class[None, :], classed),
            feasible,
            tasks.merging,
        )

    def _weight_by_room(self, rows: slice, room: Floats, classed: Bools, competing: Bools) -> Floats:
        """(T, Q), 1 where a queue does not compete; pseudo-queues of one queue compete as one."""
        unified, request = self.snapshot.queues.unified, self.analysis_request
        result = np.ones(competing.shape)
        for inside in np.flatnonzero(competing.any(axis=1)).tolist():
            row, here = rows.start + inside, np.flatnonzero(competing[inside])
            _, first, back = np.unique(unified[here], return_index=True, return_inverse=True)
            own = np.nan_to_num(self._at.site_class[unified[here[first]]], nan=SITE_MID)
            seen = Competition(
                np.broadcast_to(room, competing.shape)[inside, here[first]],
                own.astype(np.int64),
                float(request.jobs_estimate[row]),
                float(request.task_class[row]),
                bool(classed[inside, 0]),
                bool(self.work.chunks.merging[row]),
            )
            result[inside, here] = weight_by_room(seen)[back]
        return result

    @cached_property
    def _throttles(self) -> list[Throttle | None]:
        """(T,): the throttle of each chunk; equal requesters are evaluated once."""
        grid, usable, steps = self.snapshot.analysis, "quota" not in self._unusable, self.chain.steps
        known = {
            requester: throttle_of(requester, grid, self.own_tuning, usable, self.quota_closed, steps.throttles)
            for requester in dict.fromkeys(self._requesters)
        }
        return [known[requester] for requester in self._requesters]

    def throttle(self, row: int) -> Throttle | None:
        """Why the chunk gets no jobs now, whatever the queues are; None if it may go on."""
        return self._throttles[row]

    def blocked(self, row: int) -> str:
        """Why the chunk cannot go: its owner is throttled, its input is nowhere, or there is a veto."""
        throttle = self._throttles[row]
        if throttle is not None or self._input.lost[row]:
            return NO_COMPLETE_REPLICA if throttle is None else THROTTLED + throttle.condition
        # most vetoes concern checks that are not made for the one queue that a task names
        veto = self._vetoes[row]
        return veto if not self._named.one_preassigned[row] or veto in OF_ANY_QUEUE else ""

    def outcome(self, row: int, reason: str) -> Outcome:
        """``throttled`` for a throttled chunk, else as in production."""
        return "throttled" if self._throttles[row] is not None else super().outcome(row, reason)

    def remarks(self, row: int, plan: ChunkPlan | None = None) -> tuple[str, ...]:
        """The note of the throttle, if there is one."""
        return () if (throttle := self._throttles[row]) is None else (throttle.note,)

    def figures_of(self, result: ChunkResult) -> tuple[Ints, Floats] | None:
        """The figures of the stabilizer at the candidates and where it rejected; none of a chunk that is throttled."""
        if self._throttles[result.row] is not None:
            return None
        block, stabilizer = result.block, stabilizer_at(self.chain.filters)
        inside = result.row - block.rows.start
        reason = block.evaluation.reason[inside]
        rejected = result.feasible[:0] if stabilizer is None else np.flatnonzero(reason == stabilizer)
        shown = np.concatenate([result.chosen, rejected])
        load = load_at(cast(AnalysisFacts, block.facts), inside, shown, self.placed_at(result.row, shown))
        return shown, figures_at(load, self.own_tuning.number)

    @property
    def weighs_by_table(self) -> bool:
        """Whether the compiled loop knows all steps."""
        weight, number = self.chain.steps.basic_weight, self.chain.steps.candidate_number.options
        known = self._used is None and number.without_files == "make_room"
        return known and not (self._new and (weight.by_room or weight.options.over != "left"))

    def classes_of(self, rows: slice) -> tuple[Floats, Bools, Floats]:
        """(T,) the classes of tasks and whether these count in their shares, and (Q,) the classes of queues."""
        classed = np.isin(self.work.chunks.gshare[rows].astype(np.str_), CLASSED_SHARES)
        return self.analysis_request.task_class[rows], classed, self._at.site_class[self.snapshot.queues.unified]

    def reading(self) -> Bools:
        """(L,): relations of the scope in use."""
        return scope_in_use(self.snapshot, True)


def _in_use(chain: AnalysisChain, new_weight: bool) -> AnalysisChain:
    """The chain as a cycle runs it: with one of the two basic weights, and without reading the snapshot again."""
    steps = dataclasses.replace(chain.steps, snapshot_reading=SnapshotReading())
    return dataclasses.replace(chain, steps=steps, load_weights=() if new_weight else chain.load_weights)
