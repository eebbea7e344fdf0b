"""The queue must have had pilots, for analysis tasks."""

from __future__ import annotations

import numpy as np

from broker.rules.contract import Bools, Filter, JobPairs, Observation, Reason, number


class TaskPilots(Filter[JobPairs]):
    """Rejects queues without pilots in the last 3 hours.

    Published slots do not substitute for pilots, and the rejection is persistent. Source: ATLAS Analysis Job Brokerage,
    queues without pilots.
    """

    name = "task_pilots"
    same_in_passes = True
    reason = Reason(
        code="nopilot",
        title="Pilots were seen at the queue in the last 3 hours",
        violation="No pilot was seen at the queue in the last 3 hours",
        no_candidate="has seen pilots recently",
        who="ask",
        cure="The site looks at its pilot factory and its batch system.",
    )
    sources = ("pilots",)
    provenance = "ATLAS Analysis Job Brokerage"

    def keep(self, pairs: JobPairs) -> Bools:
        """(1, Q): true where pilots were seen at the queue in the last 3 hours."""
        return np.asarray(pairs.facts.n_pilots > 0)

    def observe(self, pairs: JobPairs) -> Observation:
        """Pilots seen at the queue in the last 3 hours."""
        return Observation(number(pairs.facts.n_pilots), ">", 0.0, "pilots", "rule")
