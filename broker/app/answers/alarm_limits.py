"""From when on something is an alarm."""

from __future__ import annotations

from pydantic import Field

from broker.app.answers.asking import Answer
from broker.store.summaries.chunk_states import CHANGES_KEPT


class AlarmLimits(Answer):
    """The limits of alarms, as ``config/alarms.yaml`` sets them.

    Attributes:
        starving_hours: a task that waits for longer is starving, if tasks that came later were brokered meanwhile.
        flapping_changes: a chunk is flapping whose outcome or reason changed so often within ``flapping_hours``.
        flapping_hours: see there.
        failing_jobs: a queue is failing when at least so many jobs failed there,
        failing_tasks: of at least so many tasks,
        failing_percent: and at least this part of all that ended,
        failing_hours: within this time.
        refused_cycles: an agent refuses when so many of its last cycles, one after another, were refused.
    """

    starving_hours: float = Field(default=12.0, gt=0)
    flapping_changes: int = Field(default=6, ge=2, le=CHANGES_KEPT)
    flapping_hours: float = Field(default=6.0, gt=0)
    failing_jobs: int = Field(default=20, ge=1)
    failing_tasks: int = Field(default=3, ge=1)
    failing_percent: float = Field(default=50.0, gt=0, le=100)
    failing_hours: float = Field(default=6.0, gt=0)
    refused_cycles: int = Field(default=3, ge=1)
