"""There must be a storage for the output."""

from __future__ import annotations

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation
from broker.domain.grid import NucleusTable
from broker.domain.task_facts import TaskFacts
from broker.domain.task_work import AssigningTable
from broker.rules.contract import NucleusFilter, TuningView
from broker.rules.observing import flag


class Match(NucleusFilter):
    """Rejects nuclei without a storage endpoint for the storage token of an output or log dataset.

    Distributed datasets do not count. A full-chain task writes to the secondary nucleus, where there is one. Source:
    ATLAS Production Task Brokerage, associated storages.
    """

    name = "match"
    code = "match"
    title = "The nucleus has a storage for every output and log dataset"
    sources = ("storages",)

    def keep(self, tasks: AssigningTable, nuclei: NucleusTable, facts: TaskFacts, tuning: TuningView) -> Bools:
        """(T, N)."""
        return facts.has_storages

    def observe(self, tasks: AssigningTable, nuclei: NucleusTable, facts: TaskFacts, tuning: TuningView) -> Observation:
        """Whether every dataset has one."""
        return Observation(flag(facts.has_storages), "==", True, "-", "dataset.storagetoken")
