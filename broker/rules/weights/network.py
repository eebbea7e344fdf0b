"""Queues with a good link to the nucleus come first."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Floats
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.contract import TuningView, Weight
from broker.rules.network_weight import NETWORK_KEYS, network_weight

ACTIVE = "NW_ACTIVE"


class Network(Weight):
    """The network weight, from 1 to 2, and 2.5 at the nucleus; 1 for all while NW_ACTIVE is false.

    Source: ATLAS Production Job Brokerage, Network Weight.
    """

    name = "network"
    code = "network"
    title = "Prefers queues with a good link to the nucleus"
    keys = (ACTIVE, *NETWORK_KEYS)

    def factor(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Floats:
        """(T, Q), or (1, 1) while switched off."""
        return network_weight(tasks, facts, tuning) if tuning.flag(ACTIVE) else np.ones((1, 1))
