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
        facts = pairs.facts
        has_input = facts.total_bytes > 0
        if not has_input.any():
            return np.ones((1, 1))
        # nearly everywhere nothing is there, which weighs the same at every queue
        none = np.zeros((1, 1))
        nowhere = np.where(has_input, _factor(facts.total_bytes, facts.total_files, none, none), 1.0)
        factor = np.broadcast_to(nowhere, facts.available_bytes.shape).copy()
        some = (facts.available_bytes != 0) | (facts.available_files != 0)
        chunk, queue = (some & has_input).nonzero()
        factor[chunk, queue] = _factor(
            facts.total_bytes[chunk, 0],
            facts.total_files[chunk, 0],
            facts.available_bytes[chunk, queue],
            facts.available_files[chunk, queue],
        )
        return factor


def _factor(total_bytes: Floats, total_files: Floats, bytes_there: Floats, files_there: Floats) -> Floats:
    """The factor where there is input; fmax takes NaN as missing."""
    total = np.where(total_bytes > 0, total_bytes, 1.0)
    share = (np.fmax(bytes_there, 0.0) + total) / total
    missing_files = np.maximum(total_files - np.fmax(files_there, 0.0), 0.0)
    return np.asarray(share / (missing_files / FILES_PER_HALVING + 1.0))
