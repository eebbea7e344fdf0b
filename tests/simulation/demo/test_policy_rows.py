from __future__ import annotations

import pytest

from broker.simulation.model.demo.facts import DemoFacts
from broker.simulation.model.demo.policy_rows import resource_type_of, share_queue_ids


@pytest.mark.parametrize(
    ("cores", "ram_mb_per_core", "name"),
    [
        (1, 1000, "SCORE_LOMEM"),
        (1, 1000.9, "SCORE_LOMEM"),
        (1, 1001, "SCORE"),
        (1, 2000, "SCORE"),
        (1, 2001, "SCORE_HIMEM"),
        (1, 3501, "SCORE_VHIMEM"),
        (2, 1000, "MCORE_LOMEM"),
        (8, 2000, "MCORE"),
        (64, 90_000, "MCORE_VHIMEM"),
        (0, 1500, "Undefined"),
    ],
)
def test_resource_type(demo_facts: DemoFacts, cores: int, ram_mb_per_core: float, name: str) -> None:
    assert resource_type_of(demo_facts, cores, ram_mb_per_core) == name


def test_shares_are_numbered_in_the_range_of_share_queues(demo_facts: DemoFacts) -> None:
    ids = share_queue_ids(demo_facts)
    assert len(set(ids.values())) == len(demo_facts.shares)
    assert min(ids.values()) > 9000
