"""Jobs must be able to read input from the storage."""

from __future__ import annotations

from broker.rules.contract import Bools, JobPairs, Reason
from broker.rules.production_job.storage_order import EndpointRule, has_free_space, space_options


class ReadLanBlacklist(EndpointRule):
    """Rejects queues none of whose input endpoints (DATADISK) can be read over LAN, or that have none.

    It applies only where the checks before it pass. Source: ATLAS Production Job Brokerage, storage endpoints.
    """

    name = "read_lan_blacklist"
    reason = Reason(
        code="read_lan_blacklist",
        title="Jobs can read from an input endpoint over LAN",
        violation="Jobs at the queue cannot read from its storage",
        no_candidate="has a storage from which jobs can read",
        who="ask",
        cure="The site opens an input endpoint for reading over LAN.",
    )
    unknown_policy = "reject"

    def works(self, pairs: JobPairs) -> Bools:
        """(1, Q): jobs can read from some input endpoint over LAN."""
        return pairs.facts.can_read

    def prerequisites(self, pairs: JobPairs) -> Bools:
        """The earlier checks pass."""
        return has_free_space(pairs.facts, pairs.tuning, space_options(pairs))
