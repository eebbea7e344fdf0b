"""Queues for chunks that require a resource pool or name sites."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from broker.domain.arrays import texts
from broker.domain.work import DroppedRow, PlacementConstraints
from broker.rules.contract import Filter
from broker.rules.shared.filters.asked_site import AskedSite
from broker.rules.shared.filters.submit_pool import SubmitPool
from broker.snapshot.raw import RawSource, Rows
from broker.snapshot.sources.pools import MEMBER_COLUMNS, MEMBERS, PLACE_COLUMNS, PLACES, build_pools
from tests.rules.builders import Case, check, kept, rejected

POOL = PlacementConstraints("sp1-a")
SITES = PlacementConstraints(None, ("A",))
BANNED = PlacementConstraints(None, (), ("A",))


@pytest.mark.parametrize(
    ("rule", "case"),
    [
        (SubmitPool(), kept(placement_constraints=None, pool_admitted=False)),
        (SubmitPool(), kept(placement_constraints=SITES, pool_admitted=False)),
        (SubmitPool(), kept(placement_constraints=POOL, pool_admitted=True)),
        (SubmitPool(), rejected(placement_constraints=POOL, pool_admitted=False)),
        (SubmitPool(), rejected(placement_constraints=POOL, pool_admitted=False, one_preassigned=True)),
        (AskedSite(), kept(placement_constraints=None, site_admitted=False)),
        (AskedSite(), kept(placement_constraints=POOL, site_admitted=False)),
        (AskedSite(), kept(placement_constraints=SITES, site_admitted=True)),
        (AskedSite(), rejected(placement_constraints=SITES, site_admitted=False)),
        (AskedSite(), rejected(placement_constraints=BANNED, site_admitted=False, listed=True)),
    ],
    ids=lambda value: str(value.given) if isinstance(value, Case) else value.name,
)
def test_the_rules(rule: Filter[Any], case: Case) -> None:
    check(rule, case)


PLACE_ROWS = (
    (1, "A", "ce", "q1", "QUEUE_A"),
    (2, "B", "ce", "q1", "QUEUE_A"),
    (3, "B", "ce", "QUEUE_B", None),
    (4, "B", "ce", "elsewhere", None),
    (5, "B", "ce", "q9", "NOT_THERE"),
)
SOURCE = RawSource(
    "pools",
    {PLACES: Rows(PLACE_COLUMNS, PLACE_ROWS), MEMBERS: Rows(MEMBER_COLUMNS, (("sp1-a", "1,3"), ("sp1-none", None)))},
)
UNIFIED = {"QUEUE_A": 0, "QUEUE_B": 1, "QUEUE_C": 2}


@pytest.mark.parametrize(
    ("constraints", "at_site", "in_pool"),
    [
        # QUEUE_C has no places, so its own site C counts
        (PlacementConstraints("sp1-a"), [1, 1, 1], [1, 1, 0]),
        (PlacementConstraints("sp1-none"), [1, 1, 1], [0, 0, 0]),
        (PlacementConstraints("sp1-gone"), [1, 1, 1], [0, 0, 0]),
        (PlacementConstraints(None, ("B", "C")), [1, 1, 1], [1, 1, 1]),
        (PlacementConstraints(None, ("A",)), [1, 0, 0], [1, 0, 0]),
        (PlacementConstraints(None, (), ("A",)), [1, 1, 1], [1, 1, 1]),
        (PlacementConstraints(None, (), ("B", "C")), [1, 0, 0], [1, 0, 0]),
        # the place at B is not in the pool, the one at A is banned
        (PlacementConstraints("sp1-a", (), ("A",)), [1, 1, 1], [0, 1, 0]),
        (PlacementConstraints("sp1-a", ("A",)), [1, 0, 0], [1, 0, 0]),
    ],
)
def test_a_place_is_at_the_site_and_in_the_pool(
    constraints: PlacementConstraints, at_site: list[int], in_pool: list[int]
) -> None:
    dropped: list[DroppedRow] = []
    table = build_pools(SOURCE, UNIFIED, dropped)
    masks = table.admitted(constraints, texts(["X", "Y", "C"]))
    assert [mask.astype(int).tolist() for mask in masks] == [at_site, in_pool]
    assert [(row.identifier, row.code) for row in dropped] == [("B/ce/q9", "unknown_queue")]


def test_without_places_only_the_own_site_counts() -> None:
    table = build_pools(RawSource("pools", {}), UNIFIED, [])
    at_site, in_pool = table.admitted(PlacementConstraints("sp1-a", ("C",)), texts(["X", None, "C"]))
    assert (at_site.tolist(), np.flatnonzero(in_pool).tolist()) == ([False, False, True], [])
