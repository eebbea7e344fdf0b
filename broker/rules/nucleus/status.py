"""Only active nuclei collect output."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation
from broker.domain.grid import NucleusTable
from broker.domain.task_facts import TaskFacts
from broker.domain.task_work import AssigningTable
from broker.rules.contract import NucleusFilter, TuningView
from broker.rules.observing import text

ACTIVE = "ACTIVE"


class Status(NucleusFilter):
    """Rejects nuclei that are not ACTIVE. Source: ATLAS Production Task Brokerage, primary list of nuclei."""

    name = "status"
    code = "status"
    title = "The nucleus is active"
    sources = ("queues",)

    def keep(self, tasks: AssigningTable, nuclei: NucleusTable, facts: TaskFacts, tuning: TuningView) -> Bools:
        """(1, N)."""
        return np.asarray(nuclei.state == ACTIVE, dtype=np.bool_)

    def observe(self, tasks: AssigningTable, nuclei: NucleusTable, facts: TaskFacts, tuning: TuningView) -> Observation:
        """The state of the site."""
        return Observation(text(nuclei.state), "==", ACTIVE, "-", "site.state")
