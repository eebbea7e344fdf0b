"""Outcomes of replayed cycles as columns, and a decision as the object that every interface shows.

:class:`ReplayedColumns` needs no decision, name or text for each of the T pieces of work.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from broker.domain.arrays import AnyArray, Bools, Texts
from broker.domain.decisions import DecisionRecord, Origin
from broker.engine.analysis.throttle import Throttle


@dataclass(frozen=True)
class OutcomeColumns:
    """The outcomes of T pieces of work (input chunks, or tasks that want a nucleus) over Q candidates.

    Attributes:
        outcome: (T,) as in a decision.
        reason: (T,) why there are no candidates; empty if there are.
        chosen: (T, Q) the candidates.
        jobs: (T, Q) jobs assigned to the candidate; for tasks, 1 at the nucleus that was drawn.
        position: (T, Q) index into ``codes`` of what rejected the candidate; negative where nothing did.
        codes: of everything that may reject, by index.
    """

    outcome: Texts
    reason: Texts
    chosen: Bools
    jobs: AnyArray
    position: AnyArray
    codes: tuple[str, ...]


@dataclass(frozen=True)
class ReplayedColumns(OutcomeColumns):
    """The outcomes of a replayed cycle.

    Attributes:
        names: (Q,) of the candidates.
        cycle: that decided; another one can reuse its data.
    """

    names: Texts
    cycle: Any


def decision_object(origin: Origin, record: DecisionRecord) -> dict[str, Any]:
    """The decision as specified by the command line's contract, in its order; numbers have full precision."""
    decision = record.decision
    reported: dict[str, Any] = {
        "jeditaskid": decision.jeditaskid,
        "datasetid": decision.datasetid,
        "ramcount": None if decision.ramcount is None else int(decision.ramcount),  # whole MB, as in the table
        "brokerage": decision.brokerage,
        "outcome": decision.outcome,
        "reason": decision.reason,
        "candidates": [{"name": one.name, "weight": one.weight, "factors": one.factors} for one in decision.candidates],
        "rejected": dict(decision.rejected),
        "funnel": [[step.code, step.before, step.after] for step in decision.funnel],
        "assigned": dict(record.assigned),
        "pending_until": _moment(record.pending_until),
        "snapshot": origin.snapshot,
        "tuning": origin.tuning_for(decision.jeditaskid),
    }
    if decision.outcome == "throttled":
        reported["throttle"] = next((_throttle(note) for note in decision.notes if note.startswith("throttle:")), None)
    return reported


def decision_line(record: DecisionRecord) -> dict[str, Any]:
    """Summary of a decision for a line of a table, without the reasons for each candidate."""
    decision = record.decision
    return {
        "jeditaskid": decision.jeditaskid,
        "datasetid": decision.datasetid,
        "ramcount": None if decision.ramcount is None else int(decision.ramcount),
        "brokerage": decision.brokerage,
        "outcome": decision.outcome,
        "reason": decision.reason,
        "candidate_count": len(decision.candidates),
        "assigned": dict(record.assigned),
    }


def _throttle(note: str) -> dict[str, Any] | None:
    """The condition, the measured figure and the cap that it exceeds."""
    throttle = Throttle.read(note)
    return None if throttle is None else dataclasses.asdict(throttle)


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat()
