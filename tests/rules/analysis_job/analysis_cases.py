"""Cases for rules of the analysis brokerage: like those of production, with the facts of analysis."""

from __future__ import annotations

from typing import Any

from broker.domain.analysis import AnalysisFacts
from tests.rules.builders import Case


def kept(**columns: Any) -> Case:
    """Make a case in which the candidate passes."""
    return Case(True, columns, AnalysisFacts)


def rejected(**columns: Any) -> Case:
    """Make a case in which the candidate is rejected."""
    return Case(False, columns, AnalysisFacts)
