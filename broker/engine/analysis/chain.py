"""The chain of the analysis brokerage: which of its rules are reasons for the second pass."""

from __future__ import annotations

from dataclasses import dataclass, field

from broker.engine.analysis.steps import AnalysisSteps
from broker.engine.shared.chain import QueueChain
from broker.rules.contract import AnalysisPairs


@dataclass(frozen=True)
class AnalysisChain(QueueChain):
    """The rules of a job brokerage for analysis."""

    judges = AnalysisPairs

    steps: AnalysisSteps = field(default_factory=AnalysisSteps)

    def is_persistent(self, index: int) -> bool:
        """Whether a rejection by the filter of this index (or because it could not judge) lasts."""
        return not self.filters[index % len(self.filters)].temporary_issue
