"""Storages with much free space are better, up to a limit."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Floats
from broker.domain.grid import NucleusTable
from broker.domain.task_facts import TaskFacts
from broker.domain.task_work import AssigningTable
from broker.rules.contract import NucleusWeight, TuningView

CUTOFF = "FREE_DISK_CUTOFF"
GB_A_TB = 1024.0


class FreeSpace(NucleusWeight):
    """min(spaceFreeCutoff, spaceFree) in TB, of the storage with the smallest free part; 1 where that is not known.

    Source: ATLAS Production Task Brokerage, weight.
    """

    name = "free_space"
    code = "free_space"
    title = "Free space in TB, up to FREE_DISK_CUTOFF"
    keys = (CUTOFF,)
    sources = ("storages",)

    def factor(self, tasks: AssigningTable, nuclei: NucleusTable, facts: TaskFacts, tuning: TuningView) -> Floats:
        """(T, N)."""
        free_tb = np.minimum(tuning.number(CUTOFF), facts.free_gb / GB_A_TB)
        return np.where(facts.total_gb > 0, free_tb, 1.0)
