"""A task may be bound to a cloud."""

from __future__ import annotations

from typing import Literal

import numpy as np

from broker.rules.contract import AnalysisPairs, Bools, Filter, Observation, Options, Reason, text

PROVENANCE = "ATLAS Analysis Job Brokerage"
#: PanDA calls all clouds together WORLD.
ANY_CLOUD = ("", "any", "WORLD")


class CloudMismatchOptions(Options):
    """Whether WORLD stands for all clouds, or is a cloud like any other."""

    world: Literal["all", "cloud"] = "all"


class CloudMismatch(Filter[AnalysisPairs]):
    """The queue is of the cloud of the task.

    Rejects queues of a cloud other than the task's.

    Source: PanDA analysis brokerage, filters.
    """

    name = "cloud_mismatch"
    same_in_passes = True
    reason = Reason(
        code="cloudmismatch",
        title="The queue is of the cloud of the task",
        violation="The queue is in another cloud than the task names",
        no_candidate="is in the cloud that the task names",
        who="you",
        cure="Submit without a cloud, or with the cloud of the queue.",
    )
    sources = ("queues",)
    provenance = PROVENANCE
    options: CloudMismatchOptions = CloudMismatchOptions()

    def applies(self, pairs: AnalysisPairs) -> Bools:
        """Chunks of tasks that are bound to a cloud."""
        free = ANY_CLOUD if self.options.world == "all" else ANY_CLOUD[:2]
        bound = [[cloud is not None and cloud not in free] for cloud in pairs.chunks.cloud[:, 0]]
        return np.array(bound, dtype=np.bool_).reshape(-1, 1)

    def keep(self, pairs: AnalysisPairs) -> Bools:
        """(T, Q): true where the queue is of the cloud of the task."""
        return np.asarray(pairs.facts.cloud_of_queue == pairs.chunks.cloud)

    def observe(self, pairs: AnalysisPairs) -> Observation:
        """The cloud of the queue."""
        return Observation(text(pairs.facts.cloud_of_queue), "==", text(pairs.chunks.cloud), "-", "task.cloud")
