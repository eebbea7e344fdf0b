"""From when on something is an alarm, by ``config/alarms.yaml``."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from agents.service.configuration import config_file, read_file
from broker.flow.answers.quality import DriftLimits
from broker.store.query_context import Answer
from broker.store.summaries.chunk_states import CHANGES_KEPT

FILE = "alarms.yaml"


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
        outputs_waiting_hours: a file that a job wrote waits for longer to be registered in Rucio.
        regret_percent: a cycle is worse that costs so much more than the best placement of its jobs,
        regret_bytes_percent: or moves so much of the input in vain,
        regret_rise: or either so many times what is usual.
        regret_cycles: so many cycles, one after another, must be worse, and as many better until it is over.
        regret_jobs: a cycle with fewer jobs does not count.
    """

    starving_hours: float = Field(default=12.0, gt=0)
    flapping_changes: int = Field(default=6, ge=2, le=CHANGES_KEPT)
    flapping_hours: float = Field(default=6.0, gt=0)
    failing_jobs: int = Field(default=20, ge=1)
    failing_tasks: int = Field(default=3, ge=1)
    failing_percent: float = Field(default=50.0, gt=0, le=100)
    failing_hours: float = Field(default=6.0, gt=0)
    refused_cycles: int = Field(default=3, ge=1)
    outputs_waiting_hours: float = Field(default=1.0, gt=0)
    regret_percent: float = Field(default=1000.0, gt=0)
    regret_bytes_percent: float = Field(default=75.0, gt=0)
    regret_rise: float = Field(default=1.5, gt=1)
    regret_cycles: int = Field(default=3, ge=1)
    regret_jobs: int = Field(default=20, ge=1)

    @property
    def drift(self) -> DriftLimits:
        """From when on cycles got worse."""
        return DriftLimits(
            self.regret_percent, self.regret_bytes_percent, self.regret_rise, self.regret_cycles, self.regret_jobs
        )


def load_limits(folder: Path | None) -> AlarmLimits:
    """The limits of ``alarms.yaml``: that in ``folder`` if it is there, else the shipped one.

    Raises:
        ConfigurationError: it has unknown names or values out of range, or cannot be read.
    """
    return read_file(config_file(FILE, folder), AlarmLimits)
