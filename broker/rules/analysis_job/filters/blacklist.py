"""The storages of the queue must be usable."""

from __future__ import annotations

import numpy as np

from broker.rules.contract import AnalysisPairs, Bools, Filter, Observation, Reason, Value, flag

PROVENANCE = "ATLAS Analysis Job Brokerage"


class Blacklist(Filter[AnalysisPairs]):
    """Endpoints of the queue can be read and written.

    Rejects queues none of whose input endpoints is read over LAN or none of whose output endpoints is written
    over LAN; where the input is elsewhere, also those that cannot receive or send over WAN.

    Source: ATLAS Analysis Job Brokerage.
    """

    name = "blacklist"
    reason = Reason(
        code="blacklist",
        title="Endpoints of the queue can be read and written",
        violation="A storage of the queue cannot be read or written",
        no_candidate="has storages that can be read and written",
        who="ask",
        cure="The site opens the storages of the queue. Until then, jobs go where the storages are open.",
    )
    sources = ("storages",)
    provenance = PROVENANCE

    def keep(self, pairs: AnalysisPairs) -> Bools:
        """(T, Q): true where endpoints of the queue can be read and written."""
        known = pairs.facts
        over_wan = known.receives & known.sends & pairs.facts.remote_source
        return np.asarray(known.reads_lan & known.writes_lan & (~known.needs_wan | over_wan))

    def observe(self, pairs: AnalysisPairs) -> Observation:
        """Whether the needed activities work."""
        known = pairs.facts
        inputs: dict[str, Value] = {
            "read_lan": flag(known.reads_lan),
            "write_lan": flag(known.writes_lan),
            "write_wan": flag(known.receives),
            "read_wan": flag(known.sends),
            "needs_wan": flag(known.needs_wan),
            "remote_source": flag(pairs.facts.remote_source),
        }
        return Observation(flag(self.keep(pairs)), "==", True, "-", "rule", inputs)
