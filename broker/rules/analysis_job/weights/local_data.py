"""Queues with more of the input come first."""

from __future__ import annotations

from broker.domain.arrays import RowsByKind
from broker.rules.contract import AnalysisPairs, Weight


class LocalData(Weight[AnalysisPairs]):
    """The number of datasets on disk, 0.001 for each that is not; without the locality check 1 + local GB on disk / 10.

    Source: PanDA analysis brokerage, data weight.
    """

    name = "local_data"
    code = "local_data"
    title = "Prefers queues with more of the input"
    sources = ("storages",)
    provenance = "PanDA analysis brokerage, data weight"

    def factor(self, pairs: AnalysisPairs) -> RowsByKind:
        """(T, Q): 0 and more."""
        return pairs.facts.by_kind("locality_weight")
