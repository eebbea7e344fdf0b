"""Tasks may request the nucleus alone."""

from __future__ import annotations

from typing import Literal

import numpy as np

from broker.rules.contract import Bools, Filter, JobPairs, Observation, Options, Reason, flag

NUCLEUS_ONLY = -1.0


class T1weightOptions(Options):
    """Which tasks require the nucleus alone, and which queues count as the nucleus.

    Attributes:
        asking: those with t1Weight -1, or with any negative one.
        sharing: queues that write where the nucleus reads count as its own.
    """

    asking: Literal["minus_one", "any_negative"] = "minus_one"
    sharing: bool = False


class T1weight(Filter[JobPairs]):
    """Keeps only queues at the nucleus for tasks whose t1Weight (split rule ``TW``) is -1. Not for merging.

    Other negative values have no effect. Source: ATLAS Production Job Brokerage, t1Weight.
    """

    name = "t1weight"
    reason = Reason(
        code="t1weight",
        title="The queue is at the nucleus, for tasks with t1Weight -1",
        violation="The task runs at its nucleus only, and the queue is elsewhere",
        no_candidate="is at the nucleus, as the task asks",
        who="you",
        cure="Wait for the queues of the nucleus, or submit the task without `t1Weight` -1.",
    )
    sources = ("queues",)
    options: T1weightOptions = T1weightOptions()

    def applies(self, pairs: JobPairs) -> Bools:
        """Chunks of tasks with t1Weight -1 that are not merged."""
        weight = pairs.chunks.t1weight
        asks = weight == NUCLEUS_ONLY if self.options.asking == "minus_one" else weight < 0
        return np.asarray(asks & ~pairs.chunks.merging)

    def keep(self, pairs: JobPairs) -> Bools:
        """(T, Q): true where the queue is at the nucleus, for tasks with t1Weight -1."""
        here = pairs.facts.at_nucleus
        return here | pairs.facts.shares_storage if self.options.sharing else here

    def observe(self, pairs: JobPairs) -> Observation:
        """Whether the queue is at the nucleus."""
        return Observation(flag(self.keep(pairs)), "==", True, "-", "task.splitrule.TW")
