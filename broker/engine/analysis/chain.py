"""The chain of the analysis brokerage: which of its rules are reasons for the second pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from broker.engine.analysis.steps import AnalysisSteps
from broker.engine.shared.chain import QueueChain
from broker.rules.contract import AnalysisPairs, Rule


@dataclass(frozen=True)
class AnalysisChain(QueueChain):
    """The rules of a job brokerage for analysis."""

    judges = AnalysisPairs

    steps: AnalysisSteps = field(default_factory=AnalysisSteps)

    def is_persistent(self, index: int) -> bool:
        """Whether a rejection by the filter of this index (or because it could not judge) lasts."""
        return not self.filters[index % len(self.filters)].temporary_issue


def moving_at(rules: Sequence[Rule]) -> list[int]:
    """The positions of the rules that the cycle asks again as it places jobs."""
    return [position for position, rule in enumerate(rules) if rule.moving]


def stabilizer_at(filters: Sequence[Rule]) -> int | None:
    """The position of the first filter for whose rejections the figures of the stabilizer are stored."""
    return next((position for position, rule in enumerate(filters) if rule.stabilizer), None)
