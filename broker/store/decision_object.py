"""A decision as the one object that every interface shows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from broker.store.decisions import DecisionRecord, Origin


def decision_object(origin: Origin, record: DecisionRecord) -> dict[str, Any]:
    """The object of the command line's contract, in its order; numbers have full precision."""
    decision = record.decision
    return {
        "jeditaskid": decision.jeditaskid,
        "datasetid": decision.datasetid,
        "ramcount": decision.ramcount,
        "brokerage": decision.brokerage,
        "outcome": decision.outcome,
        "reason": decision.reason,
        "candidates": [{"name": one.name, "weight": one.weight, "factors": one.factors} for one in decision.candidates],
        "rejected": decision.rejected,
        "funnel": [[step.code, step.before, step.after] for step in decision.funnel],
        "assigned": dict(record.assigned),
        "pending_until": _moment(record.pending_until),
        "snapshot": origin.snapshot,
        "tuning": origin.tuning,
    }


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat()
