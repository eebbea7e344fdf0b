"""The list of tasks: what each brokerage last decided about them, what waits first.

Throttles as they are kept with a decision.

Values of filters that are known: a list about a name that is nowhere would be empty and say nothing.
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
from broker.domain.work import DroppedRow
from broker.engine.analysis.throttle import Throttle
from broker.errors import MOST_NEAR, WRONG_USAGE, BrokerError, nearest
from broker.feeds.statements.table_writing import queue_names, site_names
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
    ENDED,
    TaskSelection,
    read_task_facts,
    read_task_numbers,
    read_task_values,
)
from broker.snapshot.build_classes import share_values
from broker.store.classes.class_inputs import read_share_rows
from broker.store.query_context import Asking
from broker.store.summaries.chunk_states import decided_after


def throttle_in(notes: Iterable[str]) -> Throttle | None:
    """The throttle among the notes of a decision; None without one."""
    for note in notes:
        found = Throttle.read(note)
        if found is not None:
            return found
    return None


OUTCOMES = ("brokered", "pending", "throttled", "skipped")


def task_list(asking: Asking, filters: TaskFilters | None = None) -> TaskList:
    """The tasks for which all filters hold: those that are open, or were brokered in the last day."""
    wanted = filters or TaskFilters()
    status = None if wanted.status is None or wanted.status in OUTCOMES else [wanted.status]
    selection = TaskSelection(
        user=wanted.user,
        statuses=status,
        nucleus=wanted.nucleus,
        gshare=wanted.gshare,
        open_only=status is None,
    )
    if not _takes_states(wanted):
        since = waiting_since(asking.connection, asking.now)
        numbers = read_task_numbers(asking.connection, asking.catalogue, selection)
    elif decided_after(asking.connection, asking.now):
        return _filtered_then(asking, selection, wanted)
    else:
        outcome = wanted.status if wanted.status in OUTCOMES else None
        kind = DecisionFilters(outcome, wanted.reason, wanted.queue, wanted.since)
        seen_since = asking.now - LOOKED_BACK
        since = filtered_tasks(asking.connection, asking.catalogue, selection, kind, seen_since)
        numbers = list(since)
    page = _page(numbers, since, wanted)
    facts = read_task_facts(asking.connection, asking.catalogue, TaskSelection(tasks=page.shown))
    states = _by_task(chunk_states(asking.connection, asking.now, tasks=set(page.shown)))
    lines = {task: _line(facts[task], states.get(task, ())) for task in page.shown}
    return _list(asking.now, wanted, page, lines, states)


def _takes_states(filters: TaskFilters) -> bool:
    """Whether it depends on what was decided if a task is in the list, not only where."""
    given = (filters.reason, filters.queue, filters.since)
    return filters.status in OUTCOMES or any(one is not None for one in given)


def _filtered_then(asking: Asking, selection: TaskSelection, filters: TaskFilters) -> TaskList:
    """The list of the past where all tasks must be looked at."""
    facts = read_task_facts(asking.connection, asking.catalogue, selection)
    states = _by_task(state for state in chunk_states(asking.connection, asking.now) if state.jeditaskid in facts)
    lines = {task: _line(facts[task], states.get(task, ())) for task in facts}
    since = {task: line.task.waiting_since for task, line in lines.items()}
    page = _page([task for task, line in lines.items() if _holds(line, filters)], since, filters)
    return _list(asking.now, filters, page, lines, states)


@dataclass(frozen=True)
class _Page:
    """The tasks of a page, how many there are on all pages, and whether there is a page behind it."""

    shown: Sequence[int]
    total: int
    more: bool


def _page(tasks: Sequence[int], since: Mapping[int, datetime | None], filters: TaskFilters) -> _Page:
    """What has waited longest first, then those that do not wait; a page begins behind the last task of that before."""

    def place(task: int) -> tuple[bool, float, int]:
        waits = since.get(task)
        return waits is None, 0.0 if waits is None else waits.timestamp(), task

    found = sorted(tasks, key=place)
    behind = bisect_right(found, place(filters.after), key=place) if filters.after else 0
    shown = found[behind : behind + filters.limit]
    return _Page(shown, len(found), behind + len(shown) < len(found))


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
    """The line with what throttles its task: that stands in the notes of a decision, and only there."""
    if line.outcome != "throttled":
        return line
    shown = _shown(states, line.brokerage)
    return line if shown is None else line.model_copy(update={"throttle": throttle_in(shown.notes)})


def _shown(states: Iterable[ChunkState], brokerage: str | None) -> ChunkState | None:
    """Of the chunks that wait the one that has waited longest."""
    waiting = [state for state in states if state.brokerage == brokerage and state.outcome != "brokered"]
    return min(waiting, key=lambda state: state.waiting_since or state.decided_at, default=None)


def _line(facts: Mapping[str, Any], states: Sequence[ChunkState]) -> TaskLine:
    chunks = of_last_brokerage(states)
    last = max((state.decided_at for state in chunks), default=None)
    brokerage = chunks[0].brokerage if chunks else None
    of_last = [state for state in chunks if state.decided_at == last]
    waiting = [state for state in chunks if state.outcome != "brokered"]
    shown = _shown(chunks, brokerage)
    state = shown or (of_last[0] if of_last else None)
    queues = {unified_of(name) for chunk in chunks for name in chunk.assigned}
    return TaskLine(
        task=TaskFacts(
            **facts,
            waiting_since=first_wait(chunks),
            next_try_at=min((one.pending_until for one in waiting if one.pending_until), default=None),
            redecide=first_redecided((one.outcome, one.pending_until) for one in waiting),
        ),
        brokerage=brokerage,
        outcome=None if state is None else state.outcome,
        reason=None if state is None else state.reason,
        main_code=None if shown is None else shown.main_code,
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
"""Where no name is near and there are no more than these, all of them are said."""


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
        listed = f"known are {', '.join(names)}" if 0 < len(names) <= MOST_LISTED else ""
        remedy = f"did you mean {' or '.join(self.nearest)}?" if self.nearest else listed
        super().__init__(f"there is no {field.replace('_', ' ')} {value[:80]}", where or f"--{field}", remedy)


def known_value(field: str, value: str, known: Iterable[str], where: str = "") -> str:
    """The value among ``known`` that matches, in upper or lower case.

    Raises:
        UnknownValue: there is none; it says which are near.
    """
    names = set(known)
    if value in names:
        return value
    for one in sorted(names):
        if one.casefold() == value.casefold():
            return one
    raise UnknownValue(field, value, names, where)


def known_task_filters(asking: Asking, filters: TaskFilters) -> TaskFilters:
    """The filters with their values as they are known.

    Raises:
        UnknownValue: nothing has a value.
    """
    known: dict[str, Callable[[], Iterable[str]]] = {
        "status": lambda: {*OUTCOMES, *GROUP_STATE_OF, *ENDED, *_of_tasks(asking, "status")},
        "reason": lambda: _reasons(asking),
        "queue": lambda: {*_of_snapshot(asking, "queue"), *queue_names(asking.connection, asking.names)},
        "nucleus": lambda: {*_of_snapshot(asking, "nucleus"), *_of_tasks(asking, "nucleus")},
        "gshare": lambda: {*_shares(asking), *_of_tasks(asking, "gshare")},
        "user": lambda: _of_tasks(asking, "username"),
    }
    return filters.model_copy(update=_as_known(known, filters))


def known_queue_filters(asking: Asking, filters: QueueFilters) -> QueueFilters:
    """The filters with their values as they are known.

    Raises:
        UnknownValue: nothing has a value.
    """
    known: dict[str, Callable[[], Iterable[str]]] = {
        "status": lambda: {*QUEUE_STATUSES, *_of_snapshot(asking, "status")},
        "site": lambda: {*_of_snapshot(asking, "site"), *site_names(asking.connection, asking.names)},
    }
    return filters.model_copy(update=_as_known(known, filters))


def _as_known(known: Mapping[str, Callable[[], Iterable[str]]], filters: TaskFilters | QueueFilters) -> dict[str, str]:
    given = {field: value for field in known if (value := getattr(filters, field)) is not None}
    return {field: known_value(field, value, known[field]()) for field, value in given.items()}


def _of_tasks(asking: Asking, column: str) -> list[str]:
    return read_task_values(asking.connection, asking.catalogue, column)


def _of_snapshot(asking: Asking, what: str) -> set[str]:
    snapshot = last_snapshot(asking)
    if snapshot is None:
        return set()
    unified = snapshot.unified
    columns = {
        "queue": unified.name,
        "status": unified.status,
        "site": unified.atlas_site,
        "nucleus": snapshot.nuclei.name,
    }
    return {str(one) for one in columns[what] if one}


def _shares(asking: Asking) -> set[str]:
    dropped: list[DroppedRow] = []
    return {
        ShareNode(*value).name for value in share_values(read_share_rows(asking.connection, asking.catalogue), dropped)
    }


def _reasons(asking: Asking) -> set[str]:
    """What rules and steps may give, and what waits for now."""
    unknown = {f"unknown_{one.name}" for one in profile_rules(asking.config)}
    present = {code for _, *codes in waiting_now(asking) for code in codes if code}
    return {*glossary(asking).codes, *unknown, *present}
