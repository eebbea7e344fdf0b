"""Input from elsewhere needs space."""

from __future__ import annotations

from typing import Literal

import numpy as np

from broker.rules.contract import AnalysisPairs, Bools, Filter, Observation, Options, Reason, flag, number

PROVENANCE = "ATLAS Analysis Job Brokerage"
KEY = "STORAGE_MIN_FREE_SIZE"


class SpaceOptions(Options):
    """Whether exactly the threshold is enough."""

    equality: Literal["rejects", "passes"] = "rejects"


class InputSpace(Filter[AnalysisPairs]):
    """There is space for the input.

    Rejects queues without an input endpoint, and those whose default one, if different from that for the output, has no
    more usable space than STORAGE_MIN_FREE_SIZE. It applies in a pass without the locality check.

    Source: PanDA analysis brokerage, filters.
    """

    name = "input_space"
    reason = Reason(
        code="disk",
        title="There is space for the input",
        violation="The storage of the queue has no space for the input",
        no_candidate="has enough free storage",
        who="ask",
        cure="The site or the data operators delete data there. Until then, the input is read where it is.",
    )
    keys = (KEY,)
    sources = ("storages",)
    provenance = PROVENANCE
    options: SpaceOptions = SpaceOptions()

    def applies(self, pairs: AnalysisPairs) -> Bools:
        """Chunks with input, in a pass without the locality check."""
        return np.asarray(~pairs.facts.local_pass & (pairs.chunks.total_files > 0))

    def keep(self, pairs: AnalysisPairs) -> Bools:
        """(1, Q): true where the queue has space for the input."""
        known, least = pairs.facts, pairs.tuning.number(KEY)
        small = known.input_usable_gb < least if self.options.equality == "passes" else known.input_usable_gb <= least
        return np.asarray(known.has_input_storage & ~small)

    def observe(self, pairs: AnalysisPairs) -> Observation:
        """The usable space in GB at the endpoint for input; 0 without one."""
        known = pairs.facts
        has_storage = flag(known.has_input_storage)
        passes = self.options.equality == "passes"
        seen = number(known.input_usable_gb) if has_storage else None if passes else 0.0
        limit = None if seen is None and has_storage else pairs.tuning.number(KEY)
        return Observation(seen, ">=" if passes else ">", limit, "GB", KEY, {"has_input_storage": has_storage})
