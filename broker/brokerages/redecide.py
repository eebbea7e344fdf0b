"""Deciding again: a whole stored cycle, or one decision of it, by the code that decided it, with any tuning and rules.

Pure. What is needed was stored with each decision: the work of its chunk or task, how the chunk is cut into jobs, and
what the cycle had placed before it. Unpacking is a step of its own, so that several values can be tried on one work::

    works = read_works([stored.record.work, ...])  # once, in the order in which they were decided
    redecide(snapshot, published.tuning, works, seed, rules)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import numpy as np

from broker.brokerages.estimated_jobs import estimated_jobs
from broker.brokerages.placing import place
from broker.brokerages.production_task import task_cycle
from broker.brokerages.task_placing import place_tasks
from broker.domain.arrays import Floats
from broker.domain.decisions import Decision
from broker.domain.task_work_codec import StoredTasks, joined_tasks, missing_task_columns
from broker.domain.work_codec import (
    Body,
    StoredWork,
    WorkCorruptError,
    joined_work,
    missing_columns,
    unpacked,
)
from broker.engine.analysis_chain import AnalysisChain
from broker.engine.analysis_cycle import NEW_WEIGHT, AnalysisCycle
from broker.engine.chain import Chain, NucleusChain, RuleList
from broker.engine.explain import decision_of
from broker.engine.job_cycle import JobCycle
from broker.gdpconfig import Tuning
from broker.snapshot.snapshot import Snapshot
from broker.work.assemble import CycleWork
from broker.work.cut_codec import cycle_work

TuningOf = Callable[[str | None], Tuning]
"""The tuning for the tasks of a VO, such as ``Published.tuning``."""


@dataclass(frozen=True)
class Rules:
    """The rules by which is decided.

    Attributes:
        chain: of the brokerage.
        jobs: of the production job brokerage, which the task brokerage asks what queues could run.
        quota_closed: analysis: nothing goes while the quotas cannot be read.
    """

    chain: RuleList
    jobs: Chain | None = None
    quota_closed: bool = True


@dataclass(frozen=True)
class Redecided:
    """What came of one stored chunk or task.

    Attributes:
        decision: the decision, of the same kind as the stored one.
        assigned: jobs by candidate, or the one task at its nucleus; None where it was not stored how the chunk is cut.
        before: what was counted as placed before it: jobs by unified queue, or HS06 s by nucleus.
    """

    decision: Decision
    assigned: Mapping[str, int] | None
    before: Mapping[str, float]


@dataclass(frozen=True)
class JobWorks:
    """Stored chunks of one VO, which a job brokerage decided one after the other."""

    vo: str | None
    stored: StoredWork

    @cached_property
    def work(self) -> CycleWork | None:
        """The chunks with what cuts them into jobs; None where it was not stored how each of them is cut.

        Raises:
            WorkCorruptError: it is damaged.
        """
        return None if None in self.stored.cuts else cycle_work(self.stored)


@dataclass(frozen=True)
class TaskWorks:
    """Stored tasks of one VO, which the task brokerage decided one after the other."""

    vo: str | None
    stored: StoredTasks


Works = JobWorks | TaskWorks


def read_works(data: Sequence[bytes], *, older: bool = False) -> tuple[Works, ...]:
    """Stored work of one cycle, in the order in which it was decided: a part for each VO, as each has its own tuning.

    Args:
        data: the stored work.
        older: it is of another engine version: columns that it does not have hold NULL, see :func:`columns_not_stored`.

    Raises:
        WorkCorruptError: one of them is damaged, or has not the columns of this version.
    """
    bodies = [unpacked(one) for one in data]
    return tuple(_read(vo, list(together), older) for vo, together in groupby(bodies, _vo_of))


def columns_not_stored(data: bytes) -> tuple[str, ...]:
    """The columns of this version that stored work does not have.

    Raises:
        WorkCorruptError: it is damaged.
    """
    body = unpacked(data)
    return missing_task_columns(body) if "tasks" in body else missing_columns(body)


def _vo_of(body: Body) -> str | None:
    try:
        vo = body["tasks" if "tasks" in body else "c"]["vo"][0]
    except (KeyError, IndexError, TypeError) as error:
        raise WorkCorruptError(f"the stored work of a decision cannot be read: no column vo: {error!r}") from error
    return None if vo is None else str(vo)


def _read(vo: str | None, bodies: list[Body], older: bool) -> Works:
    if "tasks" in bodies[0]:
        return TaskWorks(vo, joined_tasks(bodies, fill=older))
    return JobWorks(vo, joined_work(bodies, fill=older))


def redecide(
    snapshot: Snapshot,
    tuning_of: TuningOf,
    works: Sequence[Works],
    seed: int,
    rules: Rules,
    *,
    as_stored: bool = False,
) -> list[Redecided]:
    """Decide again, in the order of the stored work; one result for each.

    Args:
        snapshot: the grid.
        tuning_of: the tuning for each VO.
        works: of one cycle, see :func:`read_works`.
        seed: of the cycle.
        rules: of the brokerage that decided.
        as_stored: count before each chunk or task what was stored as placed before it, whatever is placed now. Without
            it, it is counted what this cycle places, as a real one does. Chunks stored without how they are cut give no
            jobs, and always go as stored.

    Raises:
        WorkCorruptError: the work is of another kind than the brokerage decides.
    """
    found: list[Redecided] = []
    for one in works:
        tuning = tuning_of(one.vo)
        if isinstance(one, TaskWorks):
            found += _tasks(snapshot, tuning, one.stored, seed, rules, as_stored)
        else:
            found += _jobs(snapshot, tuning, one, seed, rules, as_stored)
    return found


def _jobs(
    snapshot: Snapshot, tuning: Tuning, works: JobWorks, seed: int, rules: Rules, as_stored: bool
) -> Iterator[Redecided]:
    cycle = job_cycle(snapshot, tuning, works, rules)
    if works.work is None:
        yield from _without_jobs(cycle, works.stored)
        return
    names = cycle.snapshot.queues.name
    for chunk in place(cycle, works.work, seed, before=works.stored.placed if as_stored else None):
        yield Redecided(chunk.decision, chunk.assigned(names), chunk.before)


def _without_jobs(cycle: JobCycle, stored: StoredWork) -> Iterator[Redecided]:
    results = cycle.results()
    for row, placed in enumerate(stored.placed):
        cycle.restore(row, placed)
        yield Redecided(decision_of(cycle, next(results)), None, placed)


def job_cycle(snapshot: Snapshot, tuning: Tuning, works: JobWorks, rules: Rules) -> JobCycle:
    """A cycle over stored chunks of one VO.

    Raises:
        TypeError: the rules are none of a job brokerage.
    """
    work = works.stored.work
    if isinstance(rules.chain, AnalysisChain):
        if work.wishes is None:
            raise WorkCorruptError("the stored work has no columns of analysis")
        if works.work is not None and tuning.only((NEW_WEIGHT,)).flag(NEW_WEIGHT):
            wishes = dataclasses.replace(work.wishes, jobs_estimate=estimated_jobs(works.work))
            work = dataclasses.replace(work, wishes=wishes)
        return AnalysisCycle(snapshot, work, tuning, rules.chain, quota_closed=rules.quota_closed)
    if not isinstance(rules.chain, Chain):
        raise WorkCorruptError(f"the stored work is that of jobs, and {rules.chain.brokerage} is no brokerage of jobs")
    return JobCycle(snapshot, work, tuning, rules.chain)


def _tasks(
    snapshot: Snapshot, tuning: Tuning, stored: StoredTasks, seed: int, rules: Rules, as_stored: bool
) -> Iterator[Redecided]:
    if not isinstance(rules.chain, NucleusChain) or rules.jobs is None:
        raise WorkCorruptError(
            f"the stored work is that of tasks, and {rules.chain.brokerage} is no brokerage of tasks"
        )
    cycle = task_cycle(snapshot, stored.work, tuning, rules.chain, rules.jobs)
    names = [str(name) for name in snapshot.nuclei.name]
    cycle.count_from(_by_nucleus(stored.share_work, names))
    before = _by_nucleus(stored.placed, names) if as_stored else None
    for task in place_tasks(cycle, seed, before):
        decision = task.decision
        got = {decision.candidates[0].name: 1} if decision.outcome == "brokered" else {}
        placed = {names[at]: float(task.placed_hs06s[at]) for at in np.flatnonzero(task.placed_hs06s).tolist()}
        yield Redecided(decision, got, placed)


def _by_nucleus(told: Sequence[Mapping[str, float]], names: list[str]) -> Floats:
    """(T, N) figures by nucleus."""
    return np.array([[one.get(name, 0.0) for name in names] for one in told]).reshape(len(told), len(names))
