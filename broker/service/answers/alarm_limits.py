"""The limits beyond which something is an alarm, from ``config/alarms.yaml``."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from agents.service.configuration import config_file, read_file
from broker.flow.answers.quality import DriftLimits
from broker.store.query_context import ResponseModel
from broker.store.summaries.chunk_states import MOST_CHANGES

FILE = "alarms.yaml"


class AlarmLimits(ResponseModel):
    """The limits of alarms, as ``config/alarms.yaml`` sets them.

    Attributes:
        starving_hours: a task that waits longer is starving if later tasks were brokered meanwhile.
        flapping_changes: a chunk is flapping if its outcome or reason changed this often within ``flapping_hours``.
        flapping_hours: period of ``flapping_changes``.
        failing_jobs: minimum number of failed jobs at a failing queue.
        failing_tasks: minimum number of tasks of these jobs.
        failing_percent: minimum percentage of failures among all jobs that ended.
        failing_hours: period of the failures.
        refused_cycles: an agent refuses when this many consecutive last cycles were refused.
        outputs_waiting_hours: maximum wait of an output file for its registration in Rucio.
        regret_percent: a cycle is worse if it costs this much more than the best placement of its jobs,
        regret_bytes_percent: or moves this much of the input unnecessarily,
        regret_rise: or either exceeds its usual value by this factor.
        regret_cycles: number of consecutive cycles that must be worse, and better again to end the alarm.
        regret_jobs: cycles with fewer jobs do not count.
    """

    starving_hours: float = Field(default=12.0, gt=0)
    flapping_changes: int = Field(default=6, ge=2, le=MOST_CHANGES)
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
        """The limits beyond which cycles count as worse."""
        return DriftLimits(
            self.regret_percent, self.regret_bytes_percent, self.regret_rise, self.regret_cycles, self.regret_jobs
        )


def load_limits(folder: Path | None) -> AlarmLimits:
    """Load the limits of ``alarms.yaml``: the file in ``folder`` if there is one, else the shipped file.

    Raises:
        ConfigurationError: the file has unknown names or values out of range, or cannot be read.
    """
    return read_file(config_file(FILE, folder), AlarmLimits)
