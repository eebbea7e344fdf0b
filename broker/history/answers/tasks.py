"""The list of tasks: what each brokerage last decided about them, with waiting tasks first, and its filters.

Throttles are read from the notes stored with a decision. Filter values must be known: a list for a name that exists
nowhere would be empty and say nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from broker.classes.share_preference import ShareNode
from broker.decisions.answers.decision_model import TaskFacts
from broker.decisions.answers.reason_codes import glossary, profile_rules, waiting_now
from broker.domain.decisions import first_redecided
from broker.domain.rejection_counts import unified_of
from broker.domain.task_states import NO_LONGER_BROKERED
from broker.domain.work import DroppedRow
from broker.engine.analysis.throttle import Throttle
from broker.errors import MOST_NEAR, WRONG_USAGE, BrokerError, nearest
from broker.formats.model.sss.states import GROUP_STATE_OF
from broker.grid.answers.grid import last_snapshot
from broker.grid.answers.models import QueueFilters
from broker.history.answers.list_models import TaskFilters, TaskLine, TaskList
from broker.history.answers.stored_states import (
    LOOKED_BACK,
    ChunkState,
    chunk_states,
    first_wait,
    of_last_brokerage,
    waiting_since,
)
from broker.history.statements.filtered_tasks import DecisionFilters, filtered_tasks
from broker.history.statements.task_facts import (
    TaskSelection,
    read_task_facts,
    read_task_numbers,
    read_task_values,
)
from broker.snapshot.build_classes import share_values
from broker.store.classes.class_inputs import read_share_rows
from broker.store.query_context import QueryContext
from broker.store.reads.grid_names import queue_names, site_names
from broker.store.summaries.chunk_states import decided_after


def throttle_in(notes: Iterable[str]) -> Throttle | None:
    """Return the throttle in the notes of a decision; None if there is none."""
    for note in notes:
        throttle = Throttle.read(note)
        if throttle is not None:
            return throttle
    return None


OUTCOMES = ("brokered", "pending", "throttled", "skipped")


def task_list(query: QueryContext, filters: TaskFilters | None = None) -> TaskList:
    """Return the tasks that match all filters and are open, or were brokered in the last day."""
    chosen_filters = filters or TaskFilters()
    status = None if chosen_filters.status is None or chosen_filters.status in OUTCOMES else [chosen_filters.status]
    selection = TaskSelection(
        user=chosen_filters.user,
        statuses=status,
        nucleus=chosen_filters.nucleus,
        gshare=chosen_filters.gshare,
        open_only=status is None,
    )
    if not _takes_states(chosen_filters):
        since = waiting_since(query.connection, query.now)
        numbers = read_task_numbers(query.connection, query.catalogue, selection)
    elif decided_after(query.connection, query.now):
        return _filtered_then(query, selection, chosen_filters)
    else:
        outcome = chosen_filters.status if chosen_filters.status in OUTCOMES else None
        kind = DecisionFilters(outcome, chosen_filters.reason, chosen_filters.queue, chosen_filters.since)
        seen_since = query.now - LOOKED_BACK
        since = filtered_tasks(query.connection, query.catalogue, selection, kind, seen_since)
        numbers = list(since)
    page = _page(numbers, since, chosen_filters)
    facts = read_task_facts(query.connection, query.catalogue, TaskSelection(tasks=page.shown))
    states = _by_task(chunk_states(query.connection, query.now, tasks=set(page.shown)))
    lines = {task: _line(facts[task], states.get(task, ())) for task in page.shown}
    return _list(query.now, chosen_filters, page, lines, states)


def _takes_states(filters: TaskFilters) -> bool:
    """Return whether decisions determine which tasks are in the list, and not only their order."""
    values = (filters.reason, filters.queue, filters.since)
    return filters.status in OUTCOMES or any(value is not None for value in values)


def _filtered_then(query: QueryContext, selection: TaskSelection, filters: TaskFilters) -> TaskList:
    """Return a list of the past for which all tasks must be examined."""
    facts = read_task_facts(query.connection, query.catalogue, selection)
    states = _by_task(state for state in chunk_states(query.connection, query.now) if state.jeditaskid in facts)
    lines = {task: _line(facts[task], states.get(task, ())) for task in facts}
    since = {task: line.task.waiting_since for task, line in lines.items()}
    page = _page([task for task, line in lines.items() if _holds(line, filters)], since, filters)
    return _list(query.now, filters, page, lines, states)


@dataclass(frozen=True)
class _Page:
    """The tasks of a page, the number on all pages, and whether another page follows."""

    shown: Sequence[int]
    total: int
    more: bool


def _page(tasks: Sequence[int], since: Mapping[int, datetime | None], filters: TaskFilters) -> _Page:
    """Sort tasks by longest wait, then those that do not wait; a page begins after the last task before it."""

    def place(task: int) -> tuple[bool, float, int]:
        waits = since.get(task)
        return waits is None, 0.0 if waits is None else waits.timestamp(), task

    ordered = sorted(tasks, key=place)
    behind = bisect_right(ordered, place(filters.after), key=place) if filters.after else 0
    numbers = ordered[behind : behind + filters.limit]
    return _Page(numbers, len(ordered), behind + len(numbers) < len(ordered))


def _list(
    now: datetime,
    filters: TaskFilters,
    page: _Page,
    lines: Mapping[int, TaskLine],
    states: Mapping[int, Sequence[ChunkState]],
) -> TaskList:
    return TaskList(
        now=now,
        filters=filters,
        total=page.total,
        tasks=tuple(_with_throttle(lines[task], states.get(task, ())) for task in page.shown),
        next_after=page.shown[-1] if page.more else None,
    )


def _by_task(states: Iterable[ChunkState]) -> dict[int, list[ChunkState]]:
    by_task: defaultdict[int, list[ChunkState]] = defaultdict(list)
    for state in states:
        by_task[state.jeditaskid].append(state)
    return by_task


def _with_throttle(line: TaskLine, states: Sequence[ChunkState]) -> TaskLine:
    """Return the line with the throttle of its task, which is stored only in the notes of a decision."""
    if line.outcome != "throttled":
        return line
    state = _shown(states, line.brokerage)
    return line if state is None else line.model_copy(update={"throttle": throttle_in(state.notes)})


def _shown(states: Iterable[ChunkState], brokerage: str | None) -> ChunkState | None:
    """Return the chunk that has waited longest."""
    waiting = [state for state in states if state.brokerage == brokerage and state.outcome != "brokered"]
    return min(waiting, key=lambda state: state.waiting_since or state.decided_at, default=None)


def _line(facts: Mapping[str, Any], states: Sequence[ChunkState]) -> TaskLine:
    chunks = of_last_brokerage(states)
    last = max((state.decided_at for state in chunks), default=None)
    brokerage = chunks[0].brokerage if chunks else None
    of_last = [state for state in chunks if state.decided_at == last]
    waiting = [state for state in chunks if state.outcome != "brokered"]
    leading = _shown(chunks, brokerage)
    state = leading or (of_last[0] if of_last else None)
    queues = {unified_of(name) for chunk in chunks for name in chunk.assigned}
    return TaskLine(
        task=TaskFacts(
            **facts,
            waiting_since=first_wait(chunks),
            next_try_at=min((chunk.pending_until for chunk in waiting if chunk.pending_until), default=None),
            redecide=first_redecided((chunk.outcome, chunk.pending_until) for chunk in waiting),
        ),
        brokerage=brokerage,
        outcome=None if state is None else state.outcome,
        reason=None if state is None else state.reason,
        main_code=None if leading is None else leading.main_code,
        chunks=len(chunks),
        chunks_waiting=len(waiting),
        jobs=sum(sum(chunk.assigned.values()) for chunk in chunks),
        queues=tuple(sorted(queues)),
        times_seen=0 if state is None else state.times_seen,
        decided_at=last,
    )


def _holds(line: TaskLine, filters: TaskFilters) -> bool:
    if filters.status in OUTCOMES and line.outcome != filters.status and line.task.status != filters.status:
        return False
    if filters.reason is not None and filters.reason not in (line.reason, line.main_code):
        return False
    if filters.queue is not None and filters.queue.casefold() not in {name.casefold() for name in line.queues}:
        return False
    if filters.since is None:
        return True
    return line.decided_at is not None and line.decided_at >= filters.since


QUEUE_STATUSES = ("online", "offline", "brokeroff", "test", "standby", "paused")
MOST_LISTED = 12
"""If no name is similar and there are no more values than this, all are listed."""


class UnknownValue(BrokerError):
    """A filter has a value that nothing has.

    Attributes:
        field: the filter.
        nearest: known values that are like the one given.
    """

    exit_status = WRONG_USAGE

    def __init__(self, field: str, value: str, known: Iterable[str], where: str = "") -> None:
        names = sorted(set(known))
        self.field, self.nearest = field, nearest(value, names, MOST_NEAR)
        known_names = f"known are {', '.join(names)}" if 0 < len(names) <= MOST_LISTED else ""
        remedy = f"did you mean {' or '.join(self.nearest)}?" if self.nearest else known_names
        super().__init__(f"there is no {field.replace('_', ' ')} {value[:80]}", where or f"--{field}", remedy)


def known_value(field: str, value: str, known: Iterable[str], where: str = "") -> str:
    """Return the value among ``known`` that matches, in upper or lower case.

    Raises:
        UnknownValue: there is no match; the error names the most similar values.
    """
    names = set(known)
    if value in names:
        return value
    for name in sorted(names):
        if name.casefold() == value.casefold():
            return name
    raise UnknownValue(field, value, names, where)


def known_task_filters(query: QueryContext, filters: TaskFilters) -> TaskFilters:
    """Return the filters with their values as they are known.

    Raises:
        UnknownValue: a value is unknown.
    """
    values: dict[str, Callable[[], Iterable[str]]] = {
        "status": lambda: {*OUTCOMES, *GROUP_STATE_OF, *NO_LONGER_BROKERED, *_of_tasks(query, "status")},
        "reason": lambda: _reasons(query),
        "queue": lambda: {*_of_snapshot(query, "queue"), *queue_names(query.connection, query.names)},
        "nucleus": lambda: {*_of_snapshot(query, "nucleus"), *_of_tasks(query, "nucleus")},
        "gshare": lambda: {*_shares(query), *_of_tasks(query, "gshare")},
        "user": lambda: _of_tasks(query, "username"),
    }
    return filters.model_copy(update=_as_known(values, filters))


def known_queue_filters(query: QueryContext, filters: QueueFilters) -> QueueFilters:
    """Return the filters with their values as they are known.

    Raises:
        UnknownValue: a value is unknown.
    """
    values: dict[str, Callable[[], Iterable[str]]] = {
        "status": lambda: {*QUEUE_STATUSES, *_of_snapshot(query, "status")},
        "site": lambda: {*_of_snapshot(query, "site"), *site_names(query.connection, query.names)},
    }
    return filters.model_copy(update=_as_known(values, filters))


def _as_known(values: Mapping[str, Callable[[], Iterable[str]]], filters: TaskFilters | QueueFilters) -> dict[str, str]:
    chosen = {field: value for field in values if (value := getattr(filters, field)) is not None}
    return {field: known_value(field, value, values[field]()) for field, value in chosen.items()}


def _of_tasks(query: QueryContext, column: str) -> list[str]:
    return read_task_values(query.connection, query.catalogue, column)


def _of_snapshot(query: QueryContext, column: str) -> set[str]:
    snapshot = last_snapshot(query)
    if snapshot is None:
        return set()
    unified = snapshot.unified
    columns = {
        "queue": unified.name,
        "status": unified.status,
        "site": unified.atlas_site,
        "nucleus": snapshot.nuclei.name,
    }
    return {str(value) for value in columns[column] if value}


def _shares(query: QueryContext) -> set[str]:
    dropped: list[DroppedRow] = []
    return {
        ShareNode(*value).name for value in share_values(read_share_rows(query.connection, query.catalogue), dropped)
    }


def _reasons(query: QueryContext) -> set[str]:
    """Return the codes that rules and steps may give, and those that something waits for now."""
    unknown = {f"unknown_{rule.name}" for rule in profile_rules(query.config)}
    present = {code for _, *codes in waiting_now(query) for code in codes if code}
    return {*glossary(query).codes, *unknown, *present}
