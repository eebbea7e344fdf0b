"""One cycle of the analysis brokerage: throttle, a pass with and one without the locality check, weights.

Pure, as the cycle that it extends. Source: ATLAS Analysis Job Brokerage.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from broker.domain.analysis import AnalysisFacts
from broker.domain.arrays import Bools, Floats, Ints, as_column, taken
from broker.domain.decisions import Outcome
from broker.domain.queues import QueueTable
from broker.domain.stabilizer import KEYS as STABILIZER_KEYS
from broker.domain.stabilizer import figures_of_all, load_of, stabilize
from broker.domain.work import Work, WorkTable
from broker.engine.analysis_candidates import AnalysisCandidates, analysis_candidates
from broker.engine.analysis_chain import AnalysisChain
from broker.engine.analysis_data import (
    GB_OF_WEIGHT,
    NO_COMPLETE_REPLICA,
    AnalysisData,
    gather_analysis_data,
    scope_in_use,
)
from broker.engine.analysis_grid import AnalysisQueues, analysis_queues
from broker.engine.analysis_load import of_share, of_task, of_type, of_user
from broker.engine.analysis_moving import STABILIZER, MovingCycle
from broker.engine.analysis_throttle import KEYS as THROTTLE_KEYS
from broker.engine.analysis_throttle import Asker, Throttle, throttle_of
from broker.engine.analysis_weights import CLASSED_SHARES, new_basic_weight
from broker.engine.count_facts import counts_by_status, tags_of
from broker.engine.data_facts import InputLimits
from broker.engine.evaluate import Evaluation, evaluate, rows_of
from broker.engine.job_cycle import Block, ChunkResult
from broker.engine.job_facts import CycleFacts, job_facts
from broker.engine.rank import rank_block
from broker.gdpconfig import Tuning
from broker.snapshot.snapshot import Snapshot

#: Source: ATLAS Analysis Job Brokerage, input data locality.
PRIORITY_WITHOUT_CHECK = 2000.0
CUTOFF, TIMEOUT, NEW_WEIGHT = "IO_INTENSITY_CUTOFF_USER", "DATA_CHECK_TIMEOUT_USER", "NEW_BASIC_WEIGHT"
MISSING_FILES, COMPLETENESS = "MAX_MISSING_INPUT_FILES_USER", "MIN_INPUT_COMPLETENESS_USER"
STEP_KEYS = (CUTOFF, TIMEOUT, NEW_WEIGHT, MISSING_FILES, COMPLETENESS)
THROTTLED = "throttled_"


class AnalysisCycle(MovingCycle):
    """The analysis brokerage over one snapshot.

    Args:
        snapshot: the grid, made with the sources of analysis.
        work: the chunks, in the order in which they are brokered, with the columns of analysis.
        tuning: one version of the gdpconfig values, for the VO of the work.
        chain: the rules.
        independent: every chunk meets the grid as the snapshot shows it, whatever was placed before.
        quota_closed: nothing goes while the quotas cannot be read.
    """

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
        if work.wishes is None:
            raise ValueError("work of analysis has no columns of its own")
        wishes = self.wishes = work.wishes
        self._quota_closed = quota_closed
        self._own = tuning.only((*STEP_KEYS, *THROTTLE_KEYS, *STABILIZER_KEYS))
        self._new = self._own.flag(NEW_WEIGHT)
        # the two basic weights take each other's place
        own_chain = dataclasses.replace(chain, load_weights=()) if self._new else chain
        self._named: AnalysisCandidates = analysis_candidates(work.chunks, wishes, snapshot)
        self._at: AnalysisQueues = analysis_queues(snapshot)
        initial = np.zeros((len(work.chunks), len(snapshot.unified)), dtype=np.bool_)
        for candidate, queue in enumerate(snapshot.queues.unified.tolist()):
            initial[:, queue] |= self._named.initial[:, candidate]
        limits = InputLimits(self._own.number(MISSING_FILES), self._own.number(COMPLETENESS), np.inf)
        self._input: AnalysisData = gather_analysis_data(work, wishes, initial, snapshot, limits)
        self._checked = self._checks_locality(work.chunks, snapshot.now_s)
        self._throttles: dict[Asker, Throttle | None] = {}
        self._throttled_rows: dict[int, Throttle | None] = {}
        super().__init__(
            snapshot, work, tuning, own_chain, independent=independent, own=self._own, new_weight=self._new
        )

    def _checks_locality(self, chunks: WorkTable, now_s: float) -> Bools:
        """(T,): the input must be local at first. Without a source that is read over WAN it must, whatever the task."""
        cutoff, timeout_h = self._own.number(CUTOFF), self._own.number(TIMEOUT)
        quiet = (cutoff > 0) & (chunks.iointensity > 0) & (chunks.iointensity <= cutoff)
        late = (timeout_h > 0) & (now_s - chunks.frozentime_s > 3600.0 * timeout_h)
        suppressed = (chunks.taskpriority >= PRIORITY_WITHOUT_CHECK) | quiet | late
        return np.asarray(self._input.real & ~(suppressed & self._input.remote_source))

    def _cycle_facts(self, chunks: WorkTable) -> CycleFacts:
        count = len(chunks)
        nobody = np.zeros(count, dtype=np.bool_)
        return CycleFacts(
            initial=self._named.initial,
            single=nobody,
            listed=nobody,
            unknown_queues=[()] * count,
            # analysis is counted by share, whatever its work queue
            tag=tags_of(chunks, frozenset()),
            nucleus=np.full(count, -1, dtype=np.int64),
        )

    def _places_of(self, queues: QueueTable) -> Ints:
        # as PanDA, whose sort keeps the order in which the queues are listed
        return queues.listed

    def _limits_of(self, chunks: WorkTable) -> tuple[Floats, Floats, Bools]:
        queue_limit, min_weight, may_bootstrap = super()._limits_of(chunks)
        return queue_limit, min_weight, np.zeros_like(may_bootstrap)

    def judge(self, rows: slice) -> Block:
        """Judge and weigh the chunks ``rows``."""
        tasks = as_column(taken(self.work.chunks, rows))
        counts = counts_by_status(self.snapshot, self._facts.tag[rows])
        facts = self._facts_of(rows, counts)
        evaluation = evaluate(self.chain.filters, tasks, self._candidates, facts, self._tunings, self._unusable)
        again = self._again(rows, evaluation)
        if len(again):
            facts = dataclasses.replace(facts, **self._of_pass(rows, self._without(facts.local_pass, again)))
            evaluation = self._second_pass(tasks, facts, evaluation, again)
        self.faults.extend(evaluation.faults)
        if self._new:
            facts = dataclasses.replace(facts, new_weight=self._new_weight(rows, tasks, facts, evaluation.left))
        factors = [self._factor(rule, tasks, facts) for rule in self.chain.weights]
        weight = np.ones(facts.initial.shape)
        for factor in factors:
            weight *= factor
        ranking = rank_block(
            (weight,),
            evaluation.left,
            self._loads(facts, rows),
            self.chain.load_weights,
            self.chain.cuts,
            self.faults,
            self._places,
        )
        return Block(rows, facts, evaluation, tuple(factors), (weight,), counts[:4], ranking)

    def _again(self, rows: slice, evaluation: Evaluation) -> Ints:
        """Positions of the chunks of which all queues were skipped for persistent issues, and that may look further."""
        lasting = [self.chain.is_persistent(index) for index in range(2 * len(self.chain.filters))]
        # LEFT and NOT_A_CANDIDATE are negative: they index the two entries behind the rules
        passing = np.array([*(not one for one in lasting), False, True], dtype=np.bool_)[evaluation.reason]
        stuck = ~passing.any(axis=1)
        return np.flatnonzero(stuck & self._checked[rows] & self._input.remote_source[rows])

    @staticmethod
    def _without(flags: Bools, rows: Ints) -> Bools:
        result = flags.copy()
        result[rows] = False
        return result

    def _second_pass(self, tasks: WorkTable, facts: AnalysisFacts, first: Evaluation, again: Ints) -> Evaluation:
        second = evaluate(
            self.chain.filters,
            rows_of(tasks, again),
            self._candidates,
            rows_of(facts, again),
            self._tunings,
            self._unusable,
        )
        left, reason = first.left.copy(), first.reason.copy()
        left[again], reason[again] = second.left, second.reason
        return Evaluation(left, reason, (*first.faults, *second.faults))

    def _facts_of(self, rows: slice, counts: Floats) -> AnalysisFacts:
        snapshot, queues = self.snapshot, self.snapshot.queues.unified
        chunks, at = self.work.chunks, self._at
        base = job_facts(chunks, rows, self._facts, counts, self._grid, self._data)
        shared = {field.name: getattr(base, field.name) for field in dataclasses.fields(base)}
        size = rows.stop - rows.start
        shared.update(
            remote_source=self._input.remote_source[rows, None],
            # no cap of production holds while jobs are given out, and pilots are asked for everywhere
            express=np.ones((size, 1), dtype=np.bool_),
            all_local=np.zeros((1, 1), dtype=np.bool_).repeat(size, axis=0).repeat(len(queues), axis=1),
            has_slots=np.zeros_like(base.has_slots),
        )
        typed = of_type(snapshot, chunks, rows)[:, :, queues]
        user = of_user(snapshot, chunks, rows)[:, :, queues]
        share = of_share(snapshot, at, chunks, rows)[:, :, queues]
        earlier = of_task(snapshot, self.wishes.bad_jobs[rows])[:, :, queues]
        return AnalysisFacts(
            **shared,
            **self._of_pass(rows, self._checked[rows, None]),
            site_named=self._named.single[rows, None],
            named=self._named.named[rows],
            transuses=self.wishes.transuses[rows, None],
            gb_per_job=self.wishes.gb_per_job[rows, None],
            cloud_of_queue=at.cloud[None, queues],
            is_vp=at.is_vp[None, queues],
            has_output=at.has_output[None, queues],
            has_input_storage=at.has_input[None, queues],
            output_usable_gb=at.output_usable_gb[None, queues],
            input_usable_gb=at.input_usable_gb[None, queues],
            reads_lan=at.reads_lan[None, queues],
            writes_lan=at.writes_lan[None, queues],
            receives=at.receives[None, queues],
            sends=at.sends[None, queues],
            over_local_quota=self._over_quota(rows)[:, queues],
            queued_of_type=typed[:, 0],
            running_of_type=typed[:, 1],
            users=share[:, 0],
            users_running=share[:, 1],
            to_running_rate=share[:, 2],
            share_queued=share[:, 3, :1],
            share_running=share[:, 4, :1],
            user_queued=user[:, 0],
            user_running=user[:, 1],
            jobs_finished=earlier[:, 0],
            jobs_bad=earlier[:, 1],
            new_weight=np.ones((size, 1)),
        )

    def _of_pass(self, rows: slice, local_pass: Bools) -> dict[str, Any]:
        """The facts that differ between a pass with and one without the locality check."""
        data, queues = self._input, self.snapshot.queues.unified
        distance = np.where(data.big[rows, None], 1.0 + data.disk_gb[rows] / GB_OF_WEIGHT, 1.0)
        by_datasets = local_pass & ~data.union[rows, None]
        weight = np.where(by_datasets, data.datasets_weight[rows], distance)
        merging, avoids = self.work.chunks.merging[rows], self.wishes.avoid_vp[rows]
        elsewhere = data.distributed[rows] | (data.union[rows] & local_pass[:, 0])
        second = ~local_pass[:, 0] & data.real[rows]
        lacking = data.lacks_files[rows] | (data.lacks_parts[rows] & ~local_pass)
        return {
            "local_pass": local_pass,
            "lacks_files": lacking[:, queues],
            "has_input": data.has_input[rows][:, queues],
            "needs_wan": ~local_pass,
            "avoids_vp": (merging | avoids | elsewhere | second)[:, None],
            "locality_weight": np.where(data.real[rows, None], weight, 1.0)[:, queues],
        }

    def _over_quota(self, rows: slice) -> Bools:
        """(T, U): the owner has no quota left at the default output endpoint."""
        full = self.snapshot.analysis.full_endpoints
        owners = [self._asker(row).group or self._asker(row).user for row in range(rows.start, rows.stop)]
        result = np.zeros((len(owners), len(self.snapshot.unified)), dtype=np.bool_)
        names = np.append(self.snapshot.storages.name, "")[self._at.output_storage]
        for owner in full.keys() & set(owners):
            chunks = [index for index, one in enumerate(owners) if one == owner]
            result[chunks] = np.isin(names.astype(np.str_), sorted(full[owner]))
        return result

    def _new_weight(self, rows: slice, tasks: WorkTable, facts: AnalysisFacts, left: Bools) -> Floats:
        found = stabilize(load_of(facts), self._own.number)
        classed = np.isin(self.work.chunks.gshare[rows].astype(np.str_), CLASSED_SHARES)[:, None]
        queue_class = self._at.site_class[None, self.snapshot.queues.unified]
        return new_basic_weight(
            found.max_q_len - facts.user_queued,
            self.wishes.jobs_estimate[rows, None],
            (self.wishes.task_class[rows, None], queue_class, classed),
            left,
            tasks.merging,
        )

    def _asker(self, row: int) -> Asker:
        chunks, task_class = self.work.chunks, float(self.wishes.task_class[row])
        return Asker(
            user=chunks.username[row] or "",
            group=chunks.workinggroup[row] or None,
            share=chunks.gshare[row],
            merging=bool(chunks.merging[row]),
            task_class=None if np.isnan(task_class) else task_class,
        )

    def throttle(self, row: int) -> Throttle | None:
        """Why the chunk gets no jobs now, whatever the queues are; None if it may go on."""
        if row not in self._throttled_rows:
            asker = self._asker(row)
            if asker not in self._throttles:
                grid, usable = self.snapshot.analysis, "quota" not in self._unusable
                self._throttles[asker] = throttle_of(asker, grid, self._own, usable, self._quota_closed)
            self._throttled_rows[row] = self._throttles[asker]
        return self._throttled_rows[row]

    def blocked(self, row: int) -> str:
        """Why the chunk cannot go: its owner is throttled, or its input is nowhere."""
        throttle = self.throttle(row)
        if throttle is not None:
            return THROTTLED + throttle.condition
        return NO_COMPLETE_REPLICA if self._input.lost[row] else ""

    def outcome(self, result: ChunkResult) -> Outcome:
        """Throttled, or as in production."""
        return "throttled" if self.throttle(result.row) is not None else super().outcome(result)

    def remarks(self, result: ChunkResult) -> tuple[str, ...]:
        """The throttle, or the figures of the stabilizer at the candidates and where it rejected."""
        throttle = self.throttle(result.row)
        if throttle is not None:
            return (throttle.note,)
        names = [rule.name for rule in self.chain.filters]
        reason = result.block.evaluation.reason[result.row - result.block.rows.start]
        rejected = np.flatnonzero(reason == names.index(STABILIZER)) if STABILIZER in names else result.left[:0]
        shown = np.concatenate([result.chosen, rejected])
        load = load_of(self._facts_now(result.block, result.row))
        seen = figures_of_all(load, stabilize(load, self._own.number))
        return tuple(
            f"stabilizer:{self.snapshot.queues.name[at]} "
            + " ".join(f"{key}={values[0, at]:g}" for key, values in seen.items())
            for at in shown.tolist()
        )

    def reading(self) -> Bools:
        """(L,): relations of the scope in use."""
        return scope_in_use(self.snapshot, True)
