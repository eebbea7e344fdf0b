"""Input must be able to get to the storage."""

from __future__ import annotations

from broker.rules.contract import Bools, JobPairs, Reason
from broker.rules.production_job.storage_order import EndpointRule, space_options, works_over_lan


class WriteWanBlacklist(EndpointRule):
    """Rejects queues without an input endpoint that receives over WAN, unless the queue has the input.

    It applies only where the checks before it pass. Source: ATLAS Production Job Brokerage, storage endpoints.
    """

    name = "write_wan_blacklist"
    reason = Reason(
        code="write_wan_blacklist",
        title="An input endpoint receives files over WAN",
        violation="The storage of the queue cannot receive the input from elsewhere",
        no_candidate="has a storage that can receive the input",
        who="ask",
        cure="The site opens an input endpoint for writing over WAN, or the data operators copy the input there by "
        "other means.",
    )
    unknown_policy = "keep"

    def works(self, pairs: JobPairs) -> Bools:
        """(T, Q): some input endpoint receives over WAN, or none needs to."""
        return pairs.facts.can_receive

    def prerequisites(self, pairs: JobPairs) -> Bools:
        """The earlier checks pass."""
        return works_over_lan(pairs.facts, pairs.tuning, space_options(pairs))
