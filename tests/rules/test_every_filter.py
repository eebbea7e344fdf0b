"""What holds for every filter of the production job brokerage, on random tables."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.brokerages.production_job import FILTERS
from broker.rules.contract import Filter
from tests.rules.builders import holds, looks_at, passes, tuning_for
from tests.rules.random_tables import one, random_tables, reordered

ALONE = [rule for rule in FILTERS if isinstance(rule, Filter)]
CHUNKS, QUEUES = 3, 4
BUSY = {"WORK_SHORTAGE": True, "MAX_DISKIO_DEFAULT": 500}


@pytest.mark.parametrize("rule", ALONE, ids=lambda rule: rule.name)
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_observation_agrees_and_one_by_one_is_the_same(rule: Filter, seed: int) -> None:
    tasks, queues, facts = random_tables(seed, CHUNKS, QUEUES)
    tuning = tuning_for(rule, **BUSY)
    together = passes(rule, tasks, queues, facts, tuning)
    for row in range(CHUNKS):
        for column in range(QUEUES):
            alone = one(tasks, queues, facts, row, column)
            assert bool(passes(rule, *alone, tuning).item()) == together[row, column]
            if looks_at(rule, alone[0], alone[2], tuning):
                seen = rule.observe(*alone, tuning)
                assert holds(seen) == together[row, column], seen


@pytest.mark.parametrize("rule", FILTERS, ids=lambda rule: rule.name)
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), data=st.data())
def test_the_order_of_candidates_does_not_matter(rule: Filter, seed: int, data: st.DataObject) -> None:
    tasks, queues, facts = random_tables(seed, CHUNKS, QUEUES)
    order = np.array(data.draw(st.permutations(range(QUEUES))))
    tuning = tuning_for(rule, **BUSY)
    there = reordered(queues, facts, CHUNKS, order)
    again = passes(rule, tasks, *there, tuning)
    assert (again == passes(rule, tasks, queues, facts, tuning)[:, order]).all()


@pytest.mark.parametrize("rule", FILTERS, ids=lambda rule: rule.name)
def test_random_tables_show_both_sides(rule: Filter) -> None:
    masks = [passes(rule, *random_tables(seed, 8, 8), tuning_for(rule, **BUSY)) for seed in range(40)]
    everything = np.stack(masks)
    assert everything.any() and not everything.all()


@pytest.mark.parametrize("rule", FILTERS, ids=lambda rule: rule.name)
def test_a_rule_introduces_itself(rule: Filter) -> None:
    assert rule.name == type(rule).__module__.rsplit(".", 1)[1]
    assert type(rule).__name__.lower() == rule.name.replace("_", "")
    assert rule.title and "\n" not in rule.title and len(rule.title) < 100
    assert rule.code and rule.provenance
    assert rule.kind in ("persistent", "temporary")
    assert "Source: " in (type(rule).__doc__ or "").replace("\n    ", " ")
    assert set(rule.sources) <= {
        "queues", "storages", "links", "jobs", "pilots", "workers", "slots", "replicas", "software", "gpus",
        "features",
        "pools",
    }  # fmt: skip


def test_names_are_unique() -> None:
    assert len({rule.name for rule in FILTERS}) == len(FILTERS)
