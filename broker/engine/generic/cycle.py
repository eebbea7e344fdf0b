"""The generic job brokerage over one snapshot: its cycle, the jobs that it counts, and its first candidates. Pure.

- :class:`GenericCycle`: queues that a task has used go first, and no queue bootstraps.
- :class:`JobsOfVo`: the jobs that count for a chunk are those of its VO in all shares, at the queue itself.
- :class:`CloudQueues`: the first candidates are the queue that the task names, queues by a pattern, that of its input,
  or its cloud.

Source: PanDA JEDI, GenJobBroker and SiteMapper.
"""

from __future__ import annotations

import dataclasses
import re
from functools import cached_property

import numpy as np

from broker.domain.arrays import AnyArray, Bools, Floats, IdentityCache, Ints, RowsByKind, Texts, distinct, numbered
from broker.domain.facts import JobFacts
from broker.domain.grid import COUNTED_STATUSES, JobCounts
from broker.domain.work import WorkTable
from broker.engine.job.chunk_result import Block
from broker.engine.job.count_facts import JobCountReading
from broker.engine.job.cycle import JobCycle
from broker.engine.job.facts import CycleFacts
from broker.engine.job.input_faults import INPUT_FAULTS
from broker.engine.job.steps import InitialCandidates, InitialList, RefusedNames
from broker.engine.shared.answer import UNKNOWN_NAME
from broker.rules.contract import Load, Reason
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.sources.task_queues import TASK_QUEUES

_RUNNING = COUNTED_STATUSES.index("running")
#: The faults of the input that make a look-up of files fail.
_STOPPED_BY = ("unknown_dataset", "dataset_not_asked")


class GenericCycle(JobCycle):
    """The generic brokerage over one snapshot; arguments are those of :class:`JobCycle`."""

    def _cycle_facts(self, chunks: WorkTable) -> CycleFacts:
        first = self.chain.steps.initial_list.candidates(chunks, self.snapshot)
        return CycleFacts(
            initial=first.initial,
            one_preassigned=first.one_preassigned,
            listed=first.listed,
            refused_names=first.refused,
            accounting_key=chunks.vo,
            nucleus=np.full(len(chunks), -1, dtype=np.int64),
        )

    def _limits_of(self, chunks: WorkTable) -> tuple[Floats, Floats, Bools]:
        queue_limit, min_weight, may_bootstrap = super()._limits_of(chunks)
        # a queue takes jobs however many wait there
        return np.full_like(queue_limit, np.inf), min_weight, np.zeros_like(may_bootstrap)

    @cached_property
    def _blocked(self) -> list[str]:
        faults = [INPUT_FAULTS[at] for at in self._data.fault.tolist()]
        return [
            veto or (fault if fault in _STOPPED_BY else "") for veto, fault in zip(self._vetoes, faults, strict=True)
        ]

    @cached_property
    def _used(self) -> Bools:
        """(T, Q): the task has output at the queue."""
        queues, used = self.snapshot.queues, self.snapshot.offered.get(TASK_QUEUES, {})
        own = queues.name == queues.unified_name
        tasks, kind = np.unique(self.work.chunks.jeditaskid, return_inverse=True)
        rows = [own & np.isin(queues.name.astype(np.str_), sorted(used.get(int(task), ()))) for task in tasks]
        return np.array(rows, dtype=np.bool_).reshape(len(tasks), len(queues))[kind.ravel()]

    @cached_property
    def _is_own(self) -> Bools:
        """(Q,): the candidate is the queue itself, not one of its pseudo-queues."""
        return np.asarray(self.snapshot.queues.name == self.snapshot.queues.unified_name, dtype=np.bool_)

    def best_of(self, rows: slice) -> Ints:
        """All candidates that the cuts leave."""
        return np.full(rows.stop - rows.start, max(1, len(self.snapshot.queues)), dtype=np.int64)

    def _loads(self, facts: JobFacts, rows: slice) -> Load:
        """As in production, with running jobs alone; queues that the task has used go first."""
        no_input = self.work.chunks.total_files[rows, None] == 0
        here = (facts.all_local & self._is_own[None, :]) | no_input
        return dataclasses.replace(
            super()._loads(facts, rows), running=facts.running, all_local=here, preferred=self._used[rows]
        )

    def load(self, block: Block, row: int, feasible: AnyArray) -> Load:
        """As in production, with running jobs alone; queues that the task has used go first."""
        base = super().load(block, row, feasible)
        running = block.counts.at(row - block.rows.start, feasible)[_RUNNING]
        here = (base.all_local & self._is_own[feasible]) | (self.work.chunks.total_files[row] == 0)
        return dataclasses.replace(base, running=running, all_local=here, preferred=self._used[row, feasible])


_counted = IdentityCache[dict[str | None, Floats]]()


class JobsOfVo(JobCountReading):
    """Jobs of the VO in all shares; a pseudo-queue has none, as jobs are counted at its unified queue."""

    title = "Which jobs are counted: those of the VO in all shares"

    def counts(self, snapshot: Snapshot, accounting_keys: Texts, labels: Texts) -> RowsByKind:
        """(status, T, Q): jobs of the VOs ``accounting_keys`` (T,) at the candidates, by COUNTED_STATUSES."""
        by_vo = _counted.of((snapshot.jobs,), lambda: _by_vo(snapshot.jobs))
        known, kind = distinct(accounting_keys)
        # an extra column without jobs for pseudo-queues
        table = np.zeros((len(COUNTED_STATUSES), max(1, len(known)), len(snapshot.unified) + 1))
        for at, vo in enumerate(known):
            if vo in by_vo:
                table[:, at, :-1] = by_vo[vo].T
        queues = snapshot.queues
        column = np.where(queues.name == queues.unified_name, queues.unified, len(snapshot.unified))
        return RowsByKind(table, kind, column)


def _by_vo(jobs: JobCounts) -> dict[str | None, Floats]:
    """(U, status) by VO."""
    statuses = {status: index for index, status in enumerate(COUNTED_STATUSES)}
    tables: dict[str | None, Floats] = {}
    for row in jobs.rows:
        if row["jobstatus"] in statuses:
            table = tables.setdefault(row["vo"], np.zeros_like(jobs.total))
            table[row["unified"], statuses[row["jobstatus"]]] += row["njobs"]
    return tables


BAD_PATTERN = "bad_pattern"
#: A pattern with more repetitions, or with a repeated group, could take hours to search for and is refused.
MOST_REPETITIONS = 4
_REPEATED_GROUP = re.compile(r"\)[*+?{]")
_REPETITION = re.compile(r"[*+?{]")


class CloudQueues(InitialList):
    """The candidates before any rule; a name that no queue has is a pattern over the queues of the cloud."""

    gives = (
        Reason(
            code=BAD_PATTERN,
            title="the site of the task names no queue, and is no pattern that can be searched for",
            no_candidate="has the name that the task gives",
            who="you",
            cure="Name a queue, or a regular expression without repeated groups and with at most four repetitions; "
            "`broker queues` lists the names.",
        ),
    )
    title = "Which queues are candidates before any rule: those that are named, or those of the cloud"

    def everybody(self, snapshot: Snapshot) -> Bools:
        """(Q,): the candidates of a chunk whose task names neither queue nor cloud."""
        return np.asarray(snapshot.unified.runs_production[snapshot.queues.unified])

    def candidates(self, work: WorkTable, snapshot: Snapshot) -> InitialCandidates:
        """The first candidates of the chunks, which have columns (T,)."""
        columns = (work.site, work.master_site, work.cloud)
        places, kind = numbered(zip(*(column.tolist() for column in columns), strict=True))
        results = [_of_place(snapshot, self.everybody(snapshot), *place) for place in places]
        masks = np.array([mask for mask, _ in results], dtype=np.bool_).reshape(len(results), len(snapshot.queues))
        named = np.array([bool(site or master) for site, master, _ in places], dtype=np.bool_)[kind]
        single = masks.sum(axis=1)[kind] <= 1
        refused = [results[at][1] for at in kind.tolist()]
        return InitialCandidates(masks[kind], named & single, named & ~single, refused)


def _of_place(
    snapshot: Snapshot, everybody: Bools, site: str | None, master_site: str | None, cloud: str | None
) -> tuple[Bools, RefusedNames]:
    """(Q,) the candidates of one site, input site and cloud; and the names in these that yield none."""
    queues, unified = snapshot.queues, snapshot.unified
    clouds = unified.cloud
    name = site or master_site
    if name:
        # production needs a cloud; without one a queue is not on the map
        mapped = np.array([bool(one) for one in clouds.tolist()], dtype=np.bool_) | (unified.type == "analysis")
        mask = np.asarray((queues.name == name) & mapped[queues.unified], dtype=np.bool_)
        if mask.any() or not site:
            return mask, () if mask.any() else ((name, UNKNOWN_NAME),)
    of_cloud = everybody & np.asarray(clouds == cloud)[queues.unified] if cloud in set(clouds.tolist()) else everybody
    return _matching(snapshot, of_cloud, site) if site else (np.asarray(of_cloud & (queues.name != "NA")), ())


def _matching(snapshot: Snapshot, of_cloud: Bools, pattern: str) -> tuple[Bools, RefusedNames]:
    """The queues of the cloud whose names contain the pattern, and the refused names."""
    costly = _REPEATED_GROUP.search(pattern) or len(_REPETITION.findall(pattern)) > MOST_REPETITIONS
    try:
        search = re.compile(pattern).search
    except re.error:
        costly = True
    if costly:
        return np.zeros_like(of_cloud), ((pattern, BAD_PATTERN),)
    mask = np.array([search(name) is not None for name in snapshot.queues.name.tolist()], dtype=np.bool_) & of_cloud
    return mask, () if mask.any() else ((pattern, UNKNOWN_NAME),)
