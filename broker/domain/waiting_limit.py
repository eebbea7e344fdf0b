"""How many jobs may wait where some run: the one place in which rules and the compiled loop find it."""

from __future__ import annotations

from typing import Any

import numpy as np


def waiting_limit(at_least: Any, times_running: Any, running: Any) -> Any:
    """``max(at_least, times_running x running)``: arrays that broadcast, or, in the compiled loop, numbers.

    NaN where either is. Source: ATLAS Production Job Brokerage, further filters.

    Args:
        at_least: jobs that may wait even where none run.
        times_running: so many may wait for each that runs.
        running: jobs.
    """
    return np.maximum(at_least, times_running * running)
