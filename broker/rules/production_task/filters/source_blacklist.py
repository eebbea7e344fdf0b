"""The storages of a nucleus must send input to satellites."""

from __future__ import annotations

from broker.rules.contract import Bools, Filter, Observation, Reason, TaskPairs, flag


class SourceBlacklist(Filter[TaskPairs]):
    """Rejects nuclei with a storage for the output that does not send over WAN: ``read_wan`` is set and not ON.

    Source: ATLAS Production Task Brokerage, WAN.
    """

    name = "source_blacklist"
    reason = Reason(
        code="source_blacklist",
        title="The storages send files over WAN",
        violation="A storage of the nucleus does not send files over WAN",
        no_candidate="has storages that send the output",
        who="ask",
        cure="The site of the nucleus, or the operators of the data, open the storage for reading over WAN.",
    )
    provenance = "ATLAS Production Task Brokerage"
    kind = "temporary"
    sources = ("storages",)

    def keep(self, pairs: TaskPairs) -> Bools:
        """(T, N): true where the storages send files over WAN."""
        return pairs.facts.storages_send

    def observe(self, pairs: TaskPairs) -> Observation:
        """Whether all storages send."""
        return Observation(flag(pairs.facts.storages_send), "==", True, "-", "endpoint.read_wan")
