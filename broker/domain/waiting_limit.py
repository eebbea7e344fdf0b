"""The number of jobs that may wait where some run, defined once for rules and the compiled loop."""

from __future__ import annotations

from typing import Any

import numpy as np


def waiting_limit(at_least: Any, times_running: Any, running: Any) -> Any:
    """``max(at_least, times_running x running)``: arrays that broadcast, or, in the compiled loop, numbers.

    NaN if either is. Source: ATLAS Production Job Brokerage, further filters.

    Args:
        at_least: jobs that may wait even if none run.
        times_running: jobs that may wait for each running job.
        running: running jobs.
    """
    return np.maximum(at_least, times_running * running)
