"""Storages with much free space are better, up to a limit."""

from __future__ import annotations

from typing import Literal

import numpy as np

from broker.rules.contract import Floats, Options, TaskPairs, Weight

CUTOFF = "FREE_DISK_CUTOFF"
GB_A_TB = 1024.0


class FreeSpaceOptions(Options):
    """The space that counts: what is free, or in whole TB what will be left of usable space when all work is done."""

    space: Literal["free", "left_in_whole_tb"] = "free"


class FreeSpace(Weight[TaskPairs]):
    """min(spaceFreeCutoff, spaceFree) in TB, of the storage with the smallest free part; 1 where it is unknown.

    Source: ATLAS Production Task Brokerage, weight.
    """

    name = "free_space"
    code = "free_space"
    title = "Free space in TB, up to FREE_DISK_CUTOFF"
    provenance = "ATLAS Production Task Brokerage"
    keys = (CUTOFF,)
    sources = ("storages",)
    options: FreeSpaceOptions = FreeSpaceOptions()

    def factor(self, pairs: TaskPairs) -> Floats:
        """(T, N): free space in TB, up to FREE_DISK_CUTOFF."""
        if self.options.space == "left_in_whole_tb":
            left_tb = np.minimum(pairs.tuning.number(CUTOFF), np.floor(pairs.facts.tightest_left_gb / GB_A_TB))
            return np.where(pairs.facts.tightest_total_gb > 0, left_tb, 1.0)
        free_tb = np.minimum(pairs.tuning.number(CUTOFF), pairs.facts.free_gb / GB_A_TB)
        return np.where(pairs.facts.total_gb > 0, free_tb, 1.0)
