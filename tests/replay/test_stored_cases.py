"""Stored cycles of every brokerage, decided again by the rules of today: identical to the byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.cli.deciding_again import replayed_file

CASES = sorted((Path(__file__).parent / "cases").glob("*.json.gz"))
REMEDY = "if the rules were changed on purpose, make the cases anew: python -m tests.replay.make_cases"


def test_every_brokerage_has_a_case() -> None:
    assert {case.name.split(".")[0] for case in CASES} == {"production_task", "production_job", "analysis_job"}


@pytest.mark.parametrize("whole", [True, False], ids=["whole cycles", "each by itself"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_stored_case_is_decided_again_exactly(case: Path, whole: bool) -> None:
    results = [one for cycle in replayed_file(case, whole=whole) for one in cycle]
    outcomes = {one.stored.record.decision.outcome for one in results}
    assert len(results) >= 40 and {"brokered", "pending"} <= outcomes
    told = [f"{one.stored.id}: {one.fault or one.differences[:3]}" for one in results if not one.identical]
    assert not told, f"{len(told)} of {len(results)} decisions differ, {told[:3]}; {REMEDY}"
