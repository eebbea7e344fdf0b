"""The decisions of a cycle, summed over all tasks: jobs by queue, the common funnel, and the waiting tasks.

It reads decisions in the form printed by ``broker run --json``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from broker.domain.rejection_counts import Counts, RejectionCounts, rejection_counts

REASONS_OF_A_TASK = 4
Decision = Mapping[str, Any]


@dataclass(frozen=True)
class QueueUse:
    """Jobs that one queue got in the cycle.

    ``weight`` is the mean weight with which its pseudo-queues were drawn, weighted by jobs.
    """

    queue: str
    jobs: int
    tasks: int
    weight: float


@dataclass(frozen=True)
class FunnelLine:
    """The effect of one rule over all chunks: removed queues, queues left after it, and their pseudo-queues.

    A queue counts for the rule that removed the last of its pseudo-queues, as in ``broker explain``.
    """

    code: str
    queues_removed: int
    queues_left: int
    removed: int
    left: int


@dataclass(frozen=True)
class WaitingChunk:
    """A chunk without a queue: the reason, and the codes that removed most of its queues, with their number."""

    jeditaskid: int
    reason: str
    codes: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Summary:
    """The summary of a whole cycle.

    ``candidate_queues`` counts (chunk, queue) pairs before any rule, ``candidates`` (chunk, pseudo-queue) pairs;
    ``unplaced`` lists the tasks of brokered chunks none of whose jobs found room.
    """

    tasks: int
    chunks: int
    brokered: int
    jobs: int
    candidate_queues: int
    candidates: int
    queues: tuple[QueueUse, ...]
    funnel: tuple[FunnelLine, ...]
    waiting: tuple[WaitingChunk, ...]
    unplaced: tuple[int, ...]


@dataclass(frozen=True)
class NucleusGiven:
    """A task that waited for a nucleus: the nucleus that it got (None: none, for ``reason``), and its placed jobs.

    ``candidates`` is the number of nuclei in the draw, ``weight`` the weight of the drawn nucleus.
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
    """The outcome of a user's task: its jobs and queues, or the reason why it has none.

    ``condition``, ``figure`` and ``cap`` describe a throttle; ``codes`` are as in :class:`WaitingChunk`.
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
    """The decisions of the task brokerage, with the jobs that the job brokerage then placed."""
    jobs: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for decision in of_jobs:
        for name, number in (decision.get("assigned") or {}).items():
            jobs[int(decision["jeditaskid"])][name.partition("/")[0]] += number
    return tuple(_nucleus_given(decision, jobs[int(decision["jeditaskid"])]) for decision in of_tasks)


def _nucleus_given(decision: Decision, jobs: Counter[str]) -> NucleusGiven:
    candidates = decision["candidates"] if decision["outcome"] == "brokered" else []
    first = candidates[0] if candidates else {"name": None, "weight": None}
    task, reason = int(decision["jeditaskid"]), str(decision["reason"])
    return NucleusGiven(task, first["name"], reason, len(candidates), first["weight"], jobs.total(), len(jobs))


def summarise(decisions: Iterable[Decision]) -> Summary:
    """Sum the decisions of one cycle; queues are ordered by jobs, most first, then by name."""
    all_decisions = list(decisions)
    brokered = [decision for decision in all_decisions if decision["outcome"] == "brokered"]
    start, funnel = _funnel(all_decisions)
    return Summary(
        tasks=len({decision["jeditaskid"] for decision in all_decisions}),
        chunks=len(all_decisions),
        brokered=len(brokered),
        jobs=sum(sum((decision.get("assigned") or {}).values()) for decision in brokered),
        candidate_queues=start.queues,
        candidates=start.pseudo_queues or 0,
        queues=_queues(brokered),
        funnel=funnel,
        waiting=tuple(_waiting(decision) for decision in all_decisions if decision["outcome"] != "brokered"),
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


def _counts(decision: Decision) -> RejectionCounts:
    """The candidates of a decision by reason, in counts that add up."""
    funnel = [(str(code), int(before), int(after)) for code, before, after in decision["funnel"]]
    return rejection_counts(decision.get("rejected") or {}, funnel, [one["name"] for one in decision["candidates"]])


def _funnel(decisions: Iterable[Decision]) -> tuple[Counts, tuple[FunnelLine, ...]]:
    """Candidates at the start, and one line for every code that removed any, in the order of the rules."""
    queues, pseudo_queues = 0, 0
    of_queues: Counter[str] = Counter()
    of_pseudo_queues: Counter[str] = Counter()
    order: list[str] = []
    for decision in decisions:
        counts = _counts(decision)
        queues, pseudo_queues = queues + counts.start.queues, pseudo_queues + (counts.start.pseudo_queues or 0)
        _merge_order(order, [line.code for line in counts.rejected])
        for line in counts.rejected:
            of_queues[line.code] += line.rejected.queues
            of_pseudo_queues[line.code] += line.rejected.pseudo_queues or 0
    start = Counts(queues, pseudo_queues)
    lines: list[FunnelLine] = []
    for code in order:
        queues, pseudo_queues = queues - of_queues[code], pseudo_queues - of_pseudo_queues[code]
        lines.append(FunnelLine(code, of_queues[code], queues, of_pseudo_queues[code], pseudo_queues))
    return start, tuple(lines)


def _merge_order(order: list[str], codes: Sequence[str]) -> None:
    """Insert new codes right after the code that they follow."""
    place = 0
    for code in codes:
        if code in order:
            place = order.index(code) + 1
        else:
            order.insert(place, code)
            place += 1


def _waiting(decision: Decision) -> WaitingChunk:
    counts = _counts(decision)
    removed = Counter({line.code: line.rejected.queues for line in counts.rejected if line.rejected.queues})
    if not removed:
        # without any candidates, only names that stand for no queue are rejected
        removed.update(counts.not_candidates.values())
    return WaitingChunk(
        int(decision["jeditaskid"]), str(decision["reason"]), tuple(removed.most_common(REASONS_OF_A_TASK))
    )
