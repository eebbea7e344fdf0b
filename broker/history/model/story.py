"""The story of a task: everything on record about it, as events in chronological order. Pure.

Decisions about one chunk with the same result are one event; an event shows the difference from the previous one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from broker.history.statements.history_reads import ActionLine, DecisionLine, LeftLine, StatusLine, TaskRecord
from broker.store.gdpconfig_rows import TuningEvent

Event = dict[str, Any]

#: Events of one instant come in this order: what is in force, what was decided, what resulted.
_ORDER = ("tuning", "decision", "status", "job_action", "rebrokered_from")


def story(record: TaskRecord) -> list[Event]:
    """Return the events, oldest first; each has ``at`` and ``event``, decisions also ``until``."""
    chunks: dict[tuple[str, int | None, float | None], list[DecisionLine]] = {}
    for decision in record.decisions:
        chunks.setdefault((decision.brokerage, decision.datasetid, decision.ramcount), []).append(decision)
    events = [
        *_tunings(record.decisions, record.versions),
        *(event for lines in chunks.values() for event in _decisions(lines)),
        *map(_status, record.statuses),
        *map(_action, record.actions),
        *map(_left, record.left),
    ]
    return sorted(events, key=lambda event: (event["at"], _ORDER.index(event["event"])))


def _message(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat()


def _decisions(lines: Sequence[DecisionLine]) -> Iterator[Event]:
    """Yield the decisions about one chunk, folding those with the same result into one event."""
    before: DecisionLine | None = None
    for _, alike in groupby(lines, key=lambda line: (line.outcome, line.reason, frozenset(line.candidates))):
        decisions = list(alike)
        first, last = decisions[0], decisions[-1]
        assigned = _assigned(decisions)
        yield {
            "at": _message(first.decided_at),
            "event": "decision",
            "until": _message(last.last_seen_at or last.decided_at),
            "brokerage": first.brokerage,
            "datasetid": first.datasetid,
            "ramcount": first.ramcount,
            "outcome": first.outcome,
            "reason": first.reason,
            "times": len(decisions) + sum(decision.seen_again for decision in decisions),
            "decisions": [first.id, last.id],
            "candidates": list(first.candidates),
            "assigned": assigned,
            "pending_until": None if last.pending_until is None else _message(last.pending_until),
            "tuning": sorted({decision.tuning for decision in decisions}),
            "engine": sorted({decision.engine for decision in decisions}),
            "changed": None if before is None else _differences(before, first),
        }
        before = last


def _assigned(lines: Sequence[DecisionLine]) -> dict[str, int]:
    """Return the jobs assigned by all of them, including those of cycles with the same result."""
    jobs_by_queue: Counter[str] = Counter()
    for line in lines:
        for queue, jobs in line.assigned.items():
            jobs_by_queue[queue] += jobs * (1 + line.seen_again)
    return {queue: jobs for queue, jobs in jobs_by_queue.items() if jobs > 0}


def _differences(before: DecisionLine, after: DecisionLine) -> Event:
    """Return what differs from the previous decision."""
    return {
        "was_outcome": before.outcome,
        "was_reason": before.reason,
        "gained": sorted(set(after.candidates) - set(before.candidates)),
        "lost": sorted(set(before.candidates) - set(after.candidates)),
    }


def _tunings(decisions: Sequence[DecisionLine], versions: Sequence[TuningEvent]) -> Iterator[Event]:
    """Yield the tuning versions in the order in which decisions used them: who changed what since the previous one."""
    previous: int | None = None
    published: int | None = None  # the version of a canary is negative and brings nothing that was published
    for decision in sorted(decisions, key=lambda line: (line.decided_at, line.id)):
        if decision.tuning == previous:
            continue
        # a version older than the previous one was used by another process; it brought nothing new
        since = [item for item in versions if (published or decision.tuning - 1) < item.version <= decision.tuning]
        yield {
            "at": _message(decision.decided_at),
            "event": "tuning",
            "version": decision.tuning,
            "was": previous,
            "changes": [] if published is None else [_change(item) for item in since],
            **_published([item for item in since if item.version == decision.tuning]),
        }
        previous = decision.tuning
        published = decision.tuning if decision.tuning > 0 else published


def _published(items: Sequence[TuningEvent]) -> Event:
    if not items:
        return {"published_at": None, "editor": None, "reason": None}
    return {"published_at": _message(items[0].published_at), "editor": items[0].editor, "reason": items[0].reason}


def _change(item: TuningEvent) -> Event:
    output = {"version": item.version, "editor": item.editor, "reason": item.reason}
    return {**output, "key": item.key, "vo": item.vo, "action": item.action, "old": item.old, "new": item.new}


def _status(line: StatusLine) -> Event:
    return {"at": _message(line.at), "event": "status", "status": line.status, "reason": line.reason}


def _action(line: ActionLine) -> Event:
    return {
        "at": _message(line.at),
        "event": "job_action",
        "agent": line.agent,
        "action": line.action,
        "rule": line.rule,
        "queue": line.queue,
        "old_status": line.old_status,
        "new_status": line.new_status,
        "jobs": line.jobs,
        "first_pandaid": line.first_pandaid,
        "value_s": line.value_s,
        "limit_s": line.limit_s,
        "pandaids": list(line.pandaids) if line.action == "failed" else [],
    }


def _left(line: LeftLine) -> Event:
    return {"at": _message(line.at), "event": "rebrokered_from", "datasetid": line.datasetid, "queue": line.queue}
