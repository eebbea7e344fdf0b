"""The queue must have had pilots, for tasks of users."""

from __future__ import annotations

from broker.rules.filters.pilots import Pilots


class TaskPilots(Pilots):
    """Rejects queues without pilots in the last 3 hours.

    As in production, but published slots do not make up for pilots, and it is a reason to look elsewhere for good.
    Source: ATLAS Analysis Job Brokerage, queues without pilots.
    """

    name = "task_pilots"
    kind = "persistent"
    provenance = "ATLAS Analysis Job Brokerage"
