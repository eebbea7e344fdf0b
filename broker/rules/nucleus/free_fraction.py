"""Storages with a large part free are better."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Floats
from broker.domain.grid import NucleusTable
from broker.domain.task_facts import TaskFacts
from broker.domain.task_work import AssigningTable
from broker.rules.contract import NucleusWeight, TuningView


class FreeFraction(NucleusWeight):
    """(spaceFree + spaceExpired) / spaceTotal of the storage with the smallest of it; 1 where that is not known.

    Source: ATLAS Production Task Brokerage, weight.
    """

    name = "free_fraction"
    code = "free_fraction"
    title = "Part of the storage that is free or expired"
    sources = ("storages",)

    def factor(self, tasks: AssigningTable, nuclei: NucleusTable, facts: TaskFacts, tuning: TuningView) -> Floats:
        """(T, N)."""
        known = facts.total_gb > 0
        share = np.divide(facts.free_gb + facts.expired_gb, facts.total_gb, out=np.ones(known.shape), where=known)
        return np.asarray(share)
