"""Cases for rules of the analysis brokerage: as in production, with the facts of analysis."""

from __future__ import annotations

from typing import Any

from broker.domain.analysis import AnalysisFacts
from tests.rules.builders import Case


def kept(**given: Any) -> Case:
    """A case in which the candidate passes."""
    return Case(True, given, AnalysisFacts)


def rejected(**given: Any) -> Case:
    """A case in which the candidate is rejected."""
    return Case(False, given, AnalysisFacts)
