"""Input must be readable from somewhere else."""

from __future__ import annotations

import numpy as np

from broker.rules.contract import Bools, Filter, JobPairs, Observation, Reason, flag
from broker.rules.production_job.storage_order import FREE_SPACE, MIN_FREE_GB, space_options, works_over_lan


class SourceBlacklist(Filter[JobPairs]):
    """Rejects queues away from the nucleus if no complete replica of the input can be read over WAN.

    It applies only where the checks before it pass. Source: ATLAS Production Job Brokerage, storage endpoints.
    """

    name = "source_blacklist"
    reason = Reason(
        code="source_blacklist",
        title="The input can be read from somewhere over WAN",
        violation="No storage with the input can send it to the queue",
        no_candidate="can be sent the input",
        who="ask",
        cure="The sites that have the input open their storages for reading over WAN, or the data operators copy the "
        "input elsewhere.",
    )
    kind = "temporary"
    keys = (MIN_FREE_GB,)
    sources = ("storages", "replicas")
    reads = (FREE_SPACE,)
    unknown_policy = "keep"

    def applies(self, pairs: JobPairs) -> Bools:
        """Chunks whose input cannot be read over WAN."""
        return np.asarray(~pairs.facts.remote_source)

    def keep(self, pairs: JobPairs) -> Bools:
        """(T, Q): true where the input can be read from somewhere over WAN."""
        return np.asarray(pairs.facts.at_nucleus | ~_prerequisites(pairs))

    def observe(self, pairs: JobPairs) -> Observation:
        """Whether the queue can get the input, and whether an earlier check fails."""
        works, checked = flag(pairs.facts.at_nucleus), flag(_prerequisites(pairs))
        return Observation(works or not checked, "==", True, "-", "rule", {"at_nucleus": works, "asked": checked})


def _prerequisites(pairs: JobPairs) -> Bools:
    facts = pairs.facts
    over_lan = works_over_lan(facts, pairs.tuning, space_options(pairs))
    return np.asarray(facts.can_send & facts.can_receive & over_lan)
