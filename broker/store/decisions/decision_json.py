"""Conversion of stored decisions to JSON, with the column names of ``broker.decisions``, and back."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from broker.domain.decisions import Candidate, StoredDecision
from broker.store.decisions.decision_rows import stored_decision

_PLAIN = (
    "id", "agent_run", "jeditaskid", "datasetid", "ramcount", "brokerage", "outcome", "reason", "decided_at",
    "snapshot", "tuning", "seed", "engine", "assigned", "notes", "work", "pending_until",
)  # fmt: skip


def decision_to_json(stored: StoredDecision) -> dict[str, Any]:
    """Convert a decision to a JSON object, with its work in base64."""
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
        "candidates": [_candidate(candidate) for candidate in decision.candidates],
        "rejected": _by_code(decision.rejected),
        "assigned": dict(record.assigned),
        "notes": list(decision.notes),
        "work": None if record.work is None else base64.b64encode(record.work).decode(),
        "pending_until": None if until is None else until.astimezone(UTC).isoformat(),
    }


def decision_from_json(reported: Mapping[str, Any]) -> StoredDecision:
    """Convert the result of :func:`decision_to_json` back to a decision.

    Raises:
        KeyError: a column is missing.
        ValueError: a time or the work cannot be decoded.
    """
    row = {name: reported[name] for name in _PLAIN}
    row |= {f"named_{name}": reported[name] for name in ("funnel", "candidates", "rejected")}
    row |= dict.fromkeys(("legend", "reasons", "last_seen_at", "last_agent_run")) | {"seen_again": 0}
    row["decided_at"] = datetime.fromisoformat(row["decided_at"])
    row["pending_until"] = None if row["pending_until"] is None else datetime.fromisoformat(row["pending_until"])
    row["work"] = None if row["work"] is None else base64.b64decode(row["work"], validate=True)
    return stored_decision(row, None)


def _by_code(rejected: Mapping[str, str]) -> dict[str, list[str]]:
    """The rejected queues by reason, which takes half the space of a map from queue to reason."""
    queues: dict[str, list[str]] = {}
    for queue, code in rejected.items():
        queues.setdefault(code, []).append(queue)
    return queues


def _candidate(candidate: Candidate) -> dict[str, Any]:
    document: dict[str, Any] = {"name": candidate.name, "weight": candidate.weight, "factors": candidate.factors}
    return {**document, "bootstrap": True} if candidate.bootstrap else document
