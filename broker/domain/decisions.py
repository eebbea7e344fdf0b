"""Decisions as data: outcome, funnel, candidates with every weight factor, and a reason for each rejected queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from broker.domain.reason import Reason

Outcome = Literal["brokered", "pending", "throttled", "skipped"]
Operator = Literal["<", "<=", ">", ">=", "==", "!=", "in", "not in", "matches"]
Persistence = Literal["persistent", "temporary"]
UnknownPolicy = Literal["keep", "reject"]
Value = float | int | str | bool | None

TASK_CHANGED, FILES_CHANGED = "task_changed", "files_changed"
"""Reasons of decisions that were right when they were made, and came too late.

The second is also the note of a decision of which some jobs were not written, with their number: ``files_changed:3``.
"""
TOO_LATE_REASONS = (
    Reason(
        code=TASK_CHANGED,
        title="the task changed, or stayed locked by another agent, while it was brokered",
        who="wait",
        cure="Wait for the next cycle, which reads the task as it is then; until then the decision before holds.",
    ),
    Reason(
        code=FILES_CHANGED,
        title="all files of the chunk changed while it was brokered",
        who="wait",
        cure="Wait for the next cycle, which reads the files as they are then; until then the decision before holds.",
    ),
)


def is_late(outcome: str) -> bool:
    """Whether a decision was not written: it says nothing about its chunk, which stays as the one before left it."""
    return outcome == "skipped"


@dataclass(frozen=True)
class Observation:
    """Why a rule decided as it did about one chunk and one candidate.

    The rule keeps the candidate when ``value operator limit`` holds. ``unit`` is that of both; ``key`` names what set
    the limit: a gdpconfig key, a CRIC field of the queue (``queue.maxrss``), a column of the task (``task.ramcount``)
    or
    ``rule`` for a constant of the specification. ``inputs`` are the figures from which value and limit were worked
    out.
    """

    value: Value
    operator: Operator
    limit: Value
    unit: str
    key: str
    inputs: dict[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class Candidate:
    """A chosen candidate: its final weight and each factor by name (the weight is their product)."""

    name: str
    weight: float
    factors: dict[str, float]
    bootstrap: bool = False


@dataclass(frozen=True)
class FunnelStep:
    """A rule that rejected candidates, and their number (pseudo-queues) before and after it."""

    code: str
    before: int
    after: int


@dataclass(frozen=True)
class Decision:
    """The decision of a brokerage about one task or chunk, with everything needed to decide it again.

    ``rejected`` maps pseudo-queues, and unified queues of which none was left, to the code of the rule. ``notes`` holds
    typed remarks (sources that were unknown and what was done about it).

    In a cycle they are packed: :class:`~broker.codec.packed_reasons.RejectedNames`,
    :class:`~broker.codec.packed_reasons.FunnelSteps`, :class:`~broker.domain.chosen_candidates.ChosenCandidates` and
    :class:`~broker.codec.packed_remarks.Notes` make names and words when they are read. Equal to plain ones they are.
    """

    jeditaskid: int
    datasetid: int | None
    ramcount: float | None
    brokerage: str
    outcome: Outcome
    reason: str
    candidates: Sequence[Candidate]
    rejected: Mapping[str, str]
    funnel: Sequence[FunnelStep]
    notes: Sequence[str] = ()

    def pending(self, reason: str) -> Decision:
        """Return the decision as pending: nothing is assigned and the work waits for ``reason``."""
        return replace(self, outcome="pending", reason=reason)
