"""Not too many files may wait to be transferred to a nucleus."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation
from broker.domain.grid import NucleusTable
from broker.domain.task_facts import TaskFacts
from broker.domain.task_work import AssigningTable
from broker.rules.contract import NucleusFilter, TuningView
from broker.rules.observing import number

CAP = "NQUEUED_NUC_CAP"


class TransferBacklog(NucleusFilter):
    """Rejects nuclei to which more files than the cap wait to be transferred. Not for tasks of negative t1Weight.

    A nucleus of which nothing is known has no backlog. Source: ATLAS Production Task Brokerage, transfer backlogs.
    """

    name = "transfer_backlog"
    code = "transfer_backlog"
    title = "Few files wait to be transferred to the nucleus"
    kind = "temporary"
    keys = (CAP,)
    sources = ("links",)
    unknown_policy = "keep"

    def applies(self, tasks: AssigningTable, facts: TaskFacts, tuning: TuningView) -> Bools:
        """Tasks whose t1Weight (split rule ``TW``) is not negative."""
        return np.asarray(~(tasks.t1weight < 0))

    def keep(self, tasks: AssigningTable, nuclei: NucleusTable, facts: TaskFacts, tuning: TuningView) -> Bools:
        """(1, N)."""
        return np.asarray(~(facts.backlog_files > tuning.number(CAP)))

    def observe(self, tasks: AssigningTable, nuclei: NucleusTable, facts: TaskFacts, tuning: TuningView) -> Observation:
        """Files waiting; none where nothing is known."""
        return Observation(number(facts.backlog_files) or 0.0, "<=", tuning.number(CAP), "files", CAP)
