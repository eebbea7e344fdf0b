"""Values and ranges as a user types them."""

from __future__ import annotations

import pytest

from broker.gdpconfig.catalogue import UnknownKeyError, ValueRefusedError, shipped_catalogue
from broker.gdpconfig.proposals import NotAProposal, Proposal, grid, proposed, read_proposals, read_ranges
from broker.gdpconfig.publish import Published, table_content

CATALOGUE = shipped_catalogue()


@pytest.fixture
def published() -> Published:
    return table_content(CATALOGUE, [], None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("NQUEUED_SAT_CAP=200", Proposal("NQUEUED_SAT_CAP", 200, "atlas")),
        (" NQUEUED_SAT_CAP =200", Proposal("NQUEUED_SAT_CAP", 200, "atlas")),
        ("NW_ACTIVE=False", Proposal("NW_ACTIVE", False, "atlas")),
        ("NQUEUELIMITSITE_MC 16=50", Proposal("NQUEUELIMITSITE_MC 16", 50, "atlas")),
        ("MIN_WEIGHT_managed_A=B=0.5", None),
    ],
)
def test_a_single_value(text: str, expected: Proposal | None) -> None:
    if expected is None:  # everything after the first = is the value
        with pytest.raises(ValueRefusedError, match="'B=0.5' is not a number".replace(".", "[.]")):
            read_proposals(CATALOGUE, [text], "atlas")
        return
    assert read_proposals(CATALOGUE, [text], "atlas") == (expected,)


@pytest.mark.parametrize(
    ("texts", "error", "message"),
    [
        (["NQUEUED_SAT_CAP"], NotAProposal, "not of the form KEY=VALUE"),
        (["=3"], NotAProposal, "not of the form"),
        (["NQUEUED_SAT_CAPX=3"], UnknownKeyError, "did you mean NQUEUED_SAT_CAP"),
        (["NQUEUED_SAT_CAP=many"], ValueRefusedError, "'many' is not a whole number"),
        (["NQUEUED_SAT_CAP=1.5"], ValueRefusedError, "not a whole number"),
        (["NQUEUED_SAT_CAP=-1"], ValueRefusedError, "out of range"),
        (["NQUEUED_SAT_CAP=nan"], ValueRefusedError, "finite"),
        (["NQUEUED_SAT_CAP=1", "NQUEUED_SAT_CAP=2"], ValueRefusedError, "CAP=1 and NQUEUED_SAT_CAP=2 contradict"),
    ],
)
def test_invalid_values_are_refused(texts: list[str], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        read_proposals(CATALOGUE, texts, "atlas")


def test_current_values_are_kept_and_new_rows_belong_to_the_vo(published: Published) -> None:
    first = proposed(published, read_proposals(CATALOGUE, ["MIN_WEIGHT_managed=0.5"], "cms"))
    second = proposed(first, read_proposals(CATALOGUE, ["NW_ACTIVE=false"], "atlas"))
    assert first.version == second.version == 0
    assert [row.key for row in second.rows] == ["MIN_WEIGHT_managed", "NW_ACTIVE"]
    scope = CATALOGUE.require("MIN_WEIGHT_managed").scope
    assert second.rows[0].vo == ("cms" if scope == "task" else "atlas")


def test_two_related_values_are_checked_together(published: Published) -> None:
    largest = int(CATALOGUE.entry("NQUEUED_NUC_CAP_FOR_JOBS").default)  # type: ignore[call-overload]
    with pytest.raises(ValueRefusedError, match="contradict"):
        proposed(published, read_proposals(CATALOGUE, [f"NQUEUED_SAT_CAP={largest + 1}"], "atlas"))
    matching = [f"NQUEUED_SAT_CAP={largest + 1}", f"NQUEUED_NUC_CAP_FOR_JOBS={largest + 1}"]
    assert len(proposed(published, read_proposals(CATALOGUE, matching, "atlas")).rows) == 2
    contradicting = ["NQUEUED_SAT_CAP=20", "NQUEUED_NUC_CAP_FOR_JOBS=19"]
    with pytest.raises(ValueRefusedError, match="NQUEUED_SAT_CAP = 20 is larger"):
        proposed(published, read_proposals(CATALOGUE, contradicting, "atlas"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("NQUEUED_SAT_CAP=10:50:20", [10, 30, 50]),
        ("NQUEUED_SAT_CAP=10:49:20", [10, 30]),
        ("NQUEUED_SAT_CAP=50:10:-20", [50, 30, 10]),
        ("NQUEUED_SAT_CAP=10:10:1", [10]),
        ("MIN_WEIGHT_managed=0:0.3:0.1", [0.0, 0.1, 0.2, 0.3]),  # points are not computed by adding up floats
    ],
)
def test_a_range_gives_its_points(text: str, expected: list[float]) -> None:
    (value_range,) = read_ranges(CATALOGUE, [text], "atlas")
    assert [point.value for point in value_range.points] == expected


@pytest.mark.parametrize(
    ("texts", "error", "message"),
    [
        (["NQUEUED_SAT_CAP=10:50"], NotAProposal, "FROM:TO:STEP"),
        (["NQUEUED_SAT_CAP=10:50:x"], NotAProposal, "FROM:TO:STEP"),
        (["NQUEUED_SAT_CAP=10:50:0"], NotAProposal, "does not lead from 10 to 50"),
        (["NQUEUED_SAT_CAP=50:10:1"], NotAProposal, "does not lead"),
        (["NQUEUED_SAT_CAP=1:1e400:1"], NotAProposal, "does not lead"),
        (["NQUEUED_SAT_CAP=1:nan:1"], NotAProposal, "does not lead"),
        (["NQUEUED_SAT_CAP=1:20000:1"], ValueRefusedError, "more than 10000 values"),
        (["NQUEUED_SAT_CAP=1:1e300:1e-300"], ValueRefusedError, "more than 10000 values"),
        (["NQUEUED_SAT_CAP=1:2:0.5"], ValueRefusedError, "whole number"),
        (["NW_ACTIVE=0:1:1"], ValueRefusedError, "only numbers have a range"),
        (["NQUEUED_SAT_CAP=1:200:1", "NQUEUED_NUC_CAP_FOR_JOBS=200:400:1"], ValueRefusedError, "40200 points"),
        (["NQUEUED_SAT_CAP=1:2:1", "NQUEUED_SAT_CAP=1:2:1"], ValueRefusedError, "once"),
    ],
)
def test_invalid_ranges_are_refused(texts: list[str], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        read_ranges(CATALOGUE, texts, "atlas")


def test_a_grid_has_all_combinations() -> None:
    ranges = read_ranges(CATALOGUE, ["NQUEUED_SAT_CAP=1:2:1", "MIN_WEIGHT_managed=0:1:1"], "atlas")
    assert [tuple(proposal.value for proposal in point) for point in grid(ranges)] == [(1, 0), (1, 1), (2, 0), (2, 1)]
