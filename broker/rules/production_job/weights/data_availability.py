"""Queues that have the input come first."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Floats
from broker.rules.contract import JobPairs, Weight

FILES_PER_HALVING = 100.0


class DataAvailability(Weight[JobPairs]):
    """``(total + available) / total / (missing files / 100 + 1)``, in bytes on disk; 1 without input.

    Source: ATLAS Production Job Brokerage, data availability.
    """

    name = "data_availability"
    code = "data_availability"
    title = "Prefers queues that have the input on disk"
    sources = ("replicas",)
    unknown_policy = "keep"

    def factor(self, pairs: JobPairs) -> Floats:
        """(T, Q): from almost 0 to 2. What is not known to be there is missing."""
        # in place: this is one of the few rules that compute on every chunk and candidate; fmax takes NaN as missing
        has_input = pairs.facts.total_bytes > 0
        if not has_input.any():
            return np.ones((1, 1))
        total = np.where(has_input, pairs.facts.total_bytes, 1.0)
        factor = np.fmax(pairs.facts.available_bytes, 0.0)
        factor += total
        factor /= total
        missing_files = pairs.facts.total_files - np.fmax(pairs.facts.available_files, 0.0)
        np.maximum(missing_files, 0.0, out=missing_files)
        missing_files /= FILES_PER_HALVING
        missing_files += 1.0
        factor /= missing_files
        return factor if has_input.all() else np.where(has_input, factor, 1.0)
