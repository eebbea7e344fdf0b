"""Jobs must be able to write output to the storage."""

from __future__ import annotations

import numpy as np

from broker.rules.contract import Bools, JobPairs, Reason
from broker.rules.production_job.storage_order import EndpointRule, has_free_space, space_options


class WriteLanBlacklist(EndpointRule):
    """Rejects queues none of whose output endpoints (DATADISK) can be written over LAN.

    It applies only where the checks before it pass. Source: ATLAS Production Job Brokerage, storage endpoints.
    """

    name = "write_lan_blacklist"
    reason = Reason(
        code="write_lan_blacklist",
        title="Jobs can write to an output endpoint over LAN",
        violation="Jobs at the queue cannot write to its storage",
        no_candidate="has a storage to which jobs can write",
        who="ask",
        cure="The site opens an output endpoint for writing over LAN.",
    )
    unknown_policy = "keep"

    def works(self, pairs: JobPairs) -> Bools:
        """(1, Q): jobs can write to some output endpoint over LAN."""
        return pairs.facts.can_write

    def prerequisites(self, pairs: JobPairs) -> Bools:
        """The earlier checks pass."""
        return np.asarray(pairs.facts.can_read & has_free_space(pairs.facts, pairs.tuning, space_options(pairs)))
