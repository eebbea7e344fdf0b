"""Tasks that read input only directly from storage need queues that allow it."""

from __future__ import annotations

import numpy as np

from broker.domain.estimates import LAN_INPUT_ONLY
from broker.rules.contract import Bools, Filter, JobPairs, Observation, Reason, Value, flag, number

ALWAYS_DIRECT = -1.0


class DirectAccess(Filter[JobPairs]):
    """Rejects queues without direct access over LAN, for tasks that allow nothing else (split rule ``IL=2``).

    A queue with ``maxinputsize`` -1 always reads directly. Not for merging. Source: ATLAS Production Job Brokerage,
    direct access.
    """

    name = "direct_access"
    reason = Reason(
        code="remoteio",
        title="The queue reads input directly from storage, for tasks that need it",
        violation="The task reads its input directly from storage, which the queue does not allow",
        no_candidate="reads input remotely",
        who="ask",
        cure="The site sets `direct_access_lan` of the queue, or the task is submitted so that it copies its input "
        "(without `--forceDirectIO`).",
    )
    sources = ("queues",)

    def applies(self, pairs: JobPairs) -> Bools:
        """Chunks of tasks that only read directly."""
        return np.asarray((pairs.chunks.allow_input_lan == LAN_INPUT_ONLY) & ~pairs.chunks.merging)

    def keep(self, pairs: JobPairs) -> Bools:
        """(1, Q): true where the queue reads input directly from storage."""
        return np.asarray(pairs.candidates.direct_access_lan | (pairs.candidates.maxinputsize_mb == ALWAYS_DIRECT))

    def observe(self, pairs: JobPairs) -> Observation:
        """Whether the queue reads directly."""
        able = flag(self.keep(pairs))
        inputs: dict[str, Value] = {"maxinputsize_mb": number(pairs.candidates.maxinputsize_mb)}
        return Observation(able, "==", True, "-", "queue.direct_access_lan", inputs)
