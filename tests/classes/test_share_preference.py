"""Usage of shares against their targets, worked out by hand."""

from __future__ import annotations

import math

import pytest

from broker.classes.share_preference import (
    Leaf,
    ShareLoad,
    ShareNode,
    SharePreference,
    leaves_of,
    preferences,
    share_loads,
)
from broker.domain.classification import QueueAbout, ShareCount
from broker.domain.work import DroppedRow

TREE = (
    ShareNode("Production", 60, None),
    ShareNode("Analysis", 40, None),
    ShareNode("Simulation", 30, "Production"),
    ShareNode("Derivation", 10, "Production"),
    ShareNode("User Analysis", 80, "Analysis"),
    ShareNode("Express Analysis", 20, "Analysis"),
)


def rows(loads: dict[str, tuple[float, float]], tree: tuple[ShareNode, ...] = TREE) -> dict[str, SharePreference]:
    dropped_rows: list[DroppedRow] = []
    found = preferences(
        leaves_of(tree, dropped_rows), {name: ShareLoad(*load) for name, load in loads.items()}, dropped_rows
    )
    assert dropped_rows == []
    assert len({one.key for one in found}) == len(found)
    return {one.key: one for one in found}


def test_siblings_share_what_their_parent_has() -> None:
    dropped_rows: list[DroppedRow] = []
    found = leaves_of(TREE, dropped_rows)
    assert [leaf.name for leaf in found] == ["Simulation", "Derivation", "User Analysis", "Express Analysis"]
    assert [leaf.top for leaf in found] == ["Production", "Production", "Analysis", "Analysis"]
    assert [leaf.fraction for leaf in found] == pytest.approx([0.45, 0.15, 0.32, 0.08])
    assert dropped_rows == []


def test_shares_that_do_not_hang_on_the_tree_are_left_out() -> None:
    dropped_rows: list[DroppedRow] = []
    circle = (ShareNode("X", 1, "Y"), ShareNode("Y", 1, "X"), ShareNode("Self", 1, "Self"), ShareNode("O", 1, "no"))
    found = leaves_of((*circle, ShareNode("Top", 5, None), ShareNode("Zero", 0, None)), dropped_rows)
    assert found == (Leaf("Top", "Top", 1.0), Leaf("Zero", "Zero", 0.0))
    assert [(one.identifier, one.code) for one in dropped_rows] == [
        (name, "no_parent") for name in ("X", "Y", "Self", "O")
    ]


def test_usage_ranks_and_targets() -> None:
    """1000 HS06 run in all, 100 of them for no share of the tree."""
    found = rows({"Simulation": (300, 50), "User Analysis": (400, 800), "Express Analysis": (200, 0), "": (100, 0)})
    ranks = [(one.key, one.rank) for one in found.values() if one.rank > 0]
    assert ranks == [("Derivation", 1), ("Simulation", 2), ("User Analysis", 3), ("Express Analysis", 4)]
    user = found["User Analysis"].row()
    assert (user.metric, user.computingsite, user.gshare) == ("gshare_preference", "NULL", "User Analysis")
    assert user.document == pytest.approx(
        {
            "gshare": "User Analysis", "rank": 3, "queuing_hs": 800, "running_hs": 400, "target_hs": 320,
            "usage_perc": 1.25, "queue_perc": 2.5, "norm_usage_perc": 0.4, "norm_queue_perc": 800 / 850,
            "norm_target_perc": 0.32, "proj_target_hs": 320, "eqiv_target_hs": 0, "eqiv_usage_perc": 0,
        }
    )  # fmt: skip


def test_what_idle_shares_leave_is_given_to_the_busy_ones() -> None:
    """Production: 300 of 600, half of its queue is 350: it leaves 250. Analysis is busy: 400 + 250 x 400 / 401."""
    found = rows({"Simulation": (300, 700), "User Analysis": (400, 0), "Express Analysis": (300, 0)})
    production, analysis = found["L1 Production"], found["L1 Analysis"]
    assert (production.rank, production.is_idle, production.proj_target_hs) == (-1, True, 350)
    assert (production.eqiv_target_hs, production.eqiv_usage_perc) == pytest.approx((600, 0.5))
    assert (analysis.rank, analysis.is_idle, analysis.load.running_hs) == (-1, False, 700)
    assert (production.target_hs, analysis.target_hs) == pytest.approx((600, 400))
    assert analysis.usage_perc == pytest.approx(1.75)
    assert analysis.eqiv_target_hs == pytest.approx(400 + 250 * 400 / 401)
    assert analysis.eqiv_usage_perc == pytest.approx(700 / (400 + 250 * 400 / 401))


@pytest.mark.parametrize(
    ("running", "queuing", "idle"),
    [(84.9, 0, True), (85.0, 0, False), (84.0, 199.9, True), (84.0, 200.0, False), (0, 0, True)],
)
def test_when_a_share_is_idle(running: float, queuing: float, idle: bool) -> None:
    """Of a target of 100: below 85 %, and neither what runs nor half of what waits fills it."""
    one = SharePreference("L1 X", -1, ShareLoad(running, queuing), 100.0, ShareLoad(1000, 0))
    assert one.is_idle is idle


def test_without_a_target_usage_is_beyond_all_limits() -> None:
    found = rows({"X": (5, 0)}, (ShareNode("X", 0, None), ShareNode("Y", 1, None)))
    assert found["X"].usage_perc == found["L1 X"].usage_perc == found["L1 X"].eqiv_usage_perc == 999_999.0
    nothing = rows({})
    assert {one.usage_perc for one in nothing.values()} == {999_999.0}
    assert all(
        math.isfinite(value) for one in nothing.values() for value in one.row().document.values() if value != one.key
    )


def test_a_top_share_that_says_that_it_is_one_keeps_its_name() -> None:
    tree = (ShareNode("L1 User Analysis", 1, None), ShareNode("User Analysis", 1, "L1 User Analysis"))
    assert list(rows({}, tree)) == ["User Analysis", "L1 User Analysis"]
    assert [one.rank for one in rows({}, (ShareNode("L1 X", 1, None),)).values()] == [-1]


def test_keys_that_the_table_cannot_hold_are_left_out() -> None:
    dropped_rows: list[DroppedRow] = []
    long = "x" * 30
    found = preferences([Leaf(long, long, 1.0), Leaf("y" * 29, "y" * 29, 0.0)], {}, dropped_rows)
    assert [one.key for one in found] == [long, "y" * 29, "L1 " + "y" * 29]
    assert [(one.identifier, one.code) for one in dropped_rows] == [("L1 " + long, "too_long")]


def test_load_is_cores_times_the_power_of_the_queue() -> None:
    queues = {"A": QueueAbout(corepower=12.5), "B": QueueAbout(corepower=0.0), "C": QueueAbout()}
    counts = [
        ShareCount("X", "A", True, 8),
        ShareCount("X", "B", True, 1),
        ShareCount("X", "C", False, 2),
        ShareCount("X", "GONE", True, 1e6),
        ShareCount(None, "A", True, 2),
        ShareCount("Y", None, True, 77),  # PanDA's statistics hold HS06
    ]
    assert share_loads(counts, queues) == {"X": ShareLoad(110, 20), "": ShareLoad(25, 0), "Y": ShareLoad(77, 0)}
