"""Queues with more of the input come first."""

from __future__ import annotations

from broker.domain.arrays import Floats
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.analysis.facts import of_analysis
from broker.rules.contract import TuningView, Weight


class LocalData(Weight):
    """The number of datasets on disk, 0.001 for each that is not; without the locality check 1 + local GB on disk / 10.

    Source: PanDA analysis brokerage, data weight.
    """

    name = "local_data"
    code = "local_data"
    title = "Prefers queues with more of the input"
    sources = ("storages",)
    provenance = "PanDA analysis brokerage, data weight"

    def factor(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Floats:
        """(T, Q): 0 and more."""
        return of_analysis(facts).locality_weight
