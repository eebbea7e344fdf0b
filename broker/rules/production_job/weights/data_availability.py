"""Queues that have the input come first."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import RowsByKind
from broker.rules.contract import Floats, JobPairs, Weight

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

    def factor(self, pairs: JobPairs) -> Floats | RowsByKind:
        """(T, Q): a factor from almost 0 to 2; input of unknown location counts as missing."""
        facts = pairs.facts
        has_input = facts.total_bytes > 0
        if not has_input.any():
            return np.ones((1, 1))
        there, files_there = facts.by_kind("available_bytes"), facts.by_kind("available_files")
        factor = _factor(facts.total_bytes, facts.total_files, there.by_chunk, files_there.by_chunk)
        if not has_input.all():
            factor[~has_input[:, 0]] = 1.0
        return there.of_chunks(factor)


def _factor(total_bytes: Floats, total_files: Floats, bytes_there: Floats, files_there: Floats) -> Floats:
    """The factor where there is input, computed in place over all pairs; fmax takes NaN as missing."""
    total = np.where(total_bytes > 0, total_bytes, 1.0)
    factor = np.fmax(bytes_there, 0.0)
    factor += total
    factor /= total
    missing_files = total_files - np.fmax(files_there, 0.0)
    np.maximum(missing_files, 0.0, out=missing_files)
    missing_files /= FILES_PER_HALVING
    missing_files += 1.0
    factor /= missing_files
    return factor
