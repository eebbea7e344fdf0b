"""Queues with too many waiting jobs get no more."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools, Floats
from broker.domain.decisions import Observation, Value
from broker.rules.contract import Load, LoadCut
from broker.rules.observing import flag, number

TIMES_RUNNING = 2.0
FAMILY = "NQUEUELIMITSITE"


class Cap(LoadCut):
    """Rejects queues with more waiting jobs of the share than twice the running ones and than NQUEUELIMITSITE.

    Waiting: defined, activated, starting, and assigned unless all input is local. The sum of activated and starting
    jobs, which has the same limit, is never larger. Express chunks are exempt. Source: ATLAS Production Job
    Brokerage, further filters.
    """

    name = "cap"
    code = "cap"
    title = "Not too many jobs of the share wait at the queue"
    keys = (FAMILY,)
    sources = ("jobs",)

    def keep(self, load: Load, weight: Floats) -> Bools:
        """Shape of ``load.running``."""
        return np.asarray((waiting_jobs(load) <= waiting_limit(load)) | load.express)

    def observe(self, load: Load, weight: Floats) -> Observation:
        """Waiting jobs; no limit for express chunks."""
        limit = None if flag(np.asarray(load.express)) else number(waiting_limit(load))
        inputs: dict[str, Value] = {
            "defined": number(load.defined),
            "activated": number(load.activated),
            "starting": number(load.starting),
            "assigned": number(load.assigned),
            "all_local": flag(load.all_local),
            "running": number(load.running),
        }
        return Observation(number(waiting_jobs(load)), "<=", limit, "jobs", FAMILY, inputs)


def waiting_jobs(load: Load) -> Floats:
    """Jobs of the share that wait at the queue; assigned ones do not count where all input is local."""
    assigned = np.where(load.all_local, 0.0, load.assigned)
    return np.asarray(load.defined + load.activated + load.starting + assigned)


def waiting_limit(load: Load) -> Floats:
    """How many may wait."""
    return np.asarray(np.maximum(load.queue_limit, TIMES_RUNNING * load.running))
