"""Stored decisions as JSON, with the names of the columns of ``broker.decisions``, and back."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from broker.store.decisions import COLUMNS, StoredDecision, candidate_to_json, rejected_by_code, stored_decision


def decision_to_json(stored: StoredDecision) -> dict[str, Any]:
    """The row of a decision; its work in base 64."""
    origin, record, decision = stored.origin, stored.record, stored.record.decision
    until = record.pending_until
    return {
        "id": stored.id,
        "agent_run": origin.agent_run,
        "jeditaskid": decision.jeditaskid,
        "datasetid": decision.datasetid,
        "ramcount": decision.ramcount,
        "brokerage": decision.brokerage,
        "outcome": decision.outcome,
        "reason": decision.reason,
        "decided_at": origin.decided_at.astimezone(UTC).isoformat(),
        "snapshot": origin.snapshot,
        "tuning": origin.tuning,
        "seed": origin.seed,
        "engine": origin.engine,
        "funnel": [[step.code, step.before, step.after] for step in decision.funnel],
        "candidates": [candidate_to_json(one) for one in decision.candidates],
        "rejected": rejected_by_code(decision.rejected),
        "assigned": dict(record.assigned),
        "notes": list(decision.notes),
        "work": None if record.work is None else base64.b64encode(record.work).decode(),
        "pending_until": None if until is None else until.astimezone(UTC).isoformat(),
    }


def decision_from_json(told: Mapping[str, Any]) -> StoredDecision:
    """The inverse of :func:`decision_to_json`.

    Raises:
        KeyError: a column is missing.
        ValueError: a time or the work cannot be read.
    """
    row = {name: told[name] for name in ("id", *COLUMNS.split(", "))}
    row["decided_at"] = datetime.fromisoformat(row["decided_at"])
    row["pending_until"] = None if row["pending_until"] is None else datetime.fromisoformat(row["pending_until"])
    row["work"] = None if row["work"] is None else base64.b64decode(row["work"], validate=True)
    return stored_decision(row)
