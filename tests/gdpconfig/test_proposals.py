"""Values and ranges as they are typed."""

from __future__ import annotations

import pytest

from broker.gdpconfig.catalogue import UnknownKeyError, ValueRefusedError, shipped_catalogue
from broker.gdpconfig.proposals import NotAProposal, Proposal, grid, proposed, read_proposals, read_ranges
from broker.gdpconfig.publish import Published, found_in_table

CATALOGUE = shipped_catalogue()


@pytest.fixture
def published() -> Published:
    return found_in_table(CATALOGUE, [], None)


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
def test_one_value(text: str, expected: Proposal | None) -> None:
    if expected is None:  # everything behind the first = is the value
        with pytest.raises(ValueRefusedError, match="'B=0.5' is not a number".replace(".", "[.]")):
            read_proposals(CATALOGUE, [text], "atlas")
        return
    assert read_proposals(CATALOGUE, [text], "atlas") == (expected,)


@pytest.mark.parametrize(
    ("texts", "error", "told"),
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
def test_bad_values(texts: list[str], error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        read_proposals(CATALOGUE, texts, "atlas")


def test_values_in_force_are_kept_and_the_rows_are_those_of_the_vo(published: Published) -> None:
    one = proposed(published, read_proposals(CATALOGUE, ["MIN_WEIGHT_managed=0.5"], "cms"))
    both = proposed(one, read_proposals(CATALOGUE, ["NW_ACTIVE=false"], "atlas"))
    assert one.version == both.version == 0
    assert [row.key for row in both.rows] == ["MIN_WEIGHT_managed", "NW_ACTIVE"]
    scope = CATALOGUE.require("MIN_WEIGHT_managed").scope
    assert both.rows[0].vo == ("cms" if scope == "task" else "atlas")


def test_two_values_may_only_go_together(published: Published) -> None:
    largest = int(CATALOGUE.entry("NQUEUED_NUC_CAP_FOR_JOBS").default)  # type: ignore[call-overload]
    with pytest.raises(ValueRefusedError, match="contradict"):
        proposed(published, read_proposals(CATALOGUE, [f"NQUEUED_SAT_CAP={largest + 1}"], "atlas"))
    both = [f"NQUEUED_SAT_CAP={largest + 1}", f"NQUEUED_NUC_CAP_FOR_JOBS={largest + 1}"]
    assert len(proposed(published, read_proposals(CATALOGUE, both, "atlas")).rows) == 2
    worse = ["NQUEUED_SAT_CAP=20", "NQUEUED_NUC_CAP_FOR_JOBS=19"]
    with pytest.raises(ValueRefusedError, match="NQUEUED_SAT_CAP = 20 is larger"):
        proposed(published, read_proposals(CATALOGUE, worse, "atlas"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("NQUEUED_SAT_CAP=10:50:20", [10, 30, 50]),
        ("NQUEUED_SAT_CAP=10:49:20", [10, 30]),
        ("NQUEUED_SAT_CAP=50:10:-20", [50, 30, 10]),
        ("NQUEUED_SAT_CAP=10:10:1", [10]),
        ("MIN_WEIGHT_managed=0:0.3:0.1", [0.0, 0.1, 0.2, 0.3]),  # no sum of floats
    ],
)
def test_ranges(text: str, expected: list[float]) -> None:
    (one,) = read_ranges(CATALOGUE, [text], "atlas")
    assert [point.value for point in one.points] == expected


@pytest.mark.parametrize(
    ("texts", "error", "told"),
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
def test_bad_ranges(texts: list[str], error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        read_ranges(CATALOGUE, texts, "atlas")


def test_a_grid_has_all_combinations() -> None:
    ranges = read_ranges(CATALOGUE, ["NQUEUED_SAT_CAP=1:2:1", "MIN_WEIGHT_managed=0:1:1"], "atlas")
    assert [tuple(one.value for one in point) for point in grid(ranges)] == [(1, 0), (1, 1), (2, 0), (2, 1)]
