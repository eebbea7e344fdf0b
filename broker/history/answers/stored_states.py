"""The last decision of each brokerage about each task and chunk, for lists; and how it was some time ago."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property

import sqlalchemy as sa

from broker.codec.decision_counts import NO_CANDIDATES, main_reasons
from broker.codec.reason_at_queue import counts_of
from broker.domain.decisions import StoredDecision
from broker.domain.rejection_counts import RejectionCounts, rejection_counts
from broker.history.answers.list_models import ReasonLine
from broker.store.decisions.decision_rows import WITHOUT_WORK, by_id
from broker.store.decisions.reason_reads import codes_at
from broker.store.query_context import Asking
from broker.store.summaries import chunk_states as states
from broker.store.summaries.newest_states import StateSums, newest_states, state_sums
from broker.store.summaries.states_until import StateUntil, states_until

LOOKED_BACK = timedelta(hours=24)
#: Of so many chunks at most a list reads the decisions themselves; what it counts comes from the counts of the cycles.
MOST_READ = 200
_IS_PAST, _SUMS = "a later cycle has changed the states", "sums of the states of a day"


class Decided:
    """The decisions behind the states of a list: only those are read that are asked for, without their work."""

    def __init__(self, connection: sa.Connection, moments: Mapping[int, datetime]) -> None:
        """``moments``: when each decision was made, by its number."""
        self._connection, self._moments = connection, moments
        self._read: dict[int, StoredDecision | None] = {}

    def read(self, numbers: Iterable[int]) -> None:
        """Read these at once, so that :meth:`of` asks the database no more for each."""
        wanted = [one for one in numbers if one in self._moments and one not in self._read]
        if wanted:
            found = {one.id: one for one in by_id(self._connection, wanted, *self._span(wanted), WITHOUT_WORK)}
            self._read |= {one: found.get(one) for one in wanted}

    def of(self, number: int) -> StoredDecision | None:
        """The decision of this number; None if it was cleared away meanwhile."""
        self.read([number])
        return self._read.get(number)

    def codes_at(self, numbers: Iterable[int], queue: str) -> dict[int, str]:
        """The reason with which a queue or nucleus went from each of these decisions that did not choose it."""
        wanted = [one for one in numbers if one in self._moments]
        if not wanted:
            return {}
        return codes_at(self._connection, wanted, *self._span(wanted), queue)

    def _span(self, numbers: Sequence[int]) -> tuple[datetime, datetime]:
        moments = [self._moments[one] for one in numbers]
        return min(moments), max(moments)


@dataclass(frozen=True)
class ChunkState(states.DecidedState):
    """The last decision about a task or chunk, and since when it is like this.

    Attributes:
        waiting_since: first of the decisions, without a break, that did not broker it; None where it is brokered.
        times_seen: so many cycles in a row came to this outcome and reason.
        main_code: why it waits, see :func:`main_code`; None where it is brokered.
        decided: reads the decision.
    """

    times_seen: int
    assigned: Mapping[str, int]
    main_code: str | None
    decided: Decided = field(repr=False, compare=False)

    @cached_property
    def counts(self) -> RejectionCounts:
        """The candidates by reason; none where the decision was cleared away."""
        stored = self.decided.of(self.decision)
        return rejection_counts({}, (), ()) if stored is None else counts_of(stored.record.decision)

    @cached_property
    def chosen(self) -> tuple[str, ...]:
        """Names of the chosen candidates."""
        stored = self.decided.of(self.decision)
        return () if stored is None else tuple(one.name for one in stored.record.decision.candidates)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """The notes of the decision."""
        stored = self.decided.of(self.decision)
        return () if stored is None else tuple(stored.record.decision.notes)


def chunk_states(
    connection: sa.Connection,
    now: datetime,
    *,
    waiting_at: Collection[str] | None = None,
    tasks: Collection[int] | None = None,
) -> list[ChunkState]:
    """The states at ``now`` of all tasks and chunks that were brokered in the day before it.

    Args:
        connection: to read from.
        now: an aware instant.
        waiting_at: only of those that wait, at these brokerages.
        tasks: only of these tasks.
    """
    if states.decided_after(connection, now):
        every = _until(connection, states_until(connection, now - LOOKED_BACK, now))
        every = [one for one in every if tasks is None or one.jeditaskid in tasks]
        return [one for one in every if waiting_at is None or (one.brokerage in waiting_at and one.waiting_since)]
    found = states.list_states(
        connection,
        seen_since=now - LOOKED_BACK,
        brokerages=None if waiting_at is None else sorted(waiting_at),
        tasks=None if tasks is None else sorted(tasks),
        waiting=waiting_at is not None,
    )
    return _listed(connection, found)


def waiting_since(connection: sa.Connection, now: datetime) -> dict[int, datetime | None]:
    """The time since each task in :func:`chunk_states` waits, at the brokerage that decided last."""
    if not states.decided_after(connection, now):
        return states.waiting_since_by_task(connection, now - LOOKED_BACK)
    by_task: defaultdict[int, list[ChunkState]] = defaultdict(list)
    for state in chunk_states(connection, now):
        by_task[state.jeditaskid].append(state)
    return {task: first_wait(of_last_brokerage(found)) for task, found in by_task.items()}


def of_last_brokerage(found: Sequence[ChunkState]) -> Sequence[ChunkState]:
    """Of the states of a task those of the brokerage that decided last; of equals the first."""
    if len(found) < 2:
        return found
    last = max(found, key=lambda state: state.decided_at)
    return [state for state in found if state.brokerage == last.brokerage]


def first_wait(found: Iterable[ChunkState]) -> datetime | None:
    """Since when the first of the chunks waits; None where none does."""
    return min((one.waiting_since for one in found if one.outcome != "brokered" and one.waiting_since), default=None)


def waiting_states(connection: sa.Connection, now: datetime) -> tuple[list[ChunkState], dict[str, int]]:
    """Of the states at ``now`` those that wait, and how many there are of all, by brokerage."""
    if states.decided_after(connection, now):
        every = chunk_states(connection, now)
        return [one for one in every if one.outcome != "brokered"], dict(Counter(one.brokerage for one in every))
    since = now - LOOKED_BACK
    waiting = states.list_states(connection, seen_since=since, waiting=True)
    return _listed(connection, waiting), states.count_listed(connection, since)[0]


def waiting_groups(asking: Asking, such_as: int) -> tuple[list[ReasonLine], dict[str, int]]:
    """What waits by reason, with some of its tasks, and how many states there are of all, by brokerage."""
    since = asking.now - LOOKED_BACK
    sums = state_sums(asking.connection, since, such_as)
    asking.kept[_SUMS] = sums
    if not asking.once(_IS_PAST, lambda: sums.last_seen_at is not None and sums.last_seen_at > asking.now):
        return [_group(row[0], row[1], row[2] or None, *row[3:]) for row in sums.waiting], dict(sums.states)
    waiting, considered = waiting_states(asking.connection, asking.now)
    groups: defaultdict[tuple[str, str, str | None], list[ChunkState]] = defaultdict(list)
    for state in waiting:
        groups[state.brokerage, state.reason, state.main_code].append(state)
    found = []
    for key, some in groups.items():
        oldest = sorted(some, key=lambda state: (state.waiting_since or state.decided_at, state.jeditaskid))
        tasks = list(dict.fromkeys(state.jeditaskid for state in oldest))
        found.append(_group(*key, len(some), len(tasks), oldest[0].waiting_since, tasks[:such_as]))
    return found, considered


def _group(
    brokerage: str, reason: str, code: str | None, chunks: int, tasks: int, oldest: datetime | None, some: Sequence[int]
) -> ReasonLine:
    return ReasonLine(
        brokerage=brokerage,
        reason=reason,
        main_code=code,
        tasks=tasks,
        chunks=chunks,
        chunks_before=None,
        oldest_since=oldest,
        such_as=tuple(some),
    )


def waiting_codes(connection: sa.Connection, now: datetime) -> Counter[tuple[str, str, str | None]]:
    """How many of the states at ``now`` wait, by brokerage, reason and main reason."""
    if states.decided_after(connection, now):
        return Counter((one.brokerage, one.reason, one.main_code) for one in waiting_states(connection, now)[0])
    counted = states.count_waiting(connection, now - LOOKED_BACK)
    return Counter({(name, reason, main or None): number for (name, reason, main), number in counted.items()})


def waiting_for(connection: sa.Connection, now: datetime, code: str) -> list[ChunkState]:
    """Of the states at ``now`` those that wait with a code as their reason or main reason."""
    if states.decided_after(connection, now):
        return [one for one in waiting_states(connection, now)[0] if code in (one.reason, one.main_code)]
    return _listed(connection, states.list_states(connection, seen_since=now - LOOKED_BACK, code=code))


@dataclass(frozen=True)
class LastStates:
    """The states of one brokerage at an instant.

    Attributes:
        decided_at: instant of the last of its cycles that decided about any of them.
        waiting: how many of them wait.
        newest: the newest decisions of those that wait and of those that do not, :data:`MOST_READ` of each at most.
    """

    decided_at: datetime
    waiting: int
    newest: Sequence[ChunkState]


def last_states(connection: sa.Connection, now: datetime, *, brokered: bool = True) -> dict[str, LastStates]:
    """The states in :func:`chunk_states` whose decisions lists read, by brokerage.

    With ``brokered`` False the newest are those that wait alone.
    """
    if states.decided_after(connection, now):
        by_name: defaultdict[str, list[ChunkState]] = defaultdict(list)
        for state in chunk_states(connection, now):
            by_name[state.brokerage].append(state)
        return {
            name: LastStates(
                max(one.decided_at for one in some), sum(one.outcome != "brokered" for one in some), _newest(some)
            )
            for name, some in by_name.items()
        }
    found: dict[str, LastStates] = {}
    for some in newest_states(connection, now - LOOKED_BACK, MOST_READ, brokered=brokered):
        known = found.get(some.brokerage)
        waiting, own = 0 if some.is_brokered else some.states, _listed(connection, some.newest)
        if known is None:
            found[some.brokerage] = LastStates(some.last_seen_at, waiting, own)
        else:
            last = max(known.decided_at, some.last_seen_at)
            found[some.brokerage] = LastStates(last, known.waiting + waiting, [*known.newest, *own])
    return found


def _newest(some: Iterable[ChunkState]) -> list[ChunkState]:
    ordered = sorted(some, key=lambda one: -one.decision)
    kinds = [[one for one in ordered if (one.outcome == "brokered") == is_brokered] for is_brokered in (False, True)]
    return [one for kind in kinds for one in kind[:MOST_READ]]


Brokered = tuple[str, int, datetime]
"""Brokerage, task, and when it was last brokered."""


def waiting_long(asking: Asking, before: datetime) -> tuple[list[ChunkState], list[Brokered]]:
    """Of the states those that have waited since before an instant, and the tasks that were brokered.

    Where nothing waits for so long no brokered task is read.
    """
    connection = asking.connection
    if _is_past(asking):
        every = chunk_states(connection, asking.now)
        late = [one for one in every if one.waiting_since and one.waiting_since < before]
        done = [one for one in every if one.outcome == "brokered" and one.assigned]
        return late, [(one.brokerage, one.jeditaskid, one.decided_at) for one in done]
    sums: StateSums | None = asking.kept.get(_SUMS)
    since = asking.now - LOOKED_BACK
    if sums is not None and (sums.waiting_since is None or sums.waiting_since >= before):
        return [], []
    late = _listed(connection, states.list_states(connection, seen_since=since, waiting_before=before))
    return late, states.brokered_tasks(connection, since) if late else []


def changes_since(asking: Asking, since: datetime, least: int) -> list[states.Change]:
    """The chunks whose outcome or reason changed ``least`` times since an instant (aware), most often first."""
    # where they were read in this transaction: of all states that changed since
    sums: StateSums | None = asking.kept.get(_SUMS)
    if sums is not None and since >= asking.now - LOOKED_BACK and sums.most_changes < least:
        return []
    return states.outcome_changes(asking.connection, since, asking.now, least)


def _is_past(asking: Asking) -> bool:
    """Whether a later cycle has changed the states; looked for once in a transaction."""
    return asking.once(_IS_PAST, lambda: states.decided_after(asking.connection, asking.now))


def _listed(connection: sa.Connection, found: Sequence[states.ListedState]) -> list[ChunkState]:
    decided = Decided(connection, {one.decision: one.decided_at for one in found})
    return [_state(one, decided, one.last_seen_at, one.decisions, one.main_reason or None) for one in found]


def _state(
    one: states.ListedState | StateUntil, decided: Decided, decided_at: datetime, times_seen: int, main_code: str | None
) -> ChunkState:
    return ChunkState(
        one.brokerage, one.jeditaskid, one.datasetid, one.ramcount, one.decision, decided_at, one.outcome, one.reason,
        one.waiting_since, one.pending_until, times_seen, one.assigned, main_code, decided,
    )  # fmt: skip


def _until(connection: sa.Connection, found: Sequence[StateUntil]) -> list[ChunkState]:
    """States of the past, from the decisions themselves."""
    decided = Decided(connection, {one.decision: one.decided_at for one in found})
    decided.read(one.decision for one in found if one.reason in NO_CANDIDATES)
    return [_state(one, decided, one.decided_at, one.times_seen, _main_code(decided, one)) for one in found]


def _main_code(decided: Decided, one: StateUntil) -> str | None:
    if one.outcome == "brokered" or one.reason not in NO_CANDIDATES:
        return one.reason or None
    stored = decided.of(one.decision)
    return one.reason if stored is None else main_reasons([stored.record])[0]


def main_code(outcome: str, reason: str, counts: RejectionCounts) -> str | None:
    """Why work waits: the code that rejected most queues where rules left none, else the reason of the decision."""
    if outcome == "brokered":
        return None
    if reason not in NO_CANDIDATES:
        return reason or None
    return most_rejecting(counts) or reason


def most_rejecting(counts: RejectionCounts) -> str | None:
    """The code that rejected most queues, of equals the later one; else that of a name that stood for no queue."""
    best = max(enumerate(counts.rejected), key=lambda line: (line[1].rejected.queues, line[0]), default=None)
    if best is not None:
        return best[1].code
    return next(iter(counts.not_candidates.values()), None)


def looked_at(states: Iterable[ChunkState], most: int = MOST_READ) -> list[ChunkState]:
    """The states whose decisions are read in one query: waiting ones first, newest first."""
    some = _first_looked_at(states, most)
    for decided, numbers in _by_reader(some):
        decided.read(numbers)
    return some


def rejected_at(states: Iterable[ChunkState], queue: str, most: int = MOST_READ) -> dict[str, list[ChunkState]]:
    """Of the states that :func:`looked_at` has those whose decision did not choose a queue or nucleus, by reason."""
    some = _first_looked_at(states, most)
    codes: dict[int, str] = {}
    for decided, numbers in _by_reader(some):
        codes |= decided.codes_at(numbers, queue)
    found: defaultdict[str, list[ChunkState]] = defaultdict(list)
    for state in some:
        if state.decision in codes:
            found[codes[state.decision]].append(state)
    return found


def _first_looked_at(states: Iterable[ChunkState], most: int) -> list[ChunkState]:
    return sorted(states, key=lambda state: (state.outcome == "brokered", -state.decision))[:most]


def _by_reader(states: Iterable[ChunkState]) -> Iterable[tuple[Decided, list[int]]]:
    readers: dict[int, tuple[Decided, list[int]]] = {}
    for state in states:
        readers.setdefault(id(state.decided), (state.decided, []))[1].append(state.decision)
    return readers.values()
