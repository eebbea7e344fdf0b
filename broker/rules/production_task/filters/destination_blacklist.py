"""The storages of a nucleus must receive output from satellites."""

from __future__ import annotations

from broker.rules.contract import Bools, Filter, Observation, Reason, TaskPairs, flag


class DestinationBlacklist(Filter[TaskPairs]):
    """Rejects nuclei with a storage for the output that does not receive over WAN: ``write_wan`` is set and not ON.

    Source: ATLAS Production Task Brokerage, WAN.
    """

    name = "destination_blacklist"
    reason = Reason(
        code="destination_blacklist",
        title="The storages receive files over WAN",
        violation="A storage of the nucleus does not receive files over WAN",
        no_candidate="has storages that receive the output",
        who="ask",
        cure="The site of the nucleus, or the operators of the data, open the storage for writing over WAN.",
    )
    provenance = "ATLAS Production Task Brokerage"
    kind = "temporary"
    sources = ("storages",)

    def keep(self, pairs: TaskPairs) -> Bools:
        """(T, N): true where the storages receive files over WAN."""
        return pairs.facts.storages_receive

    def observe(self, pairs: TaskPairs) -> Observation:
        """Whether all storages receive."""
        return Observation(flag(pairs.facts.storages_receive), "==", True, "-", "endpoint.write_wan")
