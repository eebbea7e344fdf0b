"""Lists of queues as users write them."""

from __future__ import annotations

import pytest

from broker.engine.analysis_candidates import has_auto, matched

NAMES = ["ANALY_CERN", "CERN", "CERN_T0", "MWT2", "a.c", "abc"]


@pytest.mark.parametrize(
    ("items", "wanted"),
    [
        ("CERN", ["CERN"]),
        ("cern", []),
        ("CERN*", ["CERN", "CERN_T0"]),
        ("*CERN", ["ANALY_CERN", "CERN"]),
        ("*CERN*", ["ANALY_CERN", "CERN", "CERN_T0"]),
        ("CERN, MWT2 ,", ["CERN", "MWT2"]),
        ("*", NAMES),
        ("a.c", ["a.c"]),
        ("a*c", ["a.c", "abc"]),
        ("(", []),
        ("", []),
        ("AUTO", []),
    ],
)
def test_the_whole_name_must_match(items: str, wanted: list[str]) -> None:
    assert [name for name, flag in zip(NAMES, matched(items, NAMES), strict=True) if flag] == wanted


def test_auto_is_an_item_of_its_own() -> None:
    assert has_auto("CERN, AUTO")
    assert not has_auto("AUTOMATIC,CERN")
