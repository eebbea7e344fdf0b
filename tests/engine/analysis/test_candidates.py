"""Lists of queues as users write them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from broker.engine.analysis.candidates import analysis_candidates, has_auto, matched
from broker.engine.analysis.steps import Wishes
from tests.engine.analysis.analysis_requests import reading_grid, requests
from tests.engine.small_work import chunk_table
from tests.snapshot.raw_grid import queue, ucore, uses

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


#: A, B, C and U are queues of analysis; A reads ENDPOINT in the scope of analysis.
GRID = reading_grid(
    panda_ddm_relation=[
        *(uses(name, "DISK_A", scope="analysis") for name in "AP"),
        uses("B", "DISK_A"),
        uses("C", "DISK_A", scope="analysis", roles="write_lan"),
    ]
)
NAMES_OF_GRID = [str(name) for name in GRID.queues.name]


@pytest.mark.parametrize(
    ("site", "included", "excluded", "initial", "named", "reserve"),
    [
        (None, None, None, "ABCU", "", ""),
        (None, "A,B", None, "AB", "AB", ""),
        (None, "A,AUTO", "B", "ACU", "A", "CU"),
        (None, "AUTO", None, "ABCU", "", "ABCU"),
        # one queue, which need not be one of analysis; exclusion goes first
        ("P", None, None, "P", "P", ""),
        ("A", None, "A", "", "A", ""),
        # an endpoint: the queues of analysis that read it, without those excluded, whatever the list
        ("DISK_A", "B", None, "A", "", ""),
        ("DISK_A", None, "A", "", "", ""),
        # neither a queue nor an endpoint of analysis
        ("DISK_B", "B", None, "B", "B", ""),
    ],
)
def test_candidates(
    site: str | None, included: str | None, excluded: str | None, initial: str, named: str, reserve: str
) -> None:
    asked = requests(included_sites=included, excluded_sites=excluded)
    found = analysis_candidates(chunk_table(1, site=site), asked, GRID)

    def names(mask: Any) -> str:
        return "".join(dict.fromkeys(NAMES_OF_GRID[at][0] for at in np.flatnonzero(mask[0])))

    assert tuple(names(one.every) for one in (found.initial, found.named, found.reserve)) == (initial, named, reserve)
    assert found.one_preassigned.tolist() == [site in ("P", "A")]


def test_wishes_that_a_rule_asks_read_an_endpoint_in_the_scope_in_use() -> None:
    """B, which has no relation of analysis, reads it in the default scope."""
    wishes = Wishes().configured({"asked": "by_rule"})
    found = analysis_candidates(chunk_table(1, site="DISK_A"), requests(), GRID, wishes)
    assert {NAMES_OF_GRID[at][0] for at in np.flatnonzero(found.wanted.every[0])} == {"A", "B"}


@pytest.mark.parametrize(("site", "queues"), [("P", "P"), ("V", ""), ("U", "U")])
def test_a_named_unified_queue_without_analysis_has_none_where_a_rule_asks(site: str, queues: str) -> None:
    """V runs production and is unified: its name is on the list, and passed over as that of a unified queue."""
    queues_of_grid = [*(queue(name, type="analysis") for name in "ABC"), queue("P"), ucore("U", 8)]
    grid = reading_grid(schedconfig_json=[*queues_of_grid, queue("V", capability="ucore", corecount=8)])
    names = [str(name)[0] for name in grid.queues.name]
    for asked, wanted in (("by_rule", queues), ("first", site)):
        wishes = Wishes().configured({"asked": asked})
        found = analysis_candidates(chunk_table(1, site=site), requests(), grid, wishes)
        own = found.initial.every[0] & found.wanted.every[0]
        assert "".join(dict.fromkeys(names[at] for at in np.flatnonzero(own))) == wanted, asked
        assert found.one_preassigned.tolist() == [True]
