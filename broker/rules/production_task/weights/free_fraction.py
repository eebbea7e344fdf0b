"""Storages with a large part free are better."""

from __future__ import annotations

from typing import Literal

import numpy as np

from broker.rules.contract import Floats, Options, TaskPairs, Weight


class FreeOptions(Options):
    """The space that counts: what is free (and expired), or what will be left of usable space when all work is done."""

    space: Literal["free", "left"] = "free"


class FreeFraction(Weight[TaskPairs]):
    """(spaceFree + spaceExpired) / spaceTotal of the storage where it is smallest; 1 where it is unknown.

    Source: ATLAS Production Task Brokerage, weight.
    """

    name = "free_fraction"
    code = "free_fraction"
    title = "Part of the storage that is free or expired"
    provenance = "ATLAS Production Task Brokerage"
    sources = ("storages",)
    options: FreeOptions = FreeOptions()

    def factor(self, pairs: TaskPairs) -> Floats:
        """(T, N): part of the storage that is free or expired."""
        if self.options.space == "left":
            return np.where(
                pairs.facts.tightest_total_gb > 0, pairs.facts.tightest_left_gb / pairs.facts.tightest_total_gb, 1.0
            )
        known = pairs.facts.total_gb > 0
        share = np.divide(
            pairs.facts.free_gb + pairs.facts.expired_gb, pairs.facts.total_gb, out=np.ones(known.shape), where=known
        )
        return np.asarray(share)
