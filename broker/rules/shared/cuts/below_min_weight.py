"""Queues of small weight get nothing."""

from __future__ import annotations

import numpy as np

from broker.rules.contract import (
    LOAD_FAMILIES,
    Bools,
    CompiledStep,
    Floats,
    Load,
    LoadCut,
    Observation,
    Reason,
    flag,
    number,
)

FAMILY = LOAD_FAMILIES["min_weight"]


class BelowMinWeight(LoadCut):
    """Rejects queues whose weight is smaller than MIN_WEIGHT of the label and share; 0 switches it off.

    Queues that have no job of the share and are to get first ones are exempt. Source: PanDA production brokerage, caps
    and ordering.
    """

    name = "below_min_weight"
    reason = Reason(
        code="below_min_weight",
        title="The weight reaches the smallest weight of the share",
        violation="The queue weighs less than the smallest weight of the share",
        no_candidate="has enough weight",
        who="wait",
        cure="Wait: the weight grows as jobs start at the queue. Operators may lower `MIN_WEIGHT`.",
    )
    keys = (FAMILY,)
    provenance = "PanDA production brokerage, caps and ordering"

    @property
    def compiled_step(self) -> CompiledStep:
        """The step ``below_min_weight`` of the compiled loop."""
        return CompiledStep("below_min_weight", keys={"min_weight": FAMILY})

    def keep(self, load: Load, weight: Floats) -> Bools:
        """Shape of ``load.running``: true where the weight is enough, or the queue is to get its first jobs."""
        return np.asarray(~(weight < load.min_weight) | load.bootstrap)

    def observe(self, load: Load, weight: Floats) -> Observation:
        """The weight; no limit for queues that are to get their first jobs."""
        limit = None if flag(load.bootstrap) else number(np.asarray(load.min_weight))
        return Observation(number(weight), ">=", limit, "weight", FAMILY, {"running": number(load.running)})
