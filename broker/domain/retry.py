"""How long work waits that found no queue or nucleus, until it is brokered again."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Literal

Redecide = Literal["timers", "each_cycle"]
"""When work that waits is decided again: after the times of the specification, or in each cycle."""

WAITING = ("pending", "throttled")
"""Outcomes of decisions after which the work waits."""

RETRY_AFTER = timedelta(minutes=30)
"""A task for which no nucleus was found. Source: ATLAS Production Task Brokerage."""

PENDING_MINUTES = 60
"""A task of which no queue is left waits for this long. Source: ATLAS Production Job Brokerage."""

PENDING_MINUTES_OF_USERS = 20
"""The same for a task of a user. Source: ATLAS Analysis Job Brokerage."""


def redecided(outcome: str, pending_until: datetime | None) -> Redecide | None:
    """When work is decided again after a decision; None where it does not wait."""
    if outcome not in WAITING:
        return None
    return "each_cycle" if pending_until is None else "timers"


def first_redecided(decisions: Iterable[tuple[str, datetime | None]]) -> Redecide | None:
    """When the first of several decisions, given by outcome and end of waiting, is decided again; None: never."""
    found = {redecided(*one) for one in decisions}
    return "each_cycle" if "each_cycle" in found else "timers" if "timers" in found else None


def pending_minutes(*, for_users: bool) -> int:
    """How long a task waits of which no queue is left."""
    return PENDING_MINUTES_OF_USERS if for_users else PENDING_MINUTES
