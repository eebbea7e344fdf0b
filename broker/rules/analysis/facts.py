"""The facts of analysis, as its rules see them."""

from __future__ import annotations

from typing import cast

from broker.domain.analysis import AnalysisFacts
from broker.domain.facts import JobFacts


def of_analysis(facts: JobFacts) -> AnalysisFacts:
    """The facts that the analysis brokerage gathered: its rules run nowhere else."""
    return cast(AnalysisFacts, facts)
