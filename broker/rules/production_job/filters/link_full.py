"""Not too many files may wait on the link to the nucleus."""

from __future__ import annotations

from broker.domain.arrays import RowsByKind
from broker.domain.facts import JobFacts
from broker.rules.contract import Reason
from broker.rules.production_job.files_cap_rule import FilesCapRule

CAP = "NQUEUED_SAT_CAP"


class LinkFull(FilesCapRule):
    """Rejects queues while more files than the cap wait on their link to the nucleus.

    An unknown link counts as empty. A cap of 0 closes every link, empty ones too.
    Source: ATLAS Production Job Brokerage, files queued on links.
    """

    name = "link_full"
    reason = Reason(
        code="link_unusable",
        title="The link to the nucleus is not full",
        violation="Too many files wait on the link to the nucleus",
        no_candidate="has a usable link to the nucleus",
        who="wait",
        cure="Wait: the link empties by itself (`broker links` shows it). Operators may raise `NQUEUED_SAT_CAP`.",
    )
    keys = (CAP,)
    cap = CAP

    def queued(self, facts: JobFacts) -> RowsByKind:
        """(T, Q) files waiting on the link from the queue to the nucleus."""
        return facts.by_kind("link_queued")
