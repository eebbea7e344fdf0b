"""Not too many files may wait to be transferred to the nucleus."""

from __future__ import annotations

from broker.domain.arrays import RowsByKind
from broker.domain.facts import JobFacts
from broker.rules.contract import Reason
from broker.rules.production_job.files_cap_rule import FilesCapRule

CAP = "NQUEUED_NUC_CAP_FOR_JOBS"


class NucleusFull(FilesCapRule):
    """Rejects every queue, even at the nucleus, while more files than the cap wait on all links to the nucleus.

    A nucleus without link data is not full. A cap of 0 closes every nucleus. Source: ATLAS Production Job Brokerage,
    files to be aggregated to the nucleus.
    """

    name = "nucleus_full"
    reason = Reason(
        code="links_full",
        title="The nucleus is not flooded with files",
        violation="Too many files wait on all links to the nucleus",
        no_candidate="may be sent more files to the nucleus",
        who="wait",
        cure="Wait until the nucleus has received its files. Operators may raise `NQUEUED_NUC_CAP_FOR_JOBS`.",
    )
    keys = (CAP,)
    cap = CAP

    def queued(self, facts: JobFacts) -> RowsByKind:
        """(T, 1) files waiting on all links to the nucleus."""
        return facts.by_kind("nucleus_queued")
