"""Storages must receive output from satellites."""

from __future__ import annotations

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation
from broker.domain.grid import NucleusTable
from broker.domain.task_facts import TaskFacts
from broker.domain.task_work import AssigningTable
from broker.rules.contract import NucleusFilter, TuningView
from broker.rules.observing import flag


class DestinationBlacklist(NucleusFilter):
    """Rejects nuclei with a storage for the output that does not receive over WAN: ``write_wan`` is given and not ON.

    Source: ATLAS Production Task Brokerage, WAN.
    """

    name = "destination_blacklist"
    code = "destination_blacklist"
    title = "The storages receive files over WAN"
    kind = "temporary"
    sources = ("storages",)

    def keep(self, tasks: AssigningTable, nuclei: NucleusTable, facts: TaskFacts, tuning: TuningView) -> Bools:
        """(T, N)."""
        return facts.storages_receive

    def observe(self, tasks: AssigningTable, nuclei: NucleusTable, facts: TaskFacts, tuning: TuningView) -> Observation:
        """Whether all storages receive."""
        return Observation(flag(facts.storages_receive), "==", True, "-", "endpoint.write_wan")
