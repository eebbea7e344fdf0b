"""Queues with far more waiting jobs than elsewhere get no more, regardless of their storage."""

from __future__ import annotations

import numpy as np

from broker.rules.analysis_job.filters.avoid_vp import MIN_QUEUE, RATIO_OFFSET, overloaded
from broker.rules.contract import AnalysisPairs, Bools, GroupFilter, Observation, Reason, Value, flag, number


class Overloaded(GroupFilter[AnalysisPairs]):
    """The queue is not overloaded, or all are and it has the input without virtual placement.

    Rejects queues with more queued jobs of the share than OVERLOAD_MIN_QUEUE, and more for each running one than
    OVERLOAD_RATIO_OFFSET x the share has everywhere. If no other is left, those without virtual placement stay. Not for
    merging. Source: PanDA analysis brokerage, overload.
    """

    name = "overloaded"
    reason = Reason(
        code="overloaded",
        title="The queue is not overloaded, or all are",
        violation="Far more jobs of the share wait at the queue for each running one than elsewhere",
        no_candidate="is free of overload",
        who="wait",
        cure="Wait until the queue has worked off its jobs. Operators may raise `OVERLOAD_MIN_QUEUE`.",
    )
    keys = (MIN_QUEUE, RATIO_OFFSET)
    sources = ("jobs", "storages")
    provenance = "PanDA analysis brokerage, overload"

    def applies(self, pairs: AnalysisPairs) -> Bools:
        """Chunks that do not merge."""
        return np.asarray(~pairs.chunks.merging)

    def keep_among(self, alive: Bools, pairs: AnalysisPairs) -> Bools:
        """(T, Q): true where the queue is not overloaded, or all are."""
        over = overloaded(pairs.facts, pairs.tuning)
        others = (alive & ~over).any(axis=1, keepdims=True)
        return np.asarray(~over | (~others & pairs.facts.without_vp))

    def observe(self, pairs: AnalysisPairs) -> Observation:
        """Whether the queue is overloaded."""
        known = pairs.facts
        queued = known.defined + known.assigned + known.activated + known.starting
        inputs: dict[str, Value] = {"queued": number(queued), "running": number(known.running)}
        return Observation(flag(overloaded(known, pairs.tuning)), "==", False, "-", MIN_QUEUE, inputs)
