from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from broker.domain.arrays import texts
from broker.matching.specs.node import Node
from broker.matching.specs.spec import JobSpecs, Spec
from broker.pilots.model.group_fields import PilotRequest
from broker.pilots.model.matcher import (
    FIELDS,
    MATCHES,
    NOTHING_WAITS,
    TAKEN_BY_OTHERS,
    Pilot,
    TaskQueueTable,
    no_match,
    pool_fits,
)
from broker.pilots.model.waiting_groups import GroupIndex
from tests.pilots.plain_conditions import match_task_queues

PLAIN: dict[str, Any] = {
    "vo": "lhcb", "owner": "ann", "owner_group": "grp", "panda_queue": "Q", "resource_type": "SCORE", "sites": (),
    "banned_sites": (), "platforms": (), "cputime_class_s": 0, "pool": None, "specs": None,
    "job_type": "simul",
}  # fmt: skip


def table(**columns: Any) -> TaskQueueTable:
    """A table of one task queue: default values except for the given columns."""
    values = {**PLAIN, **columns}
    lists: dict[str, Any] = {name: np.empty(1, dtype=np.object_) for name in ("sites", "banned_sites", "platforms")}
    for name, column in lists.items():
        column[0] = values[name]
    names = {
        name: texts([values[name]])
        for name in ("vo", "owner", "owner_group", "panda_queue", "resource_type", "pool", "specs", "job_type")
    }
    ones = np.ones(1)
    return TaskQueueTable(
        id=ones.astype(np.int64), cputime_class_s=np.array([values["cputime_class_s"]]), weight=ones,
        tier=np.array([1000]), type_weight=ones, **lists, **names,
    )  # fmt: skip


HOUR = JobSpecs((Spec(wall_time_s=3600),), "lhcb").canonical
PRESENTED: dict[str, Any] = {"site": "A", "ce": "ce", "queue": "q"}


@pytest.mark.parametrize(
    ("queue", "pilot", "reason"),
    [
        ({}, {}, None),
        ({}, {"vo": "LHCb"}, None),
        ({}, {"vo": "atlas"}, "vo"),
        ({"vo": None}, {"vo": "lhcb"}, "vo"),
        ({"panda_queue": "OTHER"}, {}, "queue"),
        ({"panda_queue": None}, {}, None),
        ({}, {"resource_type": "SCORE"}, None),
        ({}, {"resource_type": "MCORE"}, "resource_type"),
        ({"resource_type": None}, {"resource_type": "MCORE"}, None),
        ({}, {"owner": "ann", "owner_group": "grp"}, None),
        # both must match: an owner's pilot takes no jobs of other owners or groups
        ({"owner_group": "x"}, {"owner": "ann", "owner_group": "grp"}, "owner_group"),
        ({"owner": "bob"}, {"owner": "ann", "owner_group": "grp"}, "owner"),
        ({"sites": ("B", "A")}, {}, None),
        ({"sites": ("B",)}, {}, "site"),
        # "any" is an ordinary name on both sides
        ({"sites": ("any",)}, {}, "site"),
        ({"sites": ("B",)}, {"site": "any"}, "site"),
        ({"banned_sites": ("B",)}, {}, None),
        ({"banned_sites": ("B", "A")}, {}, "banned_site"),
        ({"platforms": ("el8", "el9")}, {"platforms": ("x", "el9")}, None),
        ({"platforms": ("el8",)}, {"platforms": ("el9",)}, "platform"),
        # a pilot that presents no platform gets no job with a platform requirement
        ({"platforms": ("el8",)}, {}, "platform"),
        ({"cputime_class_s": 360}, {}, "cpu_time"),
        ({"cputime_class_s": 172800}, {"cputime_s": 86400}, "cpu_time"),
        # jobs of 86401 s are in this class: they are found, and each job is checked separately
        ({"cputime_class_s": 172800}, {"cputime_s": 86401}, None),
        ({"cputime_class_s": 360}, {"cputime_s": 1}, None),
        ({"pool": "sp1-a"}, {}, None),
        ({"pool": "sp1-b"}, {}, "submit_pool"),
        ({"pool": "sp1-b", "vo": "x"}, {"vo": "lhcb"}, "vo"),
        ({"specs": HOUR}, {}, "node"),
        ({"specs": HOUR}, {"node": Node("A", wall_time_s=3600)}, None),
        ({"specs": HOUR}, {"node": Node("A", wall_time_s=3599)}, "node"),
        ({"specs": HOUR}, {"node": Node("A")}, "node"),
        ({}, {"node": Node("A")}, None),
        # specs written by another version fit no node and block no other job
        ({"specs": '["matchspec/9",[]]'}, {"node": Node("A", wall_time_s=3600)}, "node"),
    ],
)
def test_every_field(queue: dict[str, Any], pilot: dict[str, Any], reason: str | None) -> None:
    presented, pools = Pilot(**{**PRESENTED, **pilot}), frozenset({"sp1-a"})
    [reason_index] = match_task_queues(table(**queue), presented, "Q", pools).tolist()
    assert (None if reason_index == MATCHES else FIELDS[reason_index]) == reason
    assert GroupIndex(table(**queue)).reasons(PilotRequest(presented, "Q", pools, presented.node)).tolist() == [
        reason_index
    ]


@pytest.mark.parametrize(
    ("pool", "presented", "mapped", "fits"),
    [
        (None, None, None, True),
        (None, ["P1"], None, True),
        ("P1", ["P2", "P1"], None, True),
        ("P1", ["P2"], None, False),
        ("P1", None, None, False),
        ("P1", [], None, False),
        ("P1", ["any"], None, False),
        # the current mapping counts, whatever the pilot presents
        ("P1", ["P1"], ["P2"], False),
        ("P1", [], ["P1"], True),
        ("P1", ["P1"], [], False),
    ],
)
def test_pools_are_strict(pool: str | None, presented: list[str] | None, mapped: list[str] | None, fits: bool) -> None:
    assert pool_fits(pool, presented, mapped) is fits


def test_the_reason_nearest_to_a_match_is_reported() -> None:
    site, pool = FIELDS.index("site"), FIELDS.index("submit_pool")
    assert no_match(np.array([], dtype=np.int64)) == (NOTHING_WAITS, {})
    assert no_match(np.array([pool, site, site])) == ("submit_pool", {"site": 2, "submit_pool": 1})
    assert no_match(np.array([site, MATCHES])) == (TAKEN_BY_OTHERS, {"site": 1})
