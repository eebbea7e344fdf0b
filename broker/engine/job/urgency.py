"""Which chunks are express. Source: ATLAS Production Job Brokerage, urgent tasks."""

from __future__ import annotations

from typing import Literal

import numpy as np

from broker.domain.arrays import Bools, Floats, Texts
from broker.rules.contract import Options, Step

URGENT = "urgent"
URGENT_PRIORITY = 1000.0


class UrgencyOptions(Options):
    """Which priorities are express: ``from_1000``, or only those ``above_1000``."""

    priority: Literal["from_1000", "above_1000"] = "from_1000"


class Urgency(Step):
    """Express chunks: processingType ``urgent``, or a high priority."""

    name = "urgency"
    title = "Which chunks are express"
    options: UrgencyOptions = UrgencyOptions()

    def urgent(self, processingtype: Texts, priority: Floats) -> Bools:
        """Shape of the arguments."""
        high = priority >= URGENT_PRIORITY if self.options.priority == "from_1000" else priority > URGENT_PRIORITY
        return np.asarray((processingtype == URGENT) | high, dtype=np.bool_)
