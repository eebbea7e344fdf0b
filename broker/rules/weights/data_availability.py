"""Queues that have the input come first."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Floats
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.contract import TuningView, Weight

FILES_PER_HALVING = 100.0


class DataAvailability(Weight):
    """``(total + available) / total / (missing files / 100 + 1)``, in bytes on disk; 1 without input.

    Source: ATLAS Production Job Brokerage, data availability.
    """

    name = "data_availability"
    code = "data_availability"
    title = "Prefers queues that have the input on disk"
    sources = ("replicas",)
    unknown_policy = "keep"

    def factor(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Floats:
        """(T, Q): from almost 0 to 2. What is not known to be there is missing."""
        has_input = facts.total_bytes > 0
        if not has_input.any():
            return np.ones((1, 1))
        total = np.where(has_input, facts.total_bytes, 1.0)
        missing_files = np.maximum(facts.total_files - np.nan_to_num(facts.available_files), 0.0)
        factor = (total + np.nan_to_num(facts.available_bytes)) / total
        factor /= missing_files / FILES_PER_HALVING + 1.0
        return np.where(has_input, factor, 1.0)
