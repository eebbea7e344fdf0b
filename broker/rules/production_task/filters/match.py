"""The nucleus must have a storage for the output."""

from __future__ import annotations

from broker.rules.contract import Bools, Filter, Observation, Reason, TaskPairs, flag


class Match(Filter[TaskPairs]):
    """Rejects nuclei without a storage endpoint for the storage token of an output or log dataset.

    Distributed datasets do not count. A full-chain task writes to the secondary nucleus, where there is one. Source:
    ATLAS Production Task Brokerage, associated storages.
    """

    name = "match"
    reason = Reason(
        code="match",
        title="The nucleus has a storage for every output and log dataset",
        violation="The nucleus has no storage for an output or log dataset of the task",
        no_candidate="has a storage for every output and log dataset",
        who="ask",
        cure="Operators correct the storages of the site in CRIC, or the storage tokens of the task.",
    )
    provenance = "ATLAS Production Task Brokerage"
    sources = ("storages",)

    def keep(self, pairs: TaskPairs) -> Bools:
        """(T, N): true where the nucleus has a storage for every output and log dataset."""
        return pairs.facts.has_storages

    def observe(self, pairs: TaskPairs) -> Observation:
        """Whether every dataset has one."""
        return Observation(flag(pairs.facts.has_storages), "==", True, "-", "dataset.storagetoken")
