"""Urgent chunks use only good links."""

from __future__ import annotations

from typing import Literal

import numpy as np

from broker.rules.contract import Bools, Filter, JobPairs, Observation, Options, Reason, TuningView, number
from broker.rules.production_job.network_weight import (
    ACTIVE,
    NETWORK_KEYS,
    is_switched_on,
    network_inputs,
    network_weight,
)

THRESHOLD, MULTIPLIER = "NW_THRESHOLD", "NW_WEIGHT_MULTIPLIER"


class LowNetworkWeightOptions(Options):
    """Whether the rule holds always, or only while NW_ACTIVE is set to true."""

    holds: Literal["always", "while_active"] = "always"


class LowNetworkWeight(Filter[JobPairs]):
    """Rejects queues whose network weight is below NW_THRESHOLD x NW_WEIGHT_MULTIPLIER for express chunks.

    Express: processingType ``urgent``, or priority of 1000 and more. The rule applies whether or not the network
    weight is part of the weight (NW_ACTIVE). Source: ATLAS Production Job Brokerage, network weight of urgent tasks.
    """

    name = "low_network_weight"
    reason = Reason(
        code="lowNetworkWeight",
        title="The link to the nucleus is good enough for urgent jobs",
        violation="The link to the nucleus is too poor for urgent jobs",
        no_candidate="has a fast enough link to the nucleus",
        who="ask",
        cure="Operators look at the link (`broker links`), or lower `NW_THRESHOLD`.",
    )
    keys = (*NETWORK_KEYS, ACTIVE, THRESHOLD, MULTIPLIER)
    after_temporary = True
    options: LowNetworkWeightOptions = LowNetworkWeightOptions()

    def applies(self, pairs: JobPairs) -> Bools:
        """Express chunks with a nucleus."""
        holds = self.options.holds == "always" or is_switched_on(pairs.tuning)
        return np.asarray(pairs.facts.urgent & pairs.facts.has_nucleus & holds)

    def keep(self, pairs: JobPairs) -> Bools:
        """(T, Q): true where the link to the nucleus is good enough for urgent jobs."""
        weight = network_weight(pairs.facts, pairs.tuning)
        return weight.of_table(weight.table >= _limit(pairs.tuning)).every

    def observe(self, pairs: JobPairs) -> Observation:
        """The network weight of the link from the queue to the nucleus."""
        weight = number(network_weight(pairs.facts, pairs.tuning).every)
        return Observation(weight, ">=", _limit(pairs.tuning), "weight", THRESHOLD, network_inputs(pairs.facts))


def _limit(tuning: TuningView) -> float:
    return tuning.number(THRESHOLD) * tuning.number(MULTIPLIER)
