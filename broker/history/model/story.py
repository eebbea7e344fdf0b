"""The story of a task: what is on record about it, as one line of events in the order of time. Pure.

Decisions of one chunk that come out alike are one event; an event shows what is different from the one before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from broker.history.statements.history_reads import ActionLine, DecisionLine, LeftLine, StatusLine, TaskRecord
from broker.tuning.statements.gdpconfig_rows import TuningEvent

Event = dict[str, Any]

#: Events of one instant come in this order: what holds, what was decided, what became of it.
_ORDER = ("tuning", "decision", "status", "job_action", "rebrokered_from")


def story(record: TaskRecord) -> list[Event]:
    """The events, oldest first; each has ``at`` and ``event``, decisions also ``until``."""
    chunks: dict[tuple[str, int | None, float | None], list[DecisionLine]] = {}
    for one in record.decisions:
        chunks.setdefault((one.brokerage, one.datasetid, one.ramcount), []).append(one)
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
    """The decisions on one chunk, those alike as one event."""
    before: DecisionLine | None = None
    for _, alike in groupby(lines, key=lambda one: (one.outcome, one.reason, frozenset(one.candidates))):
        some = list(alike)
        first, last = some[0], some[-1]
        assigned = _assigned(some)
        yield {
            "at": _message(first.decided_at),
            "event": "decision",
            "until": _message(last.last_seen_at or last.decided_at),
            "brokerage": first.brokerage,
            "datasetid": first.datasetid,
            "ramcount": first.ramcount,
            "outcome": first.outcome,
            "reason": first.reason,
            "times": len(some) + sum(one.seen_again for one in some),
            "decisions": [first.id, last.id],
            "candidates": list(first.candidates),
            "assigned": assigned,
            "pending_until": None if last.pending_until is None else _message(last.pending_until),
            "tuning": sorted({one.tuning for one in some}),
            "engine": sorted({one.engine for one in some}),
            "changed": None if before is None else _changed(before, first),
        }
        before = last


def _assigned(lines: Sequence[DecisionLine]) -> dict[str, int]:
    """The jobs of all of them, also of the cycles that came to the same."""
    found: Counter[str] = Counter()
    for one in lines:
        for queue, jobs in one.assigned.items():
            found[queue] += jobs * (1 + one.seen_again)
    return {queue: jobs for queue, jobs in found.items() if jobs > 0}


def _changed(before: DecisionLine, after: DecisionLine) -> Event:
    """What is different from the decision before."""
    return {
        "was_outcome": before.outcome,
        "was_reason": before.reason,
        "gained": sorted(set(after.candidates) - set(before.candidates)),
        "lost": sorted(set(before.candidates) - set(after.candidates)),
    }


def _tunings(decisions: Sequence[DecisionLine], versions: Sequence[TuningEvent]) -> Iterator[Event]:
    """The versions of the tuning as the decisions came to use them: who changed what since the one before."""
    known: int | None = None
    published: int | None = None  # of a canary, the version is negative and brings nothing that was published
    for one in sorted(decisions, key=lambda line: (line.decided_at, line.id)):
        if one.tuning == known:
            continue
        # a version that is older than the one before it was used by another process; it brought nothing new
        since = [item for item in versions if (published or one.tuning - 1) < item.version <= one.tuning]
        yield {
            "at": _message(one.decided_at),
            "event": "tuning",
            "version": one.tuning,
            "was": known,
            "changes": [] if published is None else [_change(item) for item in since],
            **_published([item for item in since if item.version == one.tuning]),
        }
        known = one.tuning
        published = one.tuning if one.tuning > 0 else published


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
