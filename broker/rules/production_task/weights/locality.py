"""Nuclei with much of the input are better for tasks of high IO intensity."""

from __future__ import annotations

import numpy as np

from broker.rules.contract import Floats, TaskPairs, Weight
from broker.rules.production_task.data_locality import (
    COUNT_KEYS,
    INSIZE,
    LOW_INTENSITY,
    counts_in_weight,
    locality_options,
)


class Locality(Weight[TaskPairs]):
    """localInputSize / totalInputSize, on disk or tape, for tasks of high or unknown IO intensity, else 1.

    Also 1 without input, and where the check of data locality was waived. Source: ATLAS Production Task Brokerage,
    weight.
    """

    name = "locality"
    code = "locality"
    title = "Share of the input that is at the nucleus"
    provenance = "ATLAS Production Task Brokerage"
    keys = (LOW_INTENSITY, *COUNT_KEYS)
    sources = ("replicas",)
    reads = (INSIZE,)

    def factor(self, pairs: TaskPairs) -> Floats:
        """(T, N): share of the input that is at the nucleus."""
        high = ~(pairs.tasks.iointensity <= pairs.tuning.number(LOW_INTENSITY))
        counts = high & counts_in_weight(pairs.tasks, pairs.facts, pairs.tuning, locality_options(pairs))
        share = np.divide(pairs.facts.any_bytes, pairs.facts.total_bytes, out=np.ones(counts.shape), where=counts)
        return np.asarray(share)
