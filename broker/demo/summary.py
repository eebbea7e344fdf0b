"""What a cycle decided, added up over all tasks: jobs by queue, the common funnel, and the tasks that wait.

Works on decisions in the form in which ``broker run --json`` prints them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

REASONS_OF_A_TASK = 4
Decision = Mapping[str, Any]


@dataclass(frozen=True)
class QueueUse:
    """Jobs that one queue got in the cycle.

    ``weight`` is the mean of the weights with which its pseudo-queues were drawn, by jobs.
    """

    queue: str
    jobs: int
    tasks: int
    weight: float


@dataclass(frozen=True)
class FunnelLine:
    """What one rule did over all chunks: candidates that it removed and those left after it."""

    code: str
    removed: int
    left: int


@dataclass(frozen=True)
class WaitingChunk:
    """A chunk without a queue: the reason, and the codes that removed most of its candidates."""

    jeditaskid: int
    reason: str
    codes: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Summary:
    """The whole cycle.

    ``candidates`` counts (chunk, pseudo-queue) pairs before any rule; ``unplaced`` names brokered chunks none of whose
    jobs found room.
    """

    tasks: int
    chunks: int
    brokered: int
    jobs: int
    candidates: int
    queues: tuple[QueueUse, ...]
    funnel: tuple[FunnelLine, ...]
    waiting: tuple[WaitingChunk, ...]
    unplaced: tuple[int, ...]


@dataclass(frozen=True)
class NucleusGiven:
    """A task that waited for a nucleus: which it got (None: none, for ``reason``), and what became of its jobs.

    ``candidates`` is the number of nuclei among which it was drawn, ``weight`` that of the one drawn.
    """

    jeditaskid: int
    nucleus: str | None
    reason: str
    candidates: int
    weight: float | None
    jobs: int
    queues: int


@dataclass(frozen=True)
class UserTask:
    """What became of the task of a user: its jobs and queues, or why it has none.

    ``condition``, ``figure`` and ``cap`` are those of a throttle; ``codes`` are as in :class:`WaitingChunk`.
    """

    jeditaskid: int
    outcome: str
    reason: str
    jobs: int
    queues: int
    condition: str | None = None
    figure: float | None = None
    cap: float | None = None
    unit: str | None = None
    codes: tuple[tuple[str, int], ...] = ()


def user_tasks(decisions: Iterable[Decision]) -> tuple[UserTask, ...]:
    """The decisions of the analysis brokerage, in their order."""
    return tuple(_user_task(decision) for decision in decisions)


def _user_task(decision: Decision) -> UserTask:
    assigned, throttle = decision.get("assigned") or {}, decision.get("throttle") or {}
    outcome = str(decision["outcome"])
    return UserTask(
        int(decision["jeditaskid"]),
        outcome,
        str(decision["reason"]),
        sum(assigned.values()),
        len({name.partition("/")[0] for name in assigned}),
        **{key: throttle.get(key) for key in ("condition", "figure", "cap", "unit")},
        codes=_waiting(decision).codes if outcome == "pending" else (),
    )


def nuclei_given(of_tasks: Iterable[Decision], of_jobs: Iterable[Decision]) -> tuple[NucleusGiven, ...]:
    """What the task brokerage decided, with the jobs that the job brokerage then placed."""
    jobs: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for decision in of_jobs:
        for name, number in (decision.get("assigned") or {}).items():
            jobs[int(decision["jeditaskid"])][name.partition("/")[0]] += number
    return tuple(_given(decision, jobs[int(decision["jeditaskid"])]) for decision in of_tasks)


def _given(decision: Decision, jobs: Counter[str]) -> NucleusGiven:
    candidates = decision["candidates"] if decision["outcome"] == "brokered" else []
    first = candidates[0] if candidates else {"name": None, "weight": None}
    task, reason = int(decision["jeditaskid"]), str(decision["reason"])
    return NucleusGiven(task, first["name"], reason, len(candidates), first["weight"], jobs.total(), len(jobs))


def summarise(decisions: Iterable[Decision]) -> Summary:
    """Add up the decisions of one cycle; queues come by jobs, most first, then by name."""
    listed = list(decisions)
    brokered = [decision for decision in listed if decision["outcome"] == "brokered"]
    candidates, funnel = _funnel(decision["funnel"] for decision in listed)
    return Summary(
        tasks=len({decision["jeditaskid"] for decision in listed}),
        chunks=len(listed),
        brokered=len(brokered),
        jobs=sum(sum((decision.get("assigned") or {}).values()) for decision in brokered),
        candidates=candidates,
        queues=_queues(brokered),
        funnel=funnel,
        waiting=tuple(_waiting(decision) for decision in listed if decision["outcome"] != "brokered"),
        unplaced=tuple(decision["jeditaskid"] for decision in brokered if not decision.get("assigned")),
    )


def _queues(decisions: Iterable[Decision]) -> tuple[QueueUse, ...]:
    jobs: Counter[str] = Counter()
    tasks: defaultdict[str, set[int]] = defaultdict(set)
    weighted: defaultdict[str, float] = defaultdict(float)
    for decision in decisions:
        weights = {candidate["name"]: candidate["weight"] for candidate in decision["candidates"]}
        for name, number in (decision.get("assigned") or {}).items():
            queue = name.partition("/")[0]
            jobs[queue] += number
            tasks[queue].add(decision["jeditaskid"])
            weighted[queue] += number * weights[name]
    uses = [
        QueueUse(name, number, len(tasks[name]), weighted[name] / number) for name, number in jobs.items() if number
    ]
    return tuple(sorted(uses, key=lambda use: (-use.jobs, use.queue)))


def _funnel(funnels: Iterable[Sequence[Sequence[Any]]]) -> tuple[int, tuple[FunnelLine, ...]]:
    """Candidates at the start, and one line for every rule that removed any, in the order of the rules."""
    start = 0
    removed: Counter[tuple[str, int]] = Counter()
    order: list[tuple[str, int]] = []
    for funnel in funnels:
        start += int(funnel[0][1]) if funnel else 0
        _merge_order(order, _keys(funnel))
        for key, (_, before, after) in zip(_keys(funnel), funnel, strict=True):
            removed[key] += int(before) - int(after)
    lines: list[FunnelLine] = []
    left = start
    for key in order:
        if removed[key]:
            left -= removed[key]
            lines.append(FunnelLine(key[0], removed[key], left))
    return start, tuple(lines)


def _keys(funnel: Sequence[Sequence[Any]]) -> list[tuple[str, int]]:
    """Each step with its code and how often the code came before: two rules may share one."""
    seen: Counter[str] = Counter()
    keys = []
    for code, _, _ in funnel:
        keys.append((str(code), seen[code]))
        seen[code] += 1
    return keys


def _merge_order(order: list[tuple[str, int]], keys: Sequence[tuple[str, int]]) -> None:
    """Put keys that are new right behind the one that they follow."""
    place = 0
    for key in keys:
        if key in order:
            place = order.index(key) + 1
        else:
            order.insert(place, key)
            place += 1


def _waiting(decision: Decision) -> WaitingChunk:
    removed: Counter[str] = Counter()
    for code, before, after in decision["funnel"]:
        removed[str(code)] += int(before) - int(after)
    if not removed.total():
        # without candidates to begin with, only names that stand for no queue are rejected
        removed.update(decision.get("rejected", {}).values())
    codes = tuple((code, number) for code, number in removed.most_common(REASONS_OF_A_TASK) if number)
    return WaitingChunk(int(decision["jeditaskid"]), str(decision["reason"]), codes)
