"""Decisions with their origin and outcome, as stored and read back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from broker.domain.decisions import Decision


class TaskSelection(Protocol):
    """Chooses the tasks for which other tuning values are tried: a canary."""

    def chooses(self, jeditaskid: int) -> bool:
        """Whether the values are tried on this task."""


@dataclass(frozen=True)
class Origin:
    """Fields that all decisions of a cycle share.

    Attributes:
        agent_run: the run that decided.
        decided_at: the instant for which it decided (aware).
        snapshot: id of the snapshot.
        tuning: version of the gdpconfig values.
        seed: of everything random.
        engine: version of the broker.
        canary: values tried on some of the tasks; of decisions that are read back, ``tuning`` says it.
        canary_tuning: version of the gdpconfig values for these tasks.
        only_recorded: whether nothing but the decisions was written, as alongside JEDI.
    """

    agent_run: int | None
    decided_at: datetime
    snapshot: str | None
    tuning: int
    seed: int
    engine: str
    canary: TaskSelection | None = None
    canary_tuning: int = 0
    only_recorded: bool = False

    def tuning_for(self, jeditaskid: int) -> int:
        """Version of the gdpconfig values by which a task was brokered."""
        chosen = self.canary is not None and self.canary.chooses(jeditaskid)
        return self.canary_tuning if chosen else self.tuning


@dataclass(frozen=True)
class DecisionRecord:
    """A decision with the jobs that were written of it.

    Attributes:
        decision: the decision.
        assigned: jobs by unified queue that were written (or, alongside PanDA, would have been made).
        pending_until: when the task is brokered again, if it has to wait.
        work: the decided chunk in the form in which it can be decided again.
    """

    decision: Decision
    assigned: Mapping[str, int] = field(default_factory=dict)
    pending_until: datetime | None = None
    work: bytes | None = None


@dataclass(frozen=True)
class StoredDecision:
    """A decision as it was read back.

    Attributes:
        id: number of its row.
        origin: of the cycle.
        record: the decision, and what became of it.
        seen_again: how many later cycles of the day came to the same, and have no row of their own.
        last_seen_at: the instant of the last of them; None if there was none.
        last_agent_run: its run.
    """

    id: int
    origin: Origin
    record: DecisionRecord
    seen_again: int = 0
    last_seen_at: datetime | None = None
    last_agent_run: int | None = None
