"""The chain of the analysis brokerage: which of its rules are reasons for the second pass."""

from __future__ import annotations

from dataclasses import dataclass, field

from broker.engine.analysis.steps import FILE_UNAVAILABLE, AnalysisSteps
from broker.engine.shared.chain import QueueChain
from broker.rules.contract import AnalysisPairs

#: The filters whose rejections are no reason for a second pass; all others are, whatever they are in production. PanDA
#: checks the files that a queue lacks after both passes.
TEMPORARY_ISSUES = frozenset(
    {"rebrokered", "queue_cap", "bad_jobs", "user_queue_length", FILE_UNAVAILABLE, "idle_overload"}
)
#: Of these, the ones that are problems of the queue for the user.
USER_PROBLEMS = frozenset({"bad_jobs", "user_queue_length", "idle_overload"})


@dataclass(frozen=True)
class AnalysisChain(QueueChain):
    """The rules of a job brokerage for analysis."""

    judges = AnalysisPairs

    steps: AnalysisSteps = field(default_factory=AnalysisSteps)

    def is_persistent(self, index: int) -> bool:
        """Whether a rejection by the filter of this index (or because it could not judge) lasts."""
        return self.filters[index % len(self.filters)].name not in TEMPORARY_ISSUES
