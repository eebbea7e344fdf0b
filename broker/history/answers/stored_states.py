"""The last decision of each brokerage about each task and chunk, for lists; also as of some time ago."""

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
from broker.store.query_context import QueryContext
from broker.store.summaries import chunk_states as states
from broker.store.summaries.newest_states import StateSums, newest_states, state_sums
from broker.store.summaries.states_until import StateUntil, states_until

LOOKED_BACK = timedelta(hours=24)
#: A list reads the decisions themselves for at most this many chunks; its counts come from those of the cycles.
MOST_READ = 200
_IS_PAST, _SUMS = "a later cycle has changed the states", "sums of the states of a day"


class DecisionReader:
    """The decisions behind the states of a list: only requested ones are read, and without their work."""

    def __init__(self, connection: sa.Connection, moments: Mapping[int, datetime]) -> None:
        """Take the instant of each decision, by its number, as ``moments``."""
        self._connection, self._moments = connection, moments
        self._read: dict[int, StoredDecision | None] = {}

    def read(self, numbers: Iterable[int]) -> None:
        """Read these decisions at once, so that :meth:`decision` needs no query for each."""
        unread = [number for number in numbers if number in self._moments and number not in self._read]
        if unread:
            decisions = {
                stored.id: stored for stored in by_id(self._connection, unread, *self._span(unread), WITHOUT_WORK)
            }
            self._read |= {number: decisions.get(number) for number in unread}

    def decision(self, number: int) -> StoredDecision | None:
        """Return the decision of this number; None if it has since been removed."""
        self.read([number])
        return self._read.get(number)

    def codes_at(self, numbers: Iterable[int], queue: str) -> dict[int, str]:
        """Return the reason why each of these decisions did not choose a queue or nucleus, by decision number."""
        known = [number for number in numbers if number in self._moments]
        if not known:
            return {}
        return codes_at(self._connection, known, *self._span(known), queue)

    def _span(self, numbers: Sequence[int]) -> tuple[datetime, datetime]:
        moments = [self._moments[number] for number in numbers]
        return min(moments), max(moments)


@dataclass(frozen=True)
class ChunkState(states.DecidedState):
    """The last decision about a task or chunk, and since when this state holds.

    Attributes:
        waiting_since: first of the uninterrupted decisions that did not broker it; None if it is brokered.
        times_seen: number of consecutive cycles with this outcome and reason.
        main_code: why it waits, see :func:`main_code`; None if it is brokered.
        reader: reads the decision.
    """

    times_seen: int
    assigned: Mapping[str, int]
    main_code: str | None
    reader: DecisionReader = field(repr=False, compare=False)

    @cached_property
    def counts(self) -> RejectionCounts:
        """Candidates by reason; empty if the decision has been removed."""
        stored = self.reader.decision(self.decision)
        return rejection_counts({}, (), ()) if stored is None else counts_of(stored.record.decision)

    @cached_property
    def chosen(self) -> tuple[str, ...]:
        """Names of the chosen candidates."""
        stored = self.reader.decision(self.decision)
        return () if stored is None else tuple(candidate.name for candidate in stored.record.decision.candidates)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """The notes of the decision."""
        stored = self.reader.decision(self.decision)
        return () if stored is None else tuple(stored.record.decision.notes)


def chunk_states(
    connection: sa.Connection,
    now: datetime,
    *,
    waiting_at: Collection[str] | None = None,
    tasks: Collection[int] | None = None,
) -> list[ChunkState]:
    """Return the states at ``now`` of all tasks and chunks brokered in the day before.

    Args:
        connection: connection to read from.
        now: an aware instant.
        waiting_at: only the states that wait, at these brokerages.
        tasks: only the states of these tasks.
    """
    if states.decided_after(connection, now):
        every = _until(connection, states_until(connection, now - LOOKED_BACK, now))
        every = [state for state in every if tasks is None or state.jeditaskid in tasks]
        return [
            state for state in every if waiting_at is None or (state.brokerage in waiting_at and state.waiting_since)
        ]
    listed = states.list_states(
        connection,
        seen_since=now - LOOKED_BACK,
        brokerages=None if waiting_at is None else sorted(waiting_at),
        tasks=None if tasks is None else sorted(tasks),
        waiting=waiting_at is not None,
    )
    return _listed(connection, listed)


def waiting_since(connection: sa.Connection, now: datetime) -> dict[int, datetime | None]:
    """Return since when each task in :func:`chunk_states` waits, at the brokerage that decided last."""
    if not states.decided_after(connection, now):
        return states.waiting_since_by_task(connection, now - LOOKED_BACK)
    by_task: defaultdict[int, list[ChunkState]] = defaultdict(list)
    for state in chunk_states(connection, now):
        by_task[state.jeditaskid].append(state)
    return {task: first_wait(of_last_brokerage(states_of_task)) for task, states_of_task in by_task.items()}


def of_last_brokerage(chunks: Sequence[ChunkState]) -> Sequence[ChunkState]:
    """Select the states of the brokerage that decided last about a task; on a tie, of the first one."""
    if len(chunks) < 2:
        return chunks
    last = max(chunks, key=lambda state: state.decided_at)
    return [state for state in chunks if state.brokerage == last.brokerage]


def first_wait(chunks: Iterable[ChunkState]) -> datetime | None:
    """Return since when the longest-waiting chunk waits; None if none does."""
    return min(
        (state.waiting_since for state in chunks if state.outcome != "brokered" and state.waiting_since), default=None
    )


def waiting_states(connection: sa.Connection, now: datetime) -> tuple[list[ChunkState], dict[str, int]]:
    """Return the states at ``now`` that wait, and the number of all states, by brokerage."""
    if states.decided_after(connection, now):
        every = chunk_states(connection, now)
        return [state for state in every if state.outcome != "brokered"], dict(
            Counter(state.brokerage for state in every)
        )
    since = now - LOOKED_BACK
    waiting = states.list_states(connection, seen_since=since, waiting=True)
    return _listed(connection, waiting), states.count_listed(connection, since)[0]


def waiting_groups(query: QueryContext, such_as: int) -> tuple[list[ReasonLine], dict[str, int]]:
    """Return what waits by reason, with some of its tasks, and the number of all states, by brokerage."""
    since = query.now - LOOKED_BACK
    sums = state_sums(query.connection, since, such_as)
    query.cache[_SUMS] = sums
    if not query.once(_IS_PAST, lambda: sums.last_seen_at is not None and sums.last_seen_at > query.now):
        return [_group(row[0], row[1], row[2] or None, *row[3:]) for row in sums.waiting], dict(sums.states)
    waiting, considered = waiting_states(query.connection, query.now)
    groups: defaultdict[tuple[str, str, str | None], list[ChunkState]] = defaultdict(list)
    for state in waiting:
        groups[state.brokerage, state.reason, state.main_code].append(state)
    lines = []
    for key, group in groups.items():
        oldest = sorted(group, key=lambda state: (state.waiting_since or state.decided_at, state.jeditaskid))
        tasks = list(dict.fromkeys(state.jeditaskid for state in oldest))
        lines.append(_group(*key, len(group), len(tasks), oldest[0].waiting_since, tasks[:such_as]))
    return lines, considered


def _group(
    brokerage: str,
    reason: str,
    code: str | None,
    chunks: int,
    tasks: int,
    oldest: datetime | None,
    numbers: Sequence[int],
) -> ReasonLine:
    return ReasonLine(
        brokerage=brokerage,
        reason=reason,
        main_code=code,
        tasks=tasks,
        chunks=chunks,
        chunks_before=None,
        oldest_since=oldest,
        such_as=tuple(numbers),
    )


def waiting_codes(connection: sa.Connection, now: datetime) -> Counter[tuple[str, str, str | None]]:
    """Return how many states at ``now`` wait, by brokerage, reason and main reason."""
    if states.decided_after(connection, now):
        return Counter((state.brokerage, state.reason, state.main_code) for state in waiting_states(connection, now)[0])
    counts = states.count_waiting(connection, now - LOOKED_BACK)
    return Counter({(name, reason, main or None): number for (name, reason, main), number in counts.items()})


def waiting_for(connection: sa.Connection, now: datetime, code: str) -> list[ChunkState]:
    """Return the states at ``now`` that wait with a code as their reason or main reason."""
    if states.decided_after(connection, now):
        return [state for state in waiting_states(connection, now)[0] if code in (state.reason, state.main_code)]
    return _listed(connection, states.list_states(connection, seen_since=now - LOOKED_BACK, code=code))


@dataclass(frozen=True)
class LastStates:
    """The states of one brokerage at one instant.

    Attributes:
        decided_at: instant of its latest cycle that decided about any of them.
        waiting: number of states that wait.
        newest: the newest decisions of the waiting and of the other states, at most :data:`MOST_READ` of each.
    """

    decided_at: datetime
    waiting: int
    newest: Sequence[ChunkState]


def last_states(connection: sa.Connection, now: datetime, *, brokered: bool = True) -> dict[str, LastStates]:
    """Return the states in :func:`chunk_states` whose decisions lists read, by brokerage.

    With ``brokered`` False, the newest decisions are only those of states that wait.
    """
    if states.decided_after(connection, now):
        by_name: defaultdict[str, list[ChunkState]] = defaultdict(list)
        for state in chunk_states(connection, now):
            by_name[state.brokerage].append(state)
        return {
            name: LastStates(
                max(state.decided_at for state in states_of_brokerage),
                sum(state.outcome != "brokered" for state in states_of_brokerage),
                _newest(states_of_brokerage),
            )
            for name, states_of_brokerage in by_name.items()
        }
    by_brokerage: dict[str, LastStates] = {}
    for part in newest_states(connection, now - LOOKED_BACK, MOST_READ, brokered=brokered):
        earlier = by_brokerage.get(part.brokerage)
        waiting, newest = 0 if part.is_brokered else part.states, _listed(connection, part.newest)
        if earlier is None:
            by_brokerage[part.brokerage] = LastStates(part.last_seen_at, waiting, newest)
        else:
            last = max(earlier.decided_at, part.last_seen_at)
            by_brokerage[part.brokerage] = LastStates(last, earlier.waiting + waiting, [*earlier.newest, *newest])
    return by_brokerage


def _newest(chunks: Iterable[ChunkState]) -> list[ChunkState]:
    ordered = sorted(chunks, key=lambda state: -state.decision)
    kinds = [
        [state for state in ordered if (state.outcome == "brokered") == is_brokered] for is_brokered in (False, True)
    ]
    return [state for kind in kinds for state in kind[:MOST_READ]]


Brokered = tuple[str, int, datetime]
"""Brokerage, task, and when it was last brokered."""


def waiting_long(query: QueryContext, before: datetime) -> tuple[list[ChunkState], list[Brokered]]:
    """Return the states that have waited since before an instant, and the tasks that were brokered.

    If nothing has waited for so long, no brokered tasks are read.
    """
    connection = query.connection
    if _is_past(query):
        every = chunk_states(connection, query.now)
        late = [state for state in every if state.waiting_since and state.waiting_since < before]
        done = [state for state in every if state.outcome == "brokered" and state.assigned]
        return late, [(state.brokerage, state.jeditaskid, state.decided_at) for state in done]
    sums: StateSums | None = query.cache.get(_SUMS)
    since = query.now - LOOKED_BACK
    if sums is not None and (sums.waiting_since is None or sums.waiting_since >= before):
        return [], []
    late = _listed(connection, states.list_states(connection, seen_since=since, waiting_before=before))
    return late, states.brokered_tasks(connection, since) if late else []


def changes_since(query: QueryContext, since: datetime, least: int) -> list[states.Change]:
    """Return the chunks whose outcome or reason changed ``least`` times since an instant (aware), most often first."""
    # if read in this transaction: the sums of all states changed since
    sums: StateSums | None = query.cache.get(_SUMS)
    if sums is not None and since >= query.now - LOOKED_BACK and sums.most_changes < least:
        return []
    return states.outcome_changes(query.connection, since, query.now, least)


def _is_past(query: QueryContext) -> bool:
    """Return whether a later cycle has changed the states; checked once per transaction."""
    return query.once(_IS_PAST, lambda: states.decided_after(query.connection, query.now))


def _listed(connection: sa.Connection, rows: Sequence[states.ListedState]) -> list[ChunkState]:
    reader = DecisionReader(connection, {row.decision: row.decided_at for row in rows})
    return [_state(row, reader, row.last_seen_at, row.decisions, row.main_reason or None) for row in rows]


def _state(
    row: states.ListedState | StateUntil,
    reader: DecisionReader,
    decided_at: datetime,
    times_seen: int,
    main_code: str | None,
) -> ChunkState:
    return ChunkState(
        row.brokerage, row.jeditaskid, row.datasetid, row.ramcount, row.decision, decided_at, row.outcome, row.reason,
        row.waiting_since, row.pending_until, times_seen, row.assigned, main_code, reader,
    )  # fmt: skip


def _until(connection: sa.Connection, rows: Sequence[StateUntil]) -> list[ChunkState]:
    """Return states of the past, from the decisions themselves."""
    reader = DecisionReader(connection, {row.decision: row.decided_at for row in rows})
    reader.read(row.decision for row in rows if row.reason in NO_CANDIDATES)
    return [_state(row, reader, row.decided_at, row.times_seen, _main_code(reader, row)) for row in rows]


def _main_code(reader: DecisionReader, row: StateUntil) -> str | None:
    if row.outcome == "brokered" or row.reason not in NO_CANDIDATES:
        return row.reason or None
    stored = reader.decision(row.decision)
    return row.reason if stored is None else main_reasons([stored.record])[0]


def main_code(outcome: str, reason: str, counts: RejectionCounts) -> str | None:
    """Return why work waits: the code that rejected most queues if rules left none, else the reason of the decision."""
    if outcome == "brokered":
        return None
    if reason not in NO_CANDIDATES:
        return reason or None
    return most_rejecting(counts) or reason


def most_rejecting(counts: RejectionCounts) -> str | None:
    """Return the code that rejected most queues, on a tie the later one; else that of a name matching no queue."""
    best = max(enumerate(counts.rejected), key=lambda line: (line[1].rejected.queues, line[0]), default=None)
    if best is not None:
        return best[1].code
    return next(iter(counts.not_candidates.values()), None)


def looked_at(states: Iterable[ChunkState], most: int = MOST_READ) -> list[ChunkState]:
    """Return the states whose decisions are read in one query: waiting ones first, newest first."""
    candidates = _first_looked_at(states, most)
    for reader, numbers in _grouped_by_reader(candidates):
        reader.read(numbers)
    return candidates


def rejected_at(states: Iterable[ChunkState], queue: str, most: int = MOST_READ) -> dict[str, list[ChunkState]]:
    """Return, by reason, the states of :func:`looked_at` whose decision did not choose a queue or nucleus."""
    candidates = _first_looked_at(states, most)
    codes: dict[int, str] = {}
    for reader, numbers in _grouped_by_reader(candidates):
        codes |= reader.codes_at(numbers, queue)
    by_reason: defaultdict[str, list[ChunkState]] = defaultdict(list)
    for state in candidates:
        if state.decision in codes:
            by_reason[codes[state.decision]].append(state)
    return by_reason


def _first_looked_at(states: Iterable[ChunkState], most: int) -> list[ChunkState]:
    return sorted(states, key=lambda state: (state.outcome == "brokered", -state.decision))[:most]


def _grouped_by_reader(states: Iterable[ChunkState]) -> Iterable[tuple[DecisionReader, list[int]]]:
    readers: dict[int, tuple[DecisionReader, list[int]]] = {}
    for state in states:
        readers.setdefault(id(state.reader), (state.reader, []))[1].append(state.decision)
    return readers.values()
