"""The storage for the output must have space."""

from __future__ import annotations

from typing import Literal

import numpy as np

from broker.rules.contract import AnalysisPairs, Bools, Filter, Observation, Options, Reason, flag, number

PROVENANCE = "ATLAS Analysis Job Brokerage"
KEY = "STORAGE_MIN_FREE_SIZE_OUTPUT"


class SpaceOptions(Options):
    """Whether exactly the threshold is enough."""

    equality: Literal["rejects", "passes"] = "rejects"


class OutputSpace(Filter[AnalysisPairs]):
    """There is space for the output.

    Rejects queues without an output endpoint, and those whose default one has no more usable space (free and expired,
    without what must stay free or cannot be used) than STORAGE_MIN_FREE_SIZE_OUTPUT. An endpoint that is not on record
    is not checked.

    Source: ATLAS Analysis Job Brokerage.
    """

    name = "output_space"
    same_in_passes = True
    reason = Reason(
        code="disk",
        title="There is space for the output",
        violation="The storage of the queue has no space for the output",
        no_candidate="has enough free storage",
        who="ask",
        cure="The site or the data operators delete data there, or operators lower `STORAGE_MIN_FREE_SIZE_OUTPUT`.",
    )
    keys = (KEY,)
    sources = ("storages",)
    provenance = PROVENANCE
    options: SpaceOptions = SpaceOptions()

    def keep(self, pairs: AnalysisPairs) -> Bools:
        """(1, Q): true where the queue has space for the output."""
        known, least = pairs.facts, pairs.tuning.number(KEY)
        small = known.output_usable_gb < least if self.options.equality == "passes" else known.output_usable_gb <= least
        return np.asarray(known.has_output & ~small)

    def observe(self, pairs: AnalysisPairs) -> Observation:
        """The usable space in GB at the endpoint for output; 0 without one."""
        known = pairs.facts
        has_storage, passes = flag(known.has_output), self.options.equality == "passes"
        seen = number(known.output_usable_gb) if has_storage else None if passes else 0.0
        limit = None if seen is None and has_storage else pairs.tuning.number(KEY)
        return Observation(seen, ">=" if passes else ">", limit, "GB", KEY, {"has_output": has_storage})
