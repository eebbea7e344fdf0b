"""Queues with a good link to the nucleus come first."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import RowsByKind
from broker.rules.contract import Floats, JobPairs, Options, Weight
from broker.rules.production_job.network_weight import ACTIVE, NETWORK_KEYS, is_switched_on, network_weight


class NetworkOptions(Options):
    """Whether the weight counts while NW_ACTIVE is not set."""

    while_unset: bool = True


class Network(Weight[JobPairs]):
    """The network weight, from 1 to 2, and 2.5 at the nucleus; 1 for all while NW_ACTIVE is false.

    Source: ATLAS Production Job Brokerage, Network Weight.
    """

    name = "network"
    code = "network"
    title = "Prefers queues with a good link to the nucleus"
    keys = (ACTIVE, *NETWORK_KEYS)
    options: NetworkOptions = NetworkOptions()

    def factor(self, pairs: JobPairs) -> Floats | RowsByKind:
        """(T, Q), or (1, 1) while switched off."""
        active = pairs.tuning.flag(ACTIVE) if self.options.while_unset else is_switched_on(pairs.tuning)
        return network_weight(pairs.facts, pairs.tuning) if active else np.ones((1, 1))
