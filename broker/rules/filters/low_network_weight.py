"""Urgent chunks use only good links."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.contract import Filter, TuningView
from broker.rules.network_weight import NETWORK_KEYS, network_inputs, network_weight
from broker.rules.observing import number

THRESHOLD, MULTIPLIER = "NW_THRESHOLD", "NW_WEIGHT_MULTIPLIER"


class LowNetworkWeight(Filter):
    """Rejects queues whose network weight is below NW_THRESHOLD x NW_WEIGHT_MULTIPLIER for express chunks.

    Express: processingType ``urgent``, or priority of 1000 and more. It holds whether or not the network weight is
    part of the weight (NW_ACTIVE). Source: ATLAS Production Job Brokerage, network weight of urgent tasks.
    """

    name = "low_network_weight"
    code = "lowNetworkWeight"
    title = "The link to the nucleus is good enough for urgent jobs"
    keys = (*NETWORK_KEYS, THRESHOLD, MULTIPLIER)
    after_temporary = True

    def applies(self, tasks: WorkTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """Express chunks with a nucleus."""
        return np.asarray(facts.express & facts.has_nucleus)

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(T, Q)."""
        return np.asarray(network_weight(tasks, facts, tuning) >= _limit(tuning))

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """The network weight."""
        weight = number(network_weight(tasks, facts, tuning))
        return Observation(weight, ">=", _limit(tuning), "weight", THRESHOLD, network_inputs(facts))


def _limit(tuning: TuningView) -> float:
    return tuning.number(THRESHOLD) * tuning.number(MULTIPLIER)
