"""Processing types that a queue allows or excludes."""

from __future__ import annotations

import pytest

from broker.rules.generic_job.filters.processing_types import ProcessingTypes
from tests.rules.builders import Case, check, kept, rejected

POOLS = {
    "allowed_processing": [None, None, "simul|other", "pile"],
    "excluded_processing": [None, None, "simul", "other|pile"],
}
CASES = [
    kept(processingtype="simul"),
    kept(processingtype="simul", allowed_processing="recon|simul"),
    rejected(processingtype="simu", allowed_processing="recon|simul"),
    rejected(processingtype="simul", excluded_processing="recon|simul"),
    kept(processingtype="simu", excluded_processing="recon|simul"),
    rejected(processingtype="simul", allowed_processing="simul", excluded_processing="simul"),
    rejected(processingtype="pile", allowed_processing="simul", excluded_processing="recon"),
    kept(processingtype="simul", allowed_processing="simul", excluded_processing="recon"),
    rejected(processingtype=None, allowed_processing="simul"),
    kept(processingtype=None, excluded_processing="simul"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_processing_types(case: Case) -> None:
    check(ProcessingTypes(), case)
