"""What a queue says about moving its jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

PAUSED: Final = "paused"
DISABLE_REASSIGN: Final = "disableReassign"
UNREADABLE: Final = "unreadable"
Exemption = Literal["paused", "disableReassign", "unreadable"]


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
    exempt: Exemption | None = None
