"""The initial nuclei of a task: all nuclei, and for full chains also satellites that serve as bare nuclei."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from broker.domain.task_work import AssigningTable
from broker.engine.task.facts import _places, initial_nuclei
from broker.snapshot.snapshot import Snapshot
from tests.rules.nucleus.nucleus_builders import make_assigning
from tests.snapshot.raw_grid import at_site, build, endpoint, queue

BARE: dict[str, dict[str, str]] = {"ONLY": {"bareNucleus": "only"}, "ALLOW": {"bareNucleus": "allow"}, "PLAIN": {}}


def grid() -> Snapshot:
    """Nuclei N_... and satellites S_... of every kind: bare only, bare too, and not bare."""
    names = [f"{role}_{kind}" for role in "NS" for kind in BARE]
    return build(
        schedconfig_json=[queue(f"{name}_Q", params=BARE[name[2:]]) for name in names],
        panda_site=[at_site(f"{name}_Q", name) for name in names],
        site=[{"site_name": name, "role": "nucleus" if name[0] == "N" else "satellite"} for name in names],
    )


GRID = grid()
NUCLEI = {"N_ALLOW", "N_ONLY", "N_PLAIN"}
BARE_ONES = NUCLEI | {"S_ALLOW", "S_ONLY"}


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        ({}, NUCLEI),
        ({"full_chain": 1}, BARE_ONES),
        ({"full_chain": 2}, BARE_ONES),
        ({"full_chain": 3}, NUCLEI),
        ({"full_chain": 3, "parent_nucleus": "S_ALLOW"}, BARE_ONES),
        ({"full_chain": 3, "parent_nucleus": "N_PLAIN"}, NUCLEI),
        ({"full_chain": 0, "parent_nucleus": "S_ALLOW"}, NUCLEI),
        ({"nucleus": "N_ALLOW"}, {"N_ALLOW"}),  # the first by name
        ({"nucleus": "S_PLAIN"}, {"S_PLAIN"}),
        ({"nucleus": "GONE"}, NUCLEI),
    ],
)
def test_initial_nuclei(columns: dict[str, Any], names: set[str]) -> None:
    task = make_assigning(1, **columns)
    flat = {column.name: getattr(task, column.name).ravel() for column in dataclasses.fields(task)}
    (row,) = initial_nuclei(AssigningTable(**flat), GRID)
    assert set(GRID.nuclei.name[row]) == names


def test_expired_space_is_usable_and_the_tightest_endpoint_counts() -> None:
    """With two tokens the fuller endpoint counts: its free and expired space, and their sum."""
    storages = build(
        ddm_endpoint=[
            endpoint("A_DISK", "A", space_free=100, space_expired=30, space_total=1000),
            endpoint("B_DISK", "B", space_free=120, space_expired=None, space_total=1000),
        ]
    ).storages
    assert list(storages.name) == ["A_DISK", "B_DISK"]
    nuclei = np.array([[0, 1, 0], [1, 1, -1]])  # (K, N): A and B, B twice, A and none
    _, _, _, usable, free, expired, _, *_ = _places(storages, nuclei, np.zeros(3))
    assert usable.tolist() == [120.0, 120.0, 130.0]
    assert free.tolist() == [120.0, 120.0, 100.0]
    assert np.nan_to_num(expired).tolist() == [0.0, 0.0, 30.0]
