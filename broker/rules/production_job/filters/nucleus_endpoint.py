"""The storage of the nucleus must be open over WAN."""

from __future__ import annotations

from typing import Literal

import numpy as np

from broker.rules.contract import Bools, Filter, JobPairs, Observation, Reason, Value, flag
from broker.rules.production_job.link_options import NucleusOptions


class NucleusEndpointOptions(NucleusOptions):
    """Conditions on the endpoint of the nucleus.

    Attributes:
        activities: it must receive and send over WAN, or only receive.
        satellites: the endpoints of satellites that serve as nucleus are checked too.
        at_nucleus: queues at the site of the nucleus are exempt, or those whose output endpoint is there or not known.
    """

    activities: Literal["write_and_read", "write"] = "write_and_read"
    satellites: bool = True


class NucleusEndpoint(Filter[JobPairs]):
    """Keeps only queues at the nucleus while its default output endpoint does not receive or send over WAN.

    Source: ATLAS Production Job Brokerage, storage endpoints of the nucleus (``write_wan`` and ``read_wan``).
    """

    name = "nucleus_endpoint"
    reason = Reason(
        code="dest_blacklisted",
        title="The storage of the nucleus receives and sends files over WAN",
        violation="The storage of the nucleus does not receive or send files",
        no_candidate="may send its output to the nucleus",
        who="ask",
        cure="The site of the nucleus opens its storage, or operators give the task another nucleus.",
    )
    kind = "temporary"
    sources = ("storages",)
    unknown_policy = "keep"
    options: NucleusEndpointOptions = NucleusEndpointOptions()

    def applies(self, pairs: JobPairs) -> Bools:
        """Chunks whose nucleus is closed."""
        facts, options = pairs.facts, self.options
        closed = ~facts.nucleus_wan if options.activities == "write_and_read" else ~facts.nucleus_receives
        if not options.satellites:
            closed = closed & ~facts.nucleus_is_satellite
        return np.asarray(facts.has_nucleus & closed)

    def keep(self, pairs: JobPairs) -> Bools:
        """(T, Q): true where the queue is at the nucleus or exempt; only chunks with a closed nucleus are judged."""
        return self.options.exempt(pairs.facts) if self.options.at_nucleus == "exempt" else pairs.facts.at_nucleus

    def observe(self, pairs: JobPairs) -> Observation:
        """Whether output can get to the nucleus."""
        facts, options = pairs.facts, self.options
        here = flag(options.exempt(facts) if options.at_nucleus == "exempt" else facts.at_nucleus)
        if options.activities == "write":
            receives = flag(facts.nucleus_receives)
            inputs: dict[str, Value] = {"nucleus_receives": receives, "at_nucleus": here}
            return Observation(receives or here, "==", True, "-", "rule", inputs)
        wan = flag(facts.nucleus_wan)
        return Observation(wan or here, "==", True, "-", "rule", {"nucleus_wan": wan, "at_nucleus": here})
