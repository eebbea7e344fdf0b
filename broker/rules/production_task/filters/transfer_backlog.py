"""Not too many files may wait to be transferred to a nucleus."""

from __future__ import annotations

from typing import Literal

import numpy as np

from broker.rules.contract import Bools, Filter, Observation, Options, Reason, TaskPairs, TuningView
from broker.rules.shared.queued_files_cap import against_cap, below_cap, sources_of_cap

CAP = "NQUEUED_NUC_CAP"


class TransferBacklogOptions(Options):
    """Which nuclei a cap of 0 closes: all, or those to which files wait to be transferred."""

    cap_of_zero: Literal["closes_all", "closes_with_files"] = "closes_all"


class TransferBacklog(Filter[TaskPairs]):
    """Rejects nuclei to which more files than the cap wait to be transferred. Not for tasks of negative t1Weight.

    A nucleus without link data counts as one without a backlog. A cap of 0 closes every nucleus. Source: ATLAS
    Production Task Brokerage, transfer backlogs.
    """

    name = "transfer_backlog"
    reason = Reason(
        code="transfer_backlog",
        title="Few files wait to be transferred to the nucleus",
        violation="Too many files wait to be transferred to the nucleus",
        no_candidate="has few enough files on the way to it",
        who="wait",
        cure="Wait until files have been transferred. Operators look for what stops transfers, or raise "
        "`NQUEUED_NUC_CAP`.",
    )
    provenance = "ATLAS Production Task Brokerage"
    kind = "temporary"
    keys = (CAP,)
    sources = ("links",)
    unknown_policy = "keep"
    options: TransferBacklogOptions = TransferBacklogOptions()

    def needs(self, tuning: TuningView) -> tuple[str, ...]:
        """The links, except at a cap of 0 that closes every nucleus without them."""
        return sources_of_cap(self.sources, tuning.number(CAP), self._zero_closes_all)

    def applies(self, pairs: TaskPairs) -> Bools:
        """Tasks whose t1Weight (split rule ``TW``) is not negative."""
        return np.asarray(~(pairs.tasks.t1weight < 0))

    def keep(self, pairs: TaskPairs) -> Bools:
        """(1, N): true where few files wait to be transferred to the nucleus."""
        cap = pairs.tuning.number(CAP)
        return below_cap(pairs.facts.backlog_files, cap, zero_closes_all=self._zero_closes_all)

    def observe(self, pairs: TaskPairs) -> Observation:
        """The waiting files; 0 if unknown."""
        cap = pairs.tuning.number(CAP)
        return against_cap(pairs.facts.backlog_files, cap, CAP, zero_closes_all=self._zero_closes_all)

    @property
    def _zero_closes_all(self) -> bool:
        return self.options.cap_of_zero == "closes_all"
