"""Jobs that an analysis cycle has placed so far, by queue, user and resource type, as later chunks see them. Pure.

The cycle itself counts what is placed for a share; these counts are what rules for users read besides. Jobs that were
placed can only make queues drop out of what the snapshot alone would leave.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from broker.domain.analysis import AnalysisFacts
from broker.domain.arrays import AnyArray, Bools, Floats, Ints, RowsByKind, Texts, as_column, numbered
from broker.domain.counted_load import CountedLoad, QueueJobs
from broker.domain.facts import JobFacts
from broker.domain.work import Work, WorkTable
from broker.engine.analysis.chain import moving_at
from broker.engine.analysis.job_counts import Placed
from broker.engine.compiled.columns import UserState
from broker.engine.job.chunk_result import Block, ChunkResult
from broker.engine.job.cycle import JobCycle
from broker.engine.shared.chain import QueueChain
from broker.engine.shared.evaluate import UNDECLARED, AnyFilter, RowsOf, evaluate, rows_of
from broker.engine.shared.filter_cache import Evaluation
from broker.gdpconfig import Tuning
from broker.rules.contract import AnalysisPairs, Filter, Rule
from broker.snapshot.snapshot import Snapshot

OF_USER, OF_TYPE, NEW_USERS = "of_user", "of_type", "new_users"
"""The parts of a :class:`~broker.domain.counted_load.CountedLoad` that are counted here."""
ALL_TYPES = 0
"""The number of the type that a task without one has."""
_NOWHERE: Ints = np.zeros(0, dtype=np.int64)


class UserLoad:
    """Jobs that were placed in a cycle, by unified queue.

    Args:
        snapshot: the grid.
        chunks: the chunks of the cycle.

    Attributes:
        state: the counts, and which of them apply to each chunk.
    """

    def __init__(self, snapshot: Snapshot, chunks: WorkTable) -> None:
        self._queues, self._names = snapshot.queues.unified, snapshot.unified.name.tolist()
        users, shares, labels = ([name or "" for name in column.tolist()] for column in _owner_columns(chunks))
        owners, owner = numbered(zip(users, shares, labels, strict=True))
        _, share = numbered(shares)
        people, person = numbered(zip(users, shares, strict=True))
        # None is 0: all types together
        own_types = chunks.resource_type.tolist()
        types, kind = numbered([None, *own_types, *snapshot.queues.resource_type.tolist()])
        queue_type: Ints = kind[1 + len(own_types) :]
        size = len(self._names)
        self.state = UserState(
            owner=owner,
            share=share,
            kind=kind[1 : 1 + len(own_types)],
            person=np.where(np.array([bool(user) for user in users], dtype=np.bool_), person, -1),
            merging=np.array(chunks.merging, dtype=np.bool_),
            queue_kind=queue_type,
            of_user=np.zeros((len(owners), size)),
            of_type=np.zeros((len(set(shares)), len(types), size)),
            new_users=np.zeros((len(set(shares)), size)),
            present=np.zeros((len(people), size), dtype=np.bool_),
        )
        for index, key in enumerate(people):
            self.state.present[index, snapshot.analysis.present.get(key, _NOWHERE)] = True

    def add(self, row: int, candidates: Ints, jobs: Ints) -> None:
        """Count jobs of the chunk that went to these candidates."""
        state, unified = self.state, self._queues[candidates]
        share = state.share[row]
        self._count_user(int(state.person[row]), int(share), unified)
        # merge jobs do not count for the user, as in PanDA
        if not state.merging[row]:
            np.add.at(state.of_user[state.owner[row]], unified, jobs)
        # a task without a type counts all of them
        np.add.at(state.of_type[share, ALL_TYPES], unified, jobs)
        own = state.queue_kind[candidates]
        kind = np.where(own == ALL_TYPES, state.kind[row], own)
        typed = kind != ALL_TYPES
        np.add.at(state.of_type[share], (kind[typed], unified[typed]), jobs[typed])

    def _count_user(self, person: int, share: int, unified: Ints) -> None:
        """Count a user who had no jobs at these queues before."""
        if person < 0:
            return
        present = self.state.present[person]
        fresh = unified[~present[unified]]
        if len(fresh):
            # pseudo-queues of one queue are one place
            self.state.new_users[share, np.unique(fresh)] += 1
            present[fresh] = True

    def of_row(self, row: int) -> dict[str, Floats]:
        """(U,) each: jobs of the chunk's user, of its type, and users that are new in its share."""
        state, share = self.state, self.state.share[row]
        return {
            OF_USER: state.of_user[state.owner[row]],
            OF_TYPE: state.of_type[share, state.kind[row]],
            NEW_USERS: state.new_users[share],
        }

    def counted(self, row: int, load: CountedLoad) -> CountedLoad:
        """The load of a chunk with the counts of :meth:`of_row`."""
        parts = {part: QueueJobs(self._names, counts.copy()) for part, counts in self.of_row(row).items()}
        return dataclasses.replace(load, of_user=parts[OF_USER], of_type=parts[OF_TYPE], new_users=parts[NEW_USERS])

    def set(self, row: int, load: CountedLoad) -> None:
        """Set the counts of a chunk to exactly this load."""
        for part, table in self.of_row(row).items():
            jobs = getattr(load, part)
            table[:] = [jobs.get(name, 0) for name in self._names] if jobs else 0.0


def _owner_columns(chunks: WorkTable) -> tuple[Texts, Texts, Texts]:
    return chunks.username, chunks.gshare, chunks.prodsourcelabel


def with_placed(facts: AnalysisFacts, inside: int, of_share: Floats, placed: Mapping[str, Floats]) -> Any:
    """Facts of the chunk at ``inside`` with the jobs (Q,) placed by the cycle; only read facts are computed."""
    rows = RowsOf(facts, np.array([inside]))
    rows.__dict__.update(
        defined=rows.defined + of_share,
        user_queued=rows.user_queued + placed[OF_USER],
        queued_of_type=rows.queued_of_type + placed[OF_TYPE],
        users=rows.users + placed[NEW_USERS],
    )
    return rows


#: The facts that move with the jobs that the cycle places.
MOVING_FACTS = ("defined", "user_queued", "queued_of_type", "users")


class LoadTrackingCycle(JobCycle):
    """The part of an analysis cycle that changes as it places jobs.

    Args:
        snapshot, work, tuning, chain, independent: as in production.
        own: the values of the keys that the steps of analysis read.
        new_weight: the new basic weight is in use.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        work: Work,
        tuning: Tuning,
        chain: QueueChain,
        *,
        independent: bool,
        own: Tuning,
        new_weight: bool,
    ) -> None:
        self.own_tuning, self._new = own, new_weight
        self._columns = as_column(work.chunks)
        super().__init__(snapshot, work, tuning, chain, independent=independent)

    def _begin(self) -> None:
        super()._begin()
        self._user_load = UserLoad(self.snapshot, self.work.chunks)

    def moves_alike(self, other: JobCycle) -> bool:
        """Whether placed jobs have the same effect in both cycles, including filters and weight for users."""
        if not isinstance(other, LoadTrackingCycle) or not super().moves_alike(other):
            return False
        shared, names = self.alike(other), [[rule.name for rule in one.chain.filters] for one in (self, other)]
        moving = {rule.name for one in (self, other) for rule in one.chain.filters if rule.moving}
        # competing candidates are identified by the numbers of filters
        return shared.facts and shared.rules >= moving and (names[0] == names[1] or not self._new)

    def of_its_own(self, block: Block) -> Block:
        """A copy of the block with masks and a new basic weight that other cycles do not share."""
        evaluation = block.evaluation
        own = Evaluation(evaluation.feasible.copy(), evaluation.reason.copy(), evaluation.faults)
        factors = tuple(
            factor.copy() if rule.moving and not isinstance(factor, RowsByKind) else factor
            for rule, factor in zip(self.chain.weights, block.factors, strict=True)
        )
        return dataclasses.replace(block, evaluation=own, factors=factors)

    @abstractmethod
    def _new_weight(self, rows: slice, tasks: WorkTable, facts: AnalysisFacts, feasible: Bools) -> Floats:
        """The new basic weight of the chunks ``rows``."""

    @abstractmethod
    def _competing(self, evaluation: Evaluation) -> Bools:
        """(T, Q): the candidates among which the new basic weight shares jobs out."""

    def add_load(self, row: int, candidates: AnyArray, jobs: AnyArray) -> None:
        """Count placed jobs as in production, and for the user and the resource type."""
        super().add_load(row, candidates, jobs)
        self._user_load.add(row, candidates, jobs)

    def load_before(self, row: int) -> CountedLoad:
        """The load before a chunk as in production, with the figures that rules for users read."""
        return self._user_load.counted(row, super().load_before(row))

    def set_load(self, row: int, load: CountedLoad) -> None:
        """Set the load as in production, with the figures that rules for users read."""
        super().set_load(row, load)
        self._user_load.set(row, load)

    def facts_at(self, result: ChunkResult, candidate: Ints) -> JobFacts:
        """Facts at candidates as in production, with the jobs that the cycle has placed."""
        facts = super().facts_at(result, candidate)
        now = self._facts_now(result.block, result.row)
        moved = {name: getattr(now, name)[:, candidate] for name in MOVING_FACTS}
        return dataclasses.replace(facts, **moved)

    @property
    def user_state(self) -> UserState:
        """Placed jobs by user and type, and which of them count for each chunk."""
        return self._user_load.state

    @property
    def new_weight_at(self) -> int:
        """The index of the new basic weight among the fixed ones, if it is in use, else -1."""
        weights = self.chain.weights
        usable = (at for at in moving_at(weights) if self.can_judge(weights[at]))
        return next(usable, -1) if self._new else -1

    def can_judge(self, rule: Rule) -> bool:
        """Whether a rule is not broken and its sources are usable."""
        tuning = self._views.tunings[rule.name]
        return rule.name not in self._views.broken and self._unusable.isdisjoint(rule.needs(tuning))

    def placed_at(self, row: int, candidate: Ints) -> Placed | None:
        """Jobs placed at candidates for a chunk's accounting key and user, and new users; None without any."""
        if not self._has_moved(row):
            return None
        at, placed = self.snapshot.queues.unified[candidate], self._user_load.of_row(row)
        return self._placed[self._accounting_codes[row]][at], placed[OF_USER][at], placed[NEW_USERS][at]

    def _facts_now(self, block: Block, row: int) -> Any:
        """The facts of one chunk, (1, Q), with the jobs that the cycle has placed."""
        facts, inside = cast(AnalysisFacts, block.facts), row - block.rows.start
        if not self._has_moved(row):
            return rows_of(facts, np.array([inside]))
        queues = self.snapshot.queues.unified
        placed = {part: counts[queues] for part, counts in self._user_load.of_row(row).items()}
        return with_placed(facts, inside, self._placed[self._accounting_codes[row]][queues], placed)

    def _has_moved(self, row: int) -> bool:
        return not self._independent and bool(self._moved[self._accounting_codes[row]])

    def result(self, block: Block, row: int) -> ChunkResult:
        """The result as in production, after the filters for users have judged again."""
        if self._has_moved(row) and not self.blocked(row):
            self._bring_up_to_date(block, row)
        return super().result(block, row)

    def _bring_up_to_date(self, block: Block, row: int) -> None:
        """Judge and weigh a chunk again with placed jobs, which can only make queues drop out."""
        facts = self._facts_now(block, row)
        if self._may_drop(row, facts, block.evaluation.feasible[row - block.rows.start]):
            self._judge_again(block, row, facts)
        if self._new:
            self._weigh_again(block, row, rows_of(self._columns, np.array([row])), facts)

    def _may_drop(self, row: int, facts: AnalysisFacts, feasible: Bools) -> bool:
        """Whether a remaining queue got jobs, and so many that a filter might reject it; mostly none did."""
        touched = feasible & (self._placed[self._accounting_codes[row]] > 0)[self.snapshot.queues.unified]
        moving = [rule for rule in self.chain.filters if rule.moving]
        return any((touched & self._may_reject(rule, facts)).any() for rule in moving)

    def _may_reject(self, rule: AnyFilter, facts: AnalysisFacts) -> Bools:
        """(Q,): the candidates that a filter might reject; all where its class does not say."""
        answer = None
        if isinstance(rule, Filter) and "may_reject" in vars(type(rule)):
            answer = rule.may_reject(facts, self._views.tunings[rule.name])
        return np.ones(1, dtype=np.bool_) if answer is None else np.asarray(answer[0])

    def _judge_again(self, block: Block, row: int, facts: AnalysisFacts) -> None:
        inside, evaluation, filters = row - block.rows.start, block.evaluation, self.chain.filters
        moving = moving_at(filters)
        alone = np.array([row])
        facts.__dict__["initial"] = evaluation.feasible[[inside]]
        rules = [filters[index] for index in moving]
        tasks = rows_of(self._columns, alone)
        pairs = AnalysisPairs(tasks, self._candidates, facts, UNDECLARED, alone, self._every)
        again = evaluate(rules, pairs, self._views, self._unusable)
        self.faults.extend(again.faults)
        # the indices are those of these few rules, followed by those of the same rules where they could not judge
        codes = np.array([*moving, *(index + len(filters) for index in moving)], dtype=evaluation.reason.dtype)
        dropped = np.flatnonzero(again.reason[0] >= 0)
        evaluation.reason[inside, dropped] = codes[again.reason[0, dropped]]
        evaluation.feasible[inside] = again.feasible[0]

    def _weigh_again(self, block: Block, row: int, tasks: WorkTable, facts: AnalysisFacts) -> None:
        inside = row - block.rows.start
        feasible = self._competing(block.evaluation)[[inside]]
        for rule, factor in zip(self.chain.weights, block.factors, strict=True):
            if not rule.moving or isinstance(factor, RowsByKind):
                continue
            if factor.shape == block.evaluation.feasible.shape:
                factor[inside] = self._new_weight(slice(row, row + 1), tasks, facts, feasible)[0]
