"""Facts about pairs of chunks and candidates, on which the rules of a job brokerage decide.

Facts are gathered from the snapshot once per block of chunks, so that a rule is only its comparison. Shapes: (T, Q) for
chunk against candidate, (T, 1) for the chunk alone, (1, Q) for the candidate alone; an axis along which nothing differs
may have length 1. NaN means "unknown". A fact of pairs is computed when the first rule reads it, so that facts that no
rule of a chain reads cost nothing.

:func:`not_preassigned` and :func:`not_single` say which chunks were not given their queues beforehand: some rules do
not question such a choice.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from broker.domain.arrays import AnyArray, Bools, Floats, Ints, RowsByKind, Texts, rows_of_all
from broker.domain.queues import SoftwareOffers

#: A deferred fact: a call that returns an array, rows by kind, or a call that returns these.
Later = Callable[[], AnyArray | RowsByKind] | RowsByKind
FactsT = TypeVar("FactsT", bound="JobFacts")
_LATER = "_later"


@dataclass(frozen=True)
class ChunkFacts:
    """The kind of each chunk, and the Site, CE and queue that its jobs require."""

    initial: Bools  # (T, Q) candidates before any rule
    one_preassigned: Bools  # (T, 1) exactly one pre-assigned queue
    listed: Bools  # (T, 1) several pre-assigned queues, or a merge near its unmerged files
    site_admitted: Bools  # (T, Q) the queue has a place at a site that is requested and not banned
    pool_admitted: Bools  # (T, Q) such a place is eligible for the chunk's SubmitPool
    urgent: Bools  # (T, 1) processingType urgent, or priority of 1000 and more
    event_service: Bools  # (T, 1) event service without job cloning
    es_high: Bools  # (T, 1) event service of high priority, or scouts
    walltime_undefined: Bools  # (T, 1) nothing to estimate a walltime from
    accounting_key: Texts  # (T, 1) how its jobs are counted: share, or #id of a Resource work queue


@dataclass(frozen=True)
class NucleusFacts:
    """The nucleus of the task, and the link to it from the storage of the queue."""

    has_nucleus: Bools  # (T, 1)
    nucleus_bare: Ints  # (T, 1)
    nucleus_wan: Bools  # (T, 1) its default output endpoint receives and sends over WAN
    nucleus_receives: Bools  # (T, 1) its default output endpoint receives over WAN
    nucleus_is_satellite: Bools  # (T, 1) it is a satellite that serves as nucleus
    nucleus_queued: Floats  # (T, 1) files queued to it from everywhere
    at_nucleus: Bools  # (T, Q)
    shares_storage: Bools  # (T, Q) the queue writes where queues of the nucleus read
    storage_at_nucleus: Bools  # (T, Q) default output endpoint is of the nucleus's site
    storage_known: Bools  # (1, Q)
    is_ucore: Bools  # (1, Q) capability ucore
    closeness: Floats  # (T, Q)
    link_queued: Floats  # (T, Q) files
    throughput_mb_per_s: Floats  # (T, Q) MB/s: last hour, else day, else week


@dataclass(frozen=True)
class JobCountFacts:
    """Jobs at the unified queue: those of the chunk's share (or Resource work queue), and those of all shares."""

    defined: Floats  # (T, Q)
    assigned: Floats
    activated: Floats
    starting: Floats
    running: Floats
    running_equivalent: Floats  # (T, Q) the largest reading of "running"
    all_running: Floats  # (1, Q)
    all_activated: Floats  # (1, Q)
    all_starting: Floats  # (1, Q)
    transferring: Floats  # (1, Q) without those that go to a nucleus that cannot be written to
    running_cores: Floats  # (T, Q) for the task's VO and label
    starting_cores: Floats  # (T, Q) the same


@dataclass(frozen=True)
class QueueStateFacts:
    """State of each unified queue other than its jobs."""

    preferred_cpu_percent: Floats  # (T, Q) of the queue's CPUs that are of the level the task prefers; 0 without one
    n_pilots: Floats  # (1, Q)
    laststart_s: Floats  # (1, Q)
    average_diskio_kbps: Floats  # (1, Q)
    has_slots: Bools  # (T, Q) the resource published a number of slots for this share and resource type


@dataclass(frozen=True)
class StorageFacts:
    """Storages of the queue (DATADISK endpoints only)."""

    space_free_gb: Floats  # (1, Q) of the default output endpoint; NaN when there is no such endpoint
    space_usable_gb: Floats  # (1, Q) the same, with expired space and without what cannot be used
    can_read: Bools  # (1, Q) some input endpoint is readable over LAN
    can_write: Bools  # (1, Q) some output endpoint is writable over LAN
    can_receive: Bools  # (T, Q) some input endpoint receives over WAN, or the data is there
    can_send: Bools  # (T, Q) some output endpoint sends over WAN, or the queue is at the nucleus
    remote_source: Bools  # (T, 1) the input can be read over WAN somewhere


@dataclass(frozen=True)
class InputFacts:
    """Input data of the chunk (pseudo datasets do not count)."""

    total_bytes: Floats  # (T, 1)
    total_files: Floats  # (T, 1)
    available_bytes: Floats  # (T, Q) on disk
    available_files: Floats  # (T, Q)
    available_tape_bytes: Floats  # (T, Q) on disk or tape
    available_tape_files: Floats  # (T, Q)
    all_local: Bools  # (T, Q) there is no input, or all of it is on disk at the queue


@dataclass(frozen=True)
class JobFacts(ChunkFacts, NucleusFacts, JobCountFacts, QueueStateFacts, StorageFacts, InputFacts):
    """Facts of a block of T chunks and Q candidates: those of all groups, so that a rule names a fact and no group."""

    now_s: float
    software: SoftwareOffers  # of the unified queues, to which ``candidates.unified`` points

    @classmethod
    def gathered(cls: type[FactsT], known: Mapping[str, Any], later: Mapping[str, Later]) -> FactsT:
        """Create facts, some of which are computed on first access.

        Args:
            known: values by name.
            later: how to compute each of the others, by name.

        Raises:
            TypeError: a fact is in neither mapping.
        """
        missing = {field.name for field in dataclasses.fields(cls)} - known.keys() - later.keys()
        if missing:
            raise TypeError(f"{cls.__name__} without {', '.join(sorted(missing))}")
        facts = object.__new__(cls)
        vars(facts).update(known)
        vars(facts)[_LATER] = {name: make for name, make in later.items() if name not in known}
        return facts

    if not TYPE_CHECKING:  # so that the type checker rejects a name that is no fact

        def __getattr__(self, name: str) -> Any:
            """Compute a fact on first access."""
            make = vars(self).get(_LATER, {}).get(name)
            if make is None:
                raise AttributeError(f"{type(self).__name__} has no fact {name}")
            value = vars(self)[name] = value_of(self._of_kinds(name, make))
            return value

    def also(self, kind: type[FactsT], known: Mapping[str, Any], later: Mapping[str, Later]) -> FactsT:
        """Facts of another class: the present ones, without computing any, overridden by the given ones.

        Args:
            kind: class of the new facts.
            known: values by name.
            later: how to compute each of the others, by name.
        """
        own = dict(vars(self))
        own_later = {name: make for name, make in own.pop(_LATER, {}).items() if name not in known}
        own = {name: value for name, value in own.items() if name not in later}
        return kind.gathered(own | dict(known), own_later | dict(later))

    def but(self: FactsT, known: Mapping[str, Any], later: Mapping[str, Later] | None = None) -> FactsT:
        """Return the facts with some of them replaced."""
        return self.also(type(self), known, later or {})

    def at(self, name: str, chunk: int | AnyArray, candidate: AnyArray) -> AnyArray:
        """(N,): one fact at pairs of chunks and candidates.

        Args:
            name: name of the fact.
            chunk: positions in the block, or one position for all.
            candidate: positions in the table of queues.
        """
        kinds = self.by_kind(name)
        alike = kinds.column is None and kinds.table.shape[-1] == 1
        return kinds.at(chunk, np.zeros_like(candidate) if alike else candidate)

    def at_pairs(self, name: str, chunk: Ints, candidate: Ints) -> Any:
        """One fact at N pairs, shape (N, 1); a value that is no array is returned unchanged.

        Args:
            name: name of the fact.
            chunk: (N,) positions in the block.
            candidate: (N,) positions in the table of queues.
        """
        if name in vars(self):
            return cell_at(vars(self)[name], chunk, candidate)
        return self.by_kind(name).at_pairs(chunk, candidate)[:, None]

    @property
    def read(self) -> frozenset[str]:
        """Names of the facts computed so far."""
        return frozenset(vars(self)) - {_LATER}

    def _of_kinds(self, name: str, make: Later) -> Any:
        """Resolve a deferred fact to rows by kind, which are kept, or to a call that returns the value."""
        if isinstance(make, RowsByKind):
            return make
        value = make()
        if isinstance(value, RowsByKind):
            vars(self)[_LATER][name] = value
            return value
        return lambda: value

    def by_kind(self, name: str) -> RowsByKind:
        """One fact of pairs by kind, which stores known equal rows or columns once."""
        make = vars(self).get(_LATER, {}).get(name)
        if make is not None and name not in vars(self):
            make = self._of_kinds(name, make)
            if not isinstance(make, RowsByKind):
                vars(self)[name] = make()
        return make if isinstance(make, RowsByKind) else rows_of_all(getattr(self, name), len(self.initial))

    def rows(self, name: str, rows: AnyArray) -> Any:
        """One fact for some of the chunks; a value common to all chunks is returned unchanged.

        Args:
            name: name of the fact.
            rows: positions of the chunks.
        """
        make = None if name in vars(self) else vars(self).get(_LATER, {}).get(name)
        if make is not None:
            by_kind = self.by_kind(name)
            if name not in vars(self):
                return by_kind.of(rows).every
        value = getattr(self, name)
        return value[rows] if isinstance(value, np.ndarray) and value.shape[0] != 1 else value

    def block(self: FactsT, tasks: Ints, candidates: Ints) -> FactsT:
        """The facts of the chunks and candidates at these positions; axes of length 1 stay."""
        names = [field.name for field in dataclasses.fields(self)]
        return type(self).gathered({}, {name: partial(self._cells, name, tasks, candidates) for name in names})

    def _cells(self, name: str, tasks: Ints, candidates: Ints) -> Any:
        value = getattr(self, name)
        return block_of(value, tasks, candidates) if isinstance(value, np.ndarray) else value


def value_of(later: Later) -> Any:
    """Evaluate a deferred fact to an array of the declared shape."""
    value = later if isinstance(later, RowsByKind) else later()
    return value.every if isinstance(value, RowsByKind) else value


def cell_at(value: Any, chunk: Ints, candidate: Ints) -> Any:
    """(N, 1): values of a fact at N pairs; a value that is no array is returned unchanged."""
    if not isinstance(value, np.ndarray):
        return value
    return rows_of_all(value, len(value)).at_pairs(chunk, candidate)[:, None]


def block_of(value: AnyArray, tasks: Ints, candidates: Ints) -> AnyArray:
    """The cells of one fact at these positions; axes of length 1 stay."""
    rows = value if value.shape[0] == 1 else value[tasks]
    return rows if rows.shape[1] == 1 else rows[:, candidates]


def not_preassigned(facts: JobFacts) -> Bools:
    """(T, 1): neither a single queue nor a list of queues was given."""
    return np.asarray(~(facts.one_preassigned | facts.listed))


def not_single(facts: JobFacts) -> Bools:
    """(T, 1): not exactly one queue was given; a list is questioned."""
    return np.asarray(~facts.one_preassigned)
