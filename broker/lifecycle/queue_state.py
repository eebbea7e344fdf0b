"""What a queue says about moving its jobs."""

from __future__ import annotations

from dataclasses import dataclass

PAUSED = "paused"
DISABLE_REASSIGN = "disableReassign"
UNREADABLE = "unreadable"


@dataclass(frozen=True)
class QueueState:
    """A queue on record.

    Attributes:
        name: as jobs name it.
        status: of CRIC; None when it has none.
        exempt: why its jobs are not touched by any rule (``paused``, ``disableReassign``, or ``unreadable``: what it
            says of these two is not known); None when they may be.
    """

    name: str
    status: str | None
    exempt: str | None = None
