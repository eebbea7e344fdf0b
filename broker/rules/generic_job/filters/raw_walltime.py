"""The walltime of a task must lie between the limits of the queue."""

from __future__ import annotations

import numpy as np

from broker.domain.decisions import WALLTIME
from broker.domain.estimates import is_set
from broker.rules.contract import Bools, Filter, JobPairs, Observation, Reason, Value, number


class RawWalltime(Filter[JobPairs]):
    """Rejects queues if ``walltime`` of the task is above ``maxtime`` or below ``mintime``; 0 is no limit.

    The figures are compared as they stand, without CPU time, cores or core power. A queue without ``maxtime`` cannot be
    judged. Source: PanDA JEDI, GenJobBroker.
    """

    name = "raw_walltime"
    reason = Reason(
        code="walltime",
        title="The walltime of the task is within the limits of the queue",
        violation="The walltime of the task is outside the limits of the queue",
        no_candidate="takes jobs of this walltime",
        who="you",
        cure="Change `walltime` of the task (`prun --maxWalltime`), or leave it out.",
        requests=(WALLTIME,),
        limit="queue.maxtime",
    )
    sources = ("queues",)
    provenance = "PanDA JEDI, GenJobBroker"

    def applies(self, pairs: JobPairs) -> Bools:
        """Chunks of tasks with a walltime."""
        return is_set(pairs.chunks.walltime)

    def unknown(self, pairs: JobPairs) -> Bools:
        """(1, Q): the queue has no ``maxtime``."""
        return np.isnan(pairs.candidates.maxtime_s)

    def keep(self, pairs: JobPairs) -> Bools:
        """(T, Q): True where the candidate passes."""
        walltime, queues = pairs.chunks.walltime, pairs.candidates
        not_above = (queues.maxtime_s == 0) | (walltime <= queues.maxtime_s)
        return np.asarray(not_above & (~is_set(queues.mintime_s) | (walltime >= queues.mintime_s)))

    def observe(self, pairs: JobPairs) -> Observation:
        """The walltime, against the limit that it breaks, else against the upper one."""
        walltime, queues = pairs.chunks.walltime, pairs.candidates
        lower, upper = number(queues.mintime_s), number(queues.maxtime_s)
        limits: dict[str, Value] = {"mintime_s": lower, "maxtime_s": upper}
        if bool((is_set(queues.mintime_s) & (walltime < queues.mintime_s)).item()):
            return Observation(number(walltime), ">=", lower, "s", "queue.mintime", limits)
        # without a limit nothing is compared; an unknown limit is reported as -1
        limit = None if upper == 0 else -1.0 if upper is None else upper
        return Observation(number(walltime), "<=", limit, "s", "queue.maxtime", limits)
