"""How long work waits that found no queue or nucleus, until it is brokered again."""

from __future__ import annotations

from datetime import timedelta

RETRY_AFTER = timedelta(minutes=30)
"""A task for which no nucleus was found. Source: ATLAS Production Task Brokerage."""

PENDING_MINUTES = 60
"""A task of which no queue is left waits for this long. Source: ATLAS Production Job Brokerage."""

PENDING_MINUTES_OF_USERS = 20
"""The same for a task of a user. Source: ATLAS Analysis Job Brokerage."""


def pending_minutes(*, for_users: bool) -> int:
    """How long a task waits of which no queue is left."""
    return PENDING_MINUTES_OF_USERS if for_users else PENDING_MINUTES
