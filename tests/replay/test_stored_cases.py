"""Stored cycles of every brokerage are decided again by the current rules, identical to the byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.decisions.answers.replay import replayed_file
from tests.replay.first_differences import first_differences

pytestmark = pytest.mark.slow

CASES = sorted((Path(__file__).parent / "cases").glob("*.json.gz"))


def test_every_brokerage_has_a_case() -> None:
    assert {case.name.split(".")[0] for case in CASES} == {"production_task", "production_job", "analysis_job"}


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("whole", [True, False], ids=["whole cycles", "each by itself"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_stored_case_is_decided_again_exactly(case: Path, whole: bool) -> None:
    results = [replayed for cycle in replayed_file(case, whole=whole) for replayed in cycle]
    outcomes = {replayed.stored.record.decision.outcome for replayed in results}
    assert len(results) >= 40 and {"brokered", "pending"} <= outcomes
    differing = [replayed for replayed in results if not replayed.identical]
    # pytest would print the full comparison, a page for each decision
    if differing:
        pytest.fail(first_differences(differing, len(results)), pytrace=False)
