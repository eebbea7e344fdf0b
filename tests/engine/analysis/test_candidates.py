"""Lists of queues in the syntax of users."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from broker.engine.analysis.candidates import analysis_candidates, has_auto, matched
from broker.engine.analysis.steps import QueueListReading
from tests.engine.analysis.analysis_requests import reading_grid, requests
from tests.engine.small_work import chunk_table
from tests.snapshot.raw_grid import queue, ucore, uses

NAMES = ["ANALY_CERN", "CERN", "CERN_T0", "MWT2", "a.c", "abc"]


@pytest.mark.parametrize(
    ("items", "expected"),
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
def test_the_whole_name_must_match(items: str, expected: list[str]) -> None:
    assert [name for name, flag in zip(NAMES, matched(items, NAMES), strict=True) if flag] == expected


def test_auto_is_a_separate_item() -> None:
    assert has_auto("CERN, AUTO")
    assert not has_auto("AUTOMATIC,CERN")


#: A, B, C and U are analysis queues; A reads DISK_A in the analysis scope.
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
        # a single queue need not be an analysis queue; exclusion takes precedence
        ("P", None, None, "P", "P", ""),
        ("A", None, "A", "", "A", ""),
        # an endpoint: the analysis queues that read it, except the excluded ones, whatever the list
        ("DISK_A", "B", None, "A", "", ""),
        ("DISK_A", None, "A", "", "", ""),
        # neither a queue nor an analysis endpoint
        ("DISK_B", "B", None, "B", "B", ""),
    ],
)
def test_candidates(
    site: str | None, included: str | None, excluded: str | None, initial: str, named: str, reserve: str
) -> None:
    request = requests(included_sites=included, excluded_sites=excluded)
    candidates = analysis_candidates(chunk_table(1, site=site), request, GRID)

    def names(mask: Any) -> str:
        return "".join(dict.fromkeys(NAMES_OF_GRID[at][0] for at in np.flatnonzero(mask[0])))

    assert tuple(names(part.every) for part in (candidates.initial, candidates.named, candidates.reserve)) == (
        initial,
        named,
        reserve,
    )
    assert candidates.one_preassigned.tolist() == [site in ("P", "A")]


def test_constraints_checked_by_a_rule_resolve_an_endpoint_in_the_scope_in_use() -> None:
    """B, which has no analysis relation, reads it in the default scope."""
    reading = QueueListReading().configured({"asked": "by_rule"})
    candidates = analysis_candidates(chunk_table(1, site="DISK_A"), requests(), GRID, reading)
    assert {NAMES_OF_GRID[at][0] for at in np.flatnonzero(candidates.wanted.every[0])} == {"A", "B"}


@pytest.mark.parametrize(("site", "queues"), [("P", "P"), ("V", ""), ("U", "U")])
def test_a_named_unified_queue_without_analysis_has_no_candidates_where_a_rule_checks_constraints(
    site: str, queues: str
) -> None:
    """V runs production and is unified: its name is on the list, but the name of a unified queue is skipped."""
    queues_of_grid = [*(queue(name, type="analysis") for name in "ABC"), queue("P"), ucore("U", 8)]
    grid = reading_grid(schedconfig_json=[*queues_of_grid, queue("V", capability="ucore", corecount=8)])
    names = [str(name)[0] for name in grid.queues.name]
    for option, expected in (("by_rule", queues), ("first", site)):
        reading = QueueListReading().configured({"asked": option})
        candidates = analysis_candidates(chunk_table(1, site=site), requests(), grid, reading)
        own = candidates.initial.every[0] & candidates.wanted.every[0]
        assert "".join(dict.fromkeys(names[at] for at in np.flatnonzero(own))) == expected, option
        assert candidates.one_preassigned.tolist() == [True]
