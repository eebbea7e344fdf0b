"""Nuclei with much of the input are better for tasks of high IO intensity."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Floats
from broker.domain.grid import NucleusTable
from broker.domain.task_facts import TaskFacts
from broker.domain.task_work import AssigningTable
from broker.rules.contract import NucleusWeight, TuningView
from broker.rules.data_locality import COUNT_KEYS, LOW_INTENSITY, counts_in_weight


class Locality(NucleusWeight):
    """localInputSize / totalInputSize, on disk or tape, for tasks of high or unknown IO intensity, else 1.

    1 also where there is no input, and where the check of data locality was waived. Source: ATLAS Production Task
    Brokerage, weight.
    """

    name = "locality"
    code = "locality"
    title = "Share of the input that is at the nucleus"
    keys = (LOW_INTENSITY, *COUNT_KEYS)
    sources = ("replicas",)

    def factor(self, tasks: AssigningTable, nuclei: NucleusTable, facts: TaskFacts, tuning: TuningView) -> Floats:
        """(T, N)."""
        high = ~(tasks.iointensity <= tuning.number(LOW_INTENSITY))
        counts = high & counts_in_weight(tasks, facts, tuning)
        share = np.divide(facts.any_bytes, facts.total_bytes, out=np.ones(counts.shape), where=counts)
        return np.asarray(share)
