"""Until when a task waits that found no place."""

from __future__ import annotations

from datetime import datetime, timedelta

from broker.brokerages import analysis_job, production_task
from broker.domain.decisions import Decision
from broker.store.assignments import pending_minutes
from broker.store.task_reads import RETRY_AFTER


def waits_until(decision: Decision, now: datetime) -> datetime | None:
    """When the task is brokered again after a decision made for ``now``; None if it does not wait."""
    if decision.brokerage == production_task.NAME:
        return now + RETRY_AFTER if decision.outcome == "pending" else None
    if decision.outcome not in ("pending", "throttled"):
        return None
    return now + timedelta(minutes=pending_minutes(for_users=decision.brokerage == analysis_job.NAME))
