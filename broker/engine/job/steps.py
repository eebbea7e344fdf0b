"""The steps of a job brokerage that are not rules, each replaceable by a profile, and the limits of a chunk.

- :class:`InitialList`: the first candidates (T, Q): every queue, the queues that the task names, or those near unmerged
  files.
- :class:`Urgency`: which chunks are express.
- :class:`JobSteps`: all steps, in the order in which they run.
- :func:`chunk_limits`, :func:`job_groups`: the gdpconfig keys that a job brokerage reads apart from its rules.

Source: ATLAS Production Job Brokerage, preliminary candidates and urgent tasks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from broker.domain.arrays import Bools, Floats, IdentityCache, Ints, Texts
from broker.domain.queues import TIGHTENING_KEYS, QueueTable
from broker.domain.work import WorkTable
from broker.engine.job.count_facts import JobCountReading
from broker.engine.job.input_lookup import InputLookup
from broker.engine.job.learned_running import AS_RUNNING, PRIOR
from broker.engine.job.placement import Placement
from broker.engine.job.running import Running
from broker.engine.job.snapshot_reading import SnapshotReading, is_parent
from broker.engine.job.veto import Veto
from broker.engine.shared.answer import UNKNOWN_NAME
from broker.gdpconfig import Tuning
from broker.rules.contract import LOAD_FAMILIES, Options, Reason, Step
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.sources.queue_health import group_sizes

#: Names that a task or its dataset gives and that are no candidate, each with one of the codes below.
RefusedNames = tuple[tuple[str, str], ...]
#: Besides an unknown name: the queue is no production queue; the unified queue has no pseudo-queue.
NOT_PRODUCTION, NO_PSEUDO_QUEUE = "not_production", "no_pseudo_queue"
#: A merge stays near its unmerged files for this long. Source: ATLAS Production Job Brokerage, preliminary candidates.
MERGE_PREASSIGNMENT_S = 24 * 3600.0


@dataclass(frozen=True)
class InitialCandidates:
    """The first candidates of T chunks: ``initial`` (T, Q); ``one_preassigned``, ``listed`` (T,); and refused names."""

    initial: Bools
    one_preassigned: Bools
    listed: Bools
    refused: list[RefusedNames]


class InitialListOptions(Options):
    """Who is a candidate before any rule.

    Attributes:
        test_queues: queues with "test" in their name are candidates too.
        merge_frozen_hours: a merge keeps its place until the task has also been frozen for this long.
        preassigned_parents: a unified queue that a task names stands for itself, in addition to its pseudo-queues.
        premerge_parents: a merge goes to the queue of its unmerged files itself and to those that read its output
            endpoint, unified queues and pseudo-queues alike.
        any_named_queue: a queue that a task names is a candidate whether it is of production or not.
    """

    test_queues: bool = False
    merge_frozen_hours: float = 0.0
    preassigned_parents: bool = False
    premerge_parents: bool = False
    any_named_queue: bool = False


class InitialList(Step):
    """The candidates before any rule."""

    gives: ClassVar[tuple[Reason, ...]] = (
        Reason(
            code=NOT_PRODUCTION,
            title="the task names a queue that runs no production jobs, or has no cloud",
            violation="the queue runs no production jobs, or has no cloud",
            no_candidate="that the task names runs production jobs",
            who="you",
            cure="Name a queue that runs production jobs, or none; `broker queues` lists all queues.",
        ),
        Reason(
            code=NO_PSEUDO_QUEUE,
            title="the task names a unified queue that serves no resource type",
            no_candidate="that the task names serves a resource type",
            who="you",
            cure="Name another queue, or operators give the queue a resource type.",
        ),
    )

    name = "initial_list"
    title = "Which queues are candidates before any rule, and what a name in a task stands for"
    options: InitialListOptions = InitialListOptions()

    def everybody(self, snapshot: Snapshot) -> Bools:
        """(Q,): the candidates of a chunk whose task names no queue."""
        everyone = snapshot.unified.runs_production & (self.options.test_queues | ~snapshot.unified.is_test)
        return np.asarray(everyone[snapshot.queues.unified] & ~is_parent(snapshot.queues))

    def candidates(self, work: WorkTable, snapshot: Snapshot) -> InitialCandidates:
        """The first candidates of the chunks, which have columns (T,)."""
        initial = np.repeat(self.everybody(snapshot)[None, :], len(work), axis=0)
        one_preassigned, listed = np.zeros(len(work), dtype=np.bool_), np.zeros(len(work), dtype=np.bool_)
        refused: list[RefusedNames] = [()] * len(work)
        cache: dict[tuple[str, bool], tuple[Bools, int, RefusedNames]] = {}
        names, now_s = zip(work.site.tolist(), work.master_site.tolist(), strict=True), snapshot.now_s
        for row in (row for row, (site, master) in enumerate(names) if site or master):
            key = self._named_queues(work, row, now_s)
            if key is None:
                continue
            if key not in cache:
                cache[key] = self._named(snapshot, *key)
            initial[row], number, refused[row] = cache[key]
            one_preassigned[row] = not key[1] and number <= 1
            listed[row] = not one_preassigned[row]
        return InitialCandidates(initial, one_preassigned, listed, refused)

    def _named_queues(self, work: WorkTable, row: int, now_s: float) -> tuple[str, bool] | None:
        site, master_site = work.site[row], work.master_site[row]
        if site and not master_site:
            return site, False
        if master_site and not self._merge_timed_out(work, row, now_s):
            return master_site, True
        return None

    def _merge_timed_out(self, work: WorkTable, row: int, now_s: float) -> bool:
        created, modified = work.master_creationtime_s[row], work.master_modificationtime_s[row]
        frozen = work.frozentime_s[row]
        touched = modified == modified and created == created and modified != created
        failing = frozen == frozen and (
            self.options.merge_frozen_hours == 0 or now_s - frozen > self.options.merge_frozen_hours * 3600.0
        )
        return bool(touched and failing and now_s - modified > MERGE_PREASSIGNMENT_S)

    def _named(self, snapshot: Snapshot, names: str, near_storage: bool) -> tuple[Bools, int, RefusedNames]:
        """The candidates of one list of names, their number, and the names that yield none."""
        queues = snapshot.queues
        wanted = [name.strip() for name in names.split(",") if name.strip()]
        if near_storage and self.options.premerge_parents:
            return self._sharing(snapshot, wanted)
        able, named = snapshot.unified.runs_production[queues.unified], names_of(snapshot)
        mask: Bools = np.zeros(len(queues), dtype=np.bool_)
        for name in wanted:
            mask[named.called(name)] = True
        if not self.options.preassigned_parents:
            mask &= ~is_parent(queues)
        if near_storage:
            for name in wanted:
                if name in named.unified:
                    mask |= near(snapshot, named.unified[name])[queues.unified] & ~is_parent(queues)
        if self.options.any_named_queue and not near_storage:
            # the pseudo-queues of a unified queue are taken from the map of production
            able = able | (np.isin(queues.name, wanted) & ~is_parent(queues))
        mask &= able
        return mask, int(mask.sum()), _refused(snapshot, able, wanted)

    def _sharing(self, snapshot: Snapshot, wanted: list[str]) -> tuple[Bools, int, RefusedNames]:
        queues, unified = snapshot.queues, snapshot.unified
        mask = np.isin(queues.name, wanted)
        for name in wanted:
            positions = queues.unified[queues.name == name]
            for queue in positions.tolist()[:1]:
                runs = (unified.runs_production | ~unified.runs_production[queue]) & (
                    unified.runs_analysis | ~unified.runs_analysis[queue]
                )
                mask |= (near(snapshot, queue) & runs)[queues.unified]
        return mask, int(mask.sum()), _refused(snapshot, np.ones(len(queues), dtype=np.bool_), wanted)


@dataclass(frozen=True)
class QueueNames:
    """Queues by name: candidates by their own name and their unified queue's; and unified queues."""

    candidates: dict[str, list[int]]
    own: frozenset[str]  # names of candidates
    unified: dict[str, int]

    def called(self, name: str) -> list[int]:
        """Positions of the candidates of that name, or of that unified queue."""
        return self.candidates.get(name, [])


_names = IdentityCache[QueueNames]()


def names_of(snapshot: Snapshot) -> QueueNames:
    """The :class:`QueueNames` of a snapshot."""
    queues, unified = snapshot.queues, snapshot.unified
    return _names.of((queues.name, queues.unified_name, unified.name), lambda: _names_of(queues, unified.name))


def _names_of(queues: QueueTable, unified: Texts) -> QueueNames:
    candidates: dict[str, list[int]] = {}
    for position, names in enumerate(zip(queues.name.tolist(), queues.unified_name.tolist(), strict=True)):
        for name in set(names):
            candidates.setdefault(name, []).append(position)
    return QueueNames(candidates, frozenset(queues.name.tolist()), {name: at for at, name in enumerate(unified)})


def _refused(snapshot: Snapshot, able: Bools, wanted: list[str]) -> RefusedNames:
    names, runs_production, usable = names_of(snapshot), snapshot.unified.runs_production, able.tolist()

    def why(name: str) -> str:
        if name in names.unified and runs_production[names.unified[name]]:
            return NO_PSEUDO_QUEUE
        return NOT_PRODUCTION if name in names.unified or name in names.own else UNKNOWN_NAME

    return tuple((name, why(name)) for name in wanted if not any(usable[at] for at in names.called(name)))


def near(snapshot: Snapshot, queue: int) -> Bools:
    """(U,): online queues that read the default output endpoint of a queue."""
    relations = snapshot.relations
    outputs = relations.default_write & relations.is_output & relations.of_default_scope
    output = relations.storage[outputs & (relations.unified == queue)]
    mask = np.zeros(len(snapshot.unified), dtype=np.bool_)
    readers = relations.is_input & relations.of_default_scope & np.isin(relations.storage, output)
    mask[relations.unified[readers]] = True
    return np.asarray(mask & (snapshot.unified.status == "online"))


URGENT = "urgent"
URGENT_PRIORITY = 1000.0


class UrgencyOptions(Options):
    """Which priorities are express: ``from_1000``, or only those ``above_1000``."""

    priority: Literal["from_1000", "above_1000"] = "from_1000"


class Urgency(Step):
    """Express chunks: processingType ``urgent``, or a high priority."""

    name = "urgency"
    title = "Which chunks are express"
    options: UrgencyOptions = UrgencyOptions()

    def urgent(self, processingtype: Texts, priority: Floats) -> Bools:
        """Whether each chunk is express, in the shape of the arguments."""
        high = priority >= URGENT_PRIORITY if self.options.priority == "from_1000" else priority > URGENT_PRIORITY
        return np.asarray((processingtype == URGENT) | high, dtype=np.bool_)


@dataclass(frozen=True)
class JobSteps:
    """The steps in the order of execution; each field is named after its step."""

    snapshot_reading: SnapshotReading = field(default_factory=SnapshotReading)
    initial_list: InitialList = field(default_factory=InitialList)
    veto: Veto = field(default_factory=Veto)
    urgency: Urgency = field(default_factory=Urgency)
    job_count_reading: JobCountReading = field(default_factory=JobCountReading)
    running: Running = field(default_factory=Running)
    input_lookup: InputLookup = field(default_factory=InputLookup)
    placement: Placement = field(default_factory=Placement)


FAILING_QUEUES, TRIAL_JOBS = "LEARNED_FAILING_QUEUES", "LEARNED_TRIAL_JOBS"
#: The gdpconfig keys that the steps read, apart from those of rules.
STEP_KEYS = (
    "MAX_MISSING_INPUT_FILES",
    "MIN_INPUT_COMPLETENESS",
    "IO_INTENSITY_CUTOFF",
    "MAX_PRIO_TO_BOOTSTRAP",
    *LOAD_FAMILIES.values(),
    *TIGHTENING_KEYS,
    FAILING_QUEUES,
    TRIAL_JOBS,
    AS_RUNNING,
    PRIOR,
)
#: Those of them that limit what moves within a cycle and enter no fact.
LIMIT_KEYS = frozenset(LOAD_FAMILIES.values())


def job_groups(snapshot: Snapshot, chunks: WorkTable, tuning: Tuning) -> Ints:
    """(Q,) jobs given to each candidate at a time: 0 for the usual number, negative for one and no more."""
    return group_sizes(snapshot, chunks, probing=tuning.flag(FAILING_QUEUES), trial_jobs=int(tuning.number(TRIAL_JOBS)))


def chunk_limits(chunks: WorkTable, tuning: Tuning, urgency: Urgency) -> tuple[Floats, Floats, Bools]:
    """(T,) each: the columns of :data:`LOAD_FAMILIES`, and whether candidates without any jobs may start."""
    shares, labels = list(chunks.gshare), list(chunks.prodsourcelabel)
    urgent = urgency.urgent(chunks.processingtype, chunks.currentpriority)
    may_bootstrap = (chunks.currentpriority <= tuning.number("MAX_PRIO_TO_BOOTSTRAP")) & ~chunks.merging & ~urgent
    return (
        tuning.by_suffix(LOAD_FAMILIES["queue_limit"], shares),
        tuning.by_two_suffixes(LOAD_FAMILIES["min_weight"], labels, shares),
        np.asarray(may_bootstrap, dtype=np.bool_),
    )
