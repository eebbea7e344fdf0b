"""Differences as the objects that programs read, one a task and one a brokerage. Shares are fractions of 1. Pure."""

from __future__ import annotations

from collections import Counter
from typing import Any

from broker.whatif.model.comparison import Difference, Totals
from broker.whatif.model.task_differences import TaskDifference


def task_documents(found: Difference) -> list[dict[str, Any]]:
    """One object for each task of which anything is different: those that become unschedulable come first."""
    ranked = sorted(found.tasks.items(), key=lambda item: (not item[1].loses_last_queue, -len(item[1].lost), item[0]))
    return [_task(brokerage, task, one) for (brokerage, task), one in ranked]


def _task(brokerage: str, task: int, found: TaskDifference) -> dict[str, Any]:
    return {
        "kind": "task",
        "jeditaskid": task,
        "brokerage": brokerage,
        "changed": found.decisions,
        "outcomes": _transitions(found.outcomes),
        "gained": dict(sorted(found.gained.items())),
        "lost": dict(sorted(found.lost.items())),
        "loses_last_queue": found.loses_last_queue,
        "gains_first_queue": found.gains_first_queue,
        "candidates": {side: count / found.decisions for side, count in _sides(*found.candidates)},
        "jobs": {side: dict(sorted(jobs.items())) for side, jobs in _sides(found.jobs_before, found.jobs_after)},
    }


def total_documents(found: Difference) -> list[dict[str, Any]]:
    """One object for each brokerage."""
    return [total_document(brokerage, totals) for brokerage, totals in sorted(found.totals.items())]


def summary_document(found: Difference) -> dict[str, int]:
    """All brokerages together: how much was decided again, and how much of it becomes different."""
    return {
        "decisions": found.total("decisions"),
        "changed": found.total("changed"),
        "jobs": sum(totals.jobs_before.total() for totals in found.totals.values()),
        "jobs_moved": found.total("jobs_moved"),
        "tasks_losing_last_queue": len(found.tasks_losing_last()),
    }


def total_document(brokerage: str, totals: Totals) -> dict[str, Any]:
    """One brokerage over all cycles."""
    return {
        "kind": "total",
        "brokerage": brokerage,
        "cycles": totals.cycles,
        "decisions": totals.decisions,
        "changed": totals.changed,
        "outcomes": {
            "before": _outcomes(totals, 0),
            "after": _outcomes(totals, 1),
            "changed": _transitions(Counter({pair: n for pair, n in totals.outcomes.items() if pair[0] != pair[1]})),
        },
        "tasks_losing_last_queue": totals.losing_last,
        "tasks_gaining_first_queue": totals.gaining_first,
        "candidates": {
            side: {"mean": mean_of(counts), "decisions": {str(size): counts[size] for size in sorted(counts)}}
            for side, counts in _sides(totals.candidates_before, totals.candidates_after)
        },
        "jobs": {
            "before": totals.jobs_before.total(),
            "after": totals.jobs_after.total(),
            "moved": totals.jobs_moved,
        },
        "queues": queue_documents(totals),
        "rejections": {
            side: dict(sorted(codes.items())) for side, codes in _sides(totals.rejected_before, totals.rejected_after)
        },
    }


def queue_documents(totals: Totals) -> dict[str, dict[str, float]]:
    """For each queue that is a candidate of anything new, or no more, or gets jobs: what becomes of it."""
    names = sorted({*totals.gained, *totals.lost, *totals.jobs_before, *totals.jobs_after})
    before, after = totals.jobs_before.total(), totals.jobs_after.total()
    return {
        name: {
            "gained": totals.gained[name],
            "lost": totals.lost[name],
            "jobs_before": totals.jobs_before[name],
            "jobs_after": totals.jobs_after[name],
            "share_before": totals.jobs_before[name] / before if before else 0.0,
            "share_after": totals.jobs_after[name] / after if after else 0.0,
        }
        for name in names
    }


def mean_of(counts: Counter[int]) -> float:
    """The mean of a distribution; 0 of none."""
    return sum(size * count for size, count in counts.items()) / max(1, counts.total())


def _outcomes(totals: Totals, side: int) -> dict[str, int]:
    found: Counter[str] = Counter()
    for pair, count in totals.outcomes.items():
        found[pair[side]] += count
    return dict(sorted(found.items()))


def _transitions(pairs: Counter[tuple[str, str]]) -> list[list[Any]]:
    """[before, after, decisions], the most frequent first."""
    ranked = sorted(pairs.items(), key=lambda item: (-item[1], item[0]))
    return [[was, is_, count] for (was, is_), count in ranked]


def _sides(before: Any, after: Any) -> tuple[tuple[str, Any], tuple[str, Any]]:
    return ("before", before), ("after", after)
