"""Queues for jumbo jobs take nothing else."""

from __future__ import annotations

import numpy as np

from broker.domain.facts import not_single
from broker.rules.contract import Bools, Filter, JobPairs, Observation, Reason, flag


class Jumbo(Filter[JobPairs]):
    """Rejects queues with ``useJumboJobs`` for chunks that are not jumbo. Not for a single pre-assigned queue.

    Source: PanDA production brokerage, jumbo job check.
    """

    name = "jumbo"
    reason = Reason(
        code="jumbo",
        title="Queues for jumbo jobs take no other jobs",
        violation="The queue takes jumbo jobs only",
        no_candidate="takes other than jumbo jobs",
        who="ask",
        cure="Other queues take the jobs. Where there are none, operators change `useJumboJobs` of the queue.",
    )
    sources = ("queues",)
    provenance = "PanDA production brokerage, jumbo job check"

    def applies(self, pairs: JobPairs) -> Bools:
        """Chunks that are not jumbo."""
        return np.asarray(~pairs.chunks.jumbo & not_single(pairs.facts))

    def keep(self, pairs: JobPairs) -> Bools:
        """(1, Q): true where the queue is not for jumbo jobs."""
        return np.asarray(~pairs.candidates.use_jumbo)

    def observe(self, pairs: JobPairs) -> Observation:
        """Whether the queue is one for jumbo jobs."""
        return Observation(flag(pairs.candidates.use_jumbo), "==", False, "-", "queue.useJumboJobs")
