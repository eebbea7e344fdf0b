"""Nuclei that have input on tape only are left to others if possible."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Floats
from broker.domain.grid import NucleusTable
from broker.domain.task_facts import TaskFacts
from broker.domain.task_work import AssigningTable
from broker.rules.contract import NucleusWeight, TuningView
from broker.rules.data_locality import COUNT_KEYS, counts_in_weight

ON_TAPE = 0.001


class Tape(NucleusWeight):
    """tapeWeight: 0.001 where a part of the input is on tape only, else 1; whatever the IO intensity.

    1 where the check of data locality was waived. Source: ATLAS Production Task Brokerage, weight.
    """

    name = "tape"
    code = "tape"
    title = "Input on tape counts little"
    keys = COUNT_KEYS
    sources = ("replicas",)

    def factor(self, tasks: AssigningTable, nuclei: NucleusTable, facts: TaskFacts, tuning: TuningView) -> Floats:
        """(T, N)."""
        on_tape = (facts.any_bytes > facts.disk_bytes) & counts_in_weight(tasks, facts, tuning)
        return np.where(on_tape, ON_TAPE, 1.0)
