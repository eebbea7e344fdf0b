"""Queues can refuse tasks of high IO intensity."""

from __future__ import annotations

import numpy as np

from broker.domain.decisions import IOINTENSITY
from broker.domain.estimates import is_set
from broker.rules.contract import Bools, Filter, JobPairs, Observation, Reason, limit_number, number


class MaxIoIntensity(Filter[JobPairs]):
    """Rejects queues whose parameter ``max_io_intensity`` (kB/s) is smaller than the IO intensity of the task.

    Not for merging. Source: PanDA production brokerage, max IO intensity check.
    """

    name = "max_io_intensity"
    same_in_passes = True
    reason = Reason(
        code="max_io_intensity",
        title="The IO intensity is not larger than the queue takes",
        violation="The task reads and writes more than the queue takes",
        no_candidate="takes so much input and output",
        who="you",
        cure="Lower `ioIntensity` of the task if its jobs read and write less than stated, or make them read less. The "
        "site may raise `max_io_intensity`.",
        requests=(IOINTENSITY,),
        limit="queue.max_io_intensity",
    )
    sources = ("queues",)
    provenance = "PanDA production brokerage, max IO intensity check"

    def applies(self, pairs: JobPairs) -> Bools:
        """Chunks with an IO intensity that are not merged."""
        return np.asarray(is_set(pairs.chunks.iointensity) & ~pairs.chunks.merging)

    def keep(self, pairs: JobPairs) -> Bools:
        """(T, Q): true where the IO intensity is not larger than the parameter; NULL is no limit."""
        return np.asarray(~(pairs.chunks.iointensity > pairs.candidates.max_io_intensity))

    def observe(self, pairs: JobPairs) -> Observation:
        """The IO intensity of the task."""
        limit = limit_number(pairs.candidates.max_io_intensity)
        return Observation(number(pairs.chunks.iointensity), "<=", limit, "kB/s", "queue.max_io_intensity")
