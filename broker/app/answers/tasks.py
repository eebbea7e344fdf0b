"""The list of tasks: what each brokerage last decided about them, what waits first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from broker.app.answers.asking import Asking
from broker.app.answers.list_models import TaskFilters, TaskLine, TaskList
from broker.app.answers.parts import TaskFacts
from broker.app.answers.stored_states import ChunkState, chunk_states
from broker.app.answers.throttles import throttle_in
from broker.domain.rejection_counts import unified_of
from broker.store.answers.task_facts import TaskSelection, read_task_facts

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
    facts = read_task_facts(asking.connection, asking.catalogue, selection)
    return tasks_of(facts, chunk_states(asking.connection, asking.now), wanted, asking.now)


def tasks_of(
    facts: Mapping[int, Mapping[str, Any]], states: Iterable[ChunkState], filters: TaskFilters, now: datetime
) -> TaskList:
    """The list, of facts of tasks and the states of their chunks. Pure."""
    by_task: defaultdict[int, list[ChunkState]] = defaultdict(list)
    for state in states:
        if state.jeditaskid in facts:
            by_task[state.jeditaskid].append(state)
    found = sorted(
        (task for task in facts if _holds(facts[task], by_task.get(task, ()), filters)), key=_order_of(by_task)
    )
    behind = [task for task in found if filters.after is None or task > filters.after]
    if filters.after is not None:
        behind.sort()
    shown = behind[: filters.limit]
    more = len(behind) > len(shown)
    return TaskList(
        now=now,
        filters=filters,
        total=len(found),
        tasks=tuple(_with_throttle(_line(facts[task], by_task.get(task, ())), by_task.get(task, ())) for task in shown),
        next_after=shown[-1] if more and shown else None,
    )


def _order_of(by_task: Mapping[int, Sequence[ChunkState]]) -> Callable[[int], tuple[bool, float, int]]:
    """The key by which tasks come in a list: what has waited longest first, then those that do not wait."""

    def key(task: int) -> tuple[bool, float, int]:
        since = _waiting_since(_of_last_brokerage(by_task.get(task, ())))
        return since is None, 0.0 if since is None else since.timestamp(), task

    return key


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


def _of_last_brokerage(states: Sequence[ChunkState]) -> Sequence[ChunkState]:
    """The states of the brokerage that decided last."""
    if len(states) < 2:
        return states
    last = max(states, key=lambda state: state.decided_at)
    return [state for state in states if state.brokerage == last.brokerage]


def _waiting_since(chunks: Sequence[ChunkState]) -> datetime | None:
    return min((one.waiting_since for one in chunks if one.outcome != "brokered" and one.waiting_since), default=None)


def _line(facts: Mapping[str, Any], states: Sequence[ChunkState]) -> TaskLine:
    chunks = _of_last_brokerage(states)
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
            waiting_since=_waiting_since(chunks),
            next_try_at=min((one.pending_until for one in waiting if one.pending_until), default=None),
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


def _holds(facts: Mapping[str, Any], states: Sequence[ChunkState], filters: TaskFilters) -> bool:
    if filters.status not in OUTCOMES and filters.reason is filters.queue is filters.since is None:
        return True
    line = _line(facts, states)
    if filters.status in OUTCOMES and line.outcome != filters.status and line.task.status != filters.status:
        return False
    if filters.reason is not None and filters.reason not in (line.reason, line.main_code):
        return False
    if filters.queue is not None and filters.queue.casefold() not in {name.casefold() for name in line.queues}:
        return False
    if filters.since is None:
        return True
    return line.decided_at is not None and line.decided_at >= filters.since
