"""Usage of shares against their targets, with expected values computed by hand."""

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
    records = preferences(
        leaves_of(tree, dropped_rows), {name: ShareLoad(*load) for name, load in loads.items()}, dropped_rows
    )
    assert dropped_rows == []
    assert len({row.key for row in records}) == len(records)
    return {row.key: row for row in records}


def test_siblings_split_the_fraction_of_their_parent() -> None:
    dropped_rows: list[DroppedRow] = []
    leaves = leaves_of(TREE, dropped_rows)
    assert [leaf.name for leaf in leaves] == ["Simulation", "Derivation", "User Analysis", "Express Analysis"]
    assert [leaf.top for leaf in leaves] == ["Production", "Production", "Analysis", "Analysis"]
    assert [leaf.fraction for leaf in leaves] == pytest.approx([0.45, 0.15, 0.32, 0.08])
    assert dropped_rows == []


def test_shares_outside_the_tree_are_dropped() -> None:
    dropped_rows: list[DroppedRow] = []
    circle = (ShareNode("X", 1, "Y"), ShareNode("Y", 1, "X"), ShareNode("Self", 1, "Self"), ShareNode("O", 1, "no"))
    leaves = leaves_of((*circle, ShareNode("Top", 5, None), ShareNode("Zero", 0, None)), dropped_rows)
    assert leaves == (Leaf("Top", "Top", 1.0), Leaf("Zero", "Zero", 0.0))
    assert [(dropped.identifier, dropped.code) for dropped in dropped_rows] == [
        (name, "no_parent") for name in ("X", "Y", "Self", "O")
    ]


def test_usage_ranks_and_targets() -> None:
    """1000 HS06 are running, 100 of them for no share of the tree."""
    shares = rows({"Simulation": (300, 50), "User Analysis": (400, 800), "Express Analysis": (200, 0), "": (100, 0)})
    ranks = [(share.key, share.rank) for share in shares.values() if share.rank > 0]
    assert ranks == [("Derivation", 1), ("Simulation", 2), ("User Analysis", 3), ("Express Analysis", 4)]
    user = shares["User Analysis"].row()
    assert (user.metric, user.computingsite, user.gshare) == ("gshare_preference", "NULL", "User Analysis")
    assert user.document == pytest.approx(
        {
            "gshare": "User Analysis", "rank": 3, "queuing_hs": 800, "running_hs": 400, "target_hs": 320,
            "usage_perc": 1.25, "queue_perc": 2.5, "norm_usage_perc": 0.4, "norm_queue_perc": 800 / 850,
            "norm_target_perc": 0.32, "proj_target_hs": 320, "eqiv_target_hs": 0, "eqiv_usage_perc": 0,
        }
    )  # fmt: skip


def test_capacity_left_by_idle_shares_goes_to_the_busy_ones() -> None:
    """Production runs 300 of 600 and half of its queue is 350: it leaves 250. Analysis gets 400 + 250 x 400 / 401."""
    shares = rows({"Simulation": (300, 700), "User Analysis": (400, 0), "Express Analysis": (300, 0)})
    production, analysis = shares["L1 Production"], shares["L1 Analysis"]
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
    """The target is 100: idle means below 85 %, with half of the queue too small to fill the target."""
    share = SharePreference("L1 X", -1, ShareLoad(running, queuing), 100.0, ShareLoad(1000, 0))
    assert share.is_idle is idle


def test_without_a_target_usage_is_the_largest_value() -> None:
    shares = rows({"X": (5, 0)}, (ShareNode("X", 0, None), ShareNode("Y", 1, None)))
    assert shares["X"].usage_perc == shares["L1 X"].usage_perc == shares["L1 X"].eqiv_usage_perc == 999_999.0
    without_load = rows({})
    assert {share.usage_perc for share in without_load.values()} == {999_999.0}
    assert all(
        math.isfinite(value)
        for share in without_load.values()
        for value in share.row().document.values()
        if value != share.key
    )


def test_a_top_share_with_the_l1_prefix_keeps_its_name() -> None:
    tree = (ShareNode("L1 User Analysis", 1, None), ShareNode("User Analysis", 1, "L1 User Analysis"))
    assert list(rows({}, tree)) == ["User Analysis", "L1 User Analysis"]
    assert [share.rank for share in rows({}, (ShareNode("L1 X", 1, None),)).values()] == [-1]


def test_keys_too_long_for_the_table_are_dropped() -> None:
    dropped_rows: list[DroppedRow] = []
    long = "x" * 30
    records = preferences([Leaf(long, long, 1.0), Leaf("y" * 29, "y" * 29, 0.0)], {}, dropped_rows)
    assert [entry.key for entry in records] == [long, "y" * 29, "L1 " + "y" * 29]
    assert [(entry.identifier, entry.code) for entry in dropped_rows] == [("L1 " + long, "too_long")]


def test_load_is_cores_times_the_power_of_the_queue() -> None:
    queues = {"A": QueueAbout(corepower=12.5), "B": QueueAbout(corepower=0.0), "C": QueueAbout()}
    counts = [
        ShareCount("X", "A", True, 8),
        ShareCount("X", "B", True, 1),
        ShareCount("X", "C", False, 2),
        ShareCount("X", "GONE", True, 1e6),
        ShareCount(None, "A", True, 2),
        ShareCount("Y", None, True, 77),  # PanDA's statistics are in HS06 already
    ]
    assert share_loads(counts, queues) == {"X": ShareLoad(110, 20), "": ShareLoad(25, 0), "Y": ShareLoad(77, 0)}
