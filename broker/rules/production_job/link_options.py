"""Options of the rules on the links to the nucleus, and which chunks stay at a bare nucleus.

Source: ATLAS Production Job Brokerage, files queued on links; PanDA production brokerage, link check; Special Brokerage
for ATLAS Full-chain.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from broker.domain.facts import JobFacts
from broker.domain.queues import BARE_NONE
from broker.domain.work import WorkTable
from broker.rules.contract import Bools, Observation, Options, flag


class NucleusOptions(Options):
    """Whether queues whose output endpoint is at the nucleus, or is not known, are checked as well."""

    at_nucleus: Literal["asked", "exempt"] = "asked"

    def exempt(self, facts: JobFacts) -> Bools:
        """(T, Q) or (1, 1): queues that the rule does not judge."""
        if self.at_nucleus == "asked":
            return np.zeros((1, 1), dtype=np.bool_)
        return np.asarray(facts.storage_at_nucleus | ~facts.storage_known)

    def observation(self, facts: JobFacts, seen: Observation) -> Observation:
        """The observation at a queue, without a limit if the rule exempts the queue."""
        if not flag(self.exempt(facts)):
            return seen
        return replace(seen, limit=None, inputs={**seen.inputs, "exempt": True})


class FileCapOptions(NucleusOptions):
    """Whether as many files as the cap still pass, or already close what it limits; a cap of 0 closes it either way.

    Where equality closes, an unknown link stays open at a cap of 0 too.
    """

    equality: Literal["passes", "closes"] = "passes"


def stays_at_bare_nucleus(tasks: WorkTable, facts: JobFacts) -> Bools:
    """(T, 1): the task is of a full chain (only, require or capable) and its nucleus is bare."""
    return np.asarray((tasks.full_chain > 0) & facts.has_nucleus & (facts.nucleus_bare > BARE_NONE))
