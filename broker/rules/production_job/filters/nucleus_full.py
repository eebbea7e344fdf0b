"""Not too many files may wait to be transferred to the nucleus."""

from __future__ import annotations

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation
from broker.rules.contract import Filter, JobPairs, TuningView
from broker.rules.production_job.link_options import FileCapOptions
from broker.rules.shared.queued_files_cap import against_cap, below_cap, sources_of_cap

CAP = "NQUEUED_NUC_CAP_FOR_JOBS"


class NucleusFull(Filter[JobPairs]):
    """Rejects every queue, those at the nucleus too, while more files than the cap wait on all links to the nucleus.

    A nucleus of which nothing is known is not full. A cap of 0 closes every nucleus. Source: ATLAS Production Job
    Brokerage, files to be aggregated to the nucleus.
    """

    name = "nucleus_full"
    code = "links_full"
    title = "The nucleus is not flooded with files"
    kind = "temporary"
    keys = (CAP,)
    sources = ("links",)
    unknown_policy = "keep"
    options: FileCapOptions = FileCapOptions()

    def needs(self, tuning: TuningView) -> tuple[str, ...]:
        """A cap of 0 closes every nucleus whatever is known of the links."""
        return sources_of_cap(self.sources, tuning.number(CAP))

    def applies(self, pairs: JobPairs) -> Bools:
        """Chunks with a nucleus."""
        return pairs.facts.has_nucleus

    def keep(self, pairs: JobPairs) -> Bools:
        """(T, 1), or (T, Q) where the nucleus's own queues are exempt."""
        closes = self.options.equality == "closes"
        open_to_all = below_cap(pairs.facts.nucleus_queued, pairs.tuning.number(CAP), closes)
        return open_to_all if self.options.at_nucleus == "asked" else open_to_all | self.options.exempt(pairs.facts)

    def observe(self, pairs: JobPairs) -> Observation:
        """Files waiting; none where nothing is known."""
        closes = self.options.equality == "closes"
        seen = against_cap(pairs.facts.nucleus_queued, pairs.tuning.number(CAP), CAP, closes)
        return self.options.of_asked(pairs.facts, seen)
