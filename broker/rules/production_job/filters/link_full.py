"""Not too many files may wait on the link to the nucleus."""

from __future__ import annotations

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation
from broker.rules.contract import Filter, JobPairs, TuningView
from broker.rules.production_job.link_options import FileCapOptions
from broker.rules.shared.queued_files_cap import against_cap, below_cap, sources_of_cap

CAP = "NQUEUED_SAT_CAP"


class LinkFull(Filter[JobPairs]):
    """Rejects queues while more files than the cap wait on their link to the nucleus.

    A link of which nothing is known is empty. A cap of 0 closes every link, empty ones too.
    Source: ATLAS Production Job Brokerage, files queued on links.
    """

    name = "link_full"
    code = "link_unusable"
    title = "The link to the nucleus is not full"
    kind = "temporary"
    keys = (CAP,)
    sources = ("links",)
    unknown_policy = "keep"
    options: FileCapOptions = FileCapOptions()

    def needs(self, tuning: TuningView) -> tuple[str, ...]:
        """A cap of 0 closes every link whatever is known of the links."""
        return sources_of_cap(self.sources, tuning.number(CAP))

    def applies(self, pairs: JobPairs) -> Bools:
        """Chunks with a nucleus."""
        return pairs.facts.has_nucleus

    def keep(self, pairs: JobPairs) -> Bools:
        """(T, Q): true where the link to the nucleus is not full."""
        closes = self.options.equality == "closes"
        open_to_all = below_cap(pairs.facts.link_queued, pairs.tuning.number(CAP), closes)
        return open_to_all if self.options.at_nucleus == "asked" else open_to_all | self.options.exempt(pairs.facts)

    def observe(self, pairs: JobPairs) -> Observation:
        """Files on the link; none where nothing is known."""
        closes = self.options.equality == "closes"
        seen = against_cap(pairs.facts.link_queued, pairs.tuning.number(CAP), CAP, closes)
        return self.options.of_asked(pairs.facts, seen)
