"""Output must be able to leave the storage."""

from __future__ import annotations

import numpy as np

from broker.rules.contract import Bools, JobPairs, Reason
from broker.rules.production_job.storage_order import EndpointRule, space_options, works_over_lan


class ReadWanBlacklist(EndpointRule):
    """Rejects queues away from the nucleus none of whose output endpoints sends over WAN.

    It applies only where the checks before it pass. Source: ATLAS Production Job Brokerage, storage endpoints.
    """

    name = "read_wan_blacklist"
    reason = Reason(
        code="read_wan_blacklist",
        title="An output endpoint sends files over WAN",
        violation="The storage of the queue cannot send output to the nucleus",
        no_candidate="has a storage that can send its output to the nucleus",
        who="ask",
        cure="The site opens an output endpoint for reading over WAN.",
    )
    unknown_policy = "keep"

    def works(self, pairs: JobPairs) -> Bools:
        """(T, Q): some output endpoint sends over WAN, or none needs to."""
        return pairs.facts.can_send

    def prerequisites(self, pairs: JobPairs) -> Bools:
        """The earlier checks pass."""
        return np.asarray(pairs.facts.can_receive & works_over_lan(pairs.facts, pairs.tuning, space_options(pairs)))
