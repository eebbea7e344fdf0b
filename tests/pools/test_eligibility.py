"""Eligibility is monotonous, agrees with the plain definition queue by queue, and compares numbers exactly."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from broker.pools.model.description import number_of
from broker.pools.model.eligibility import evaluate, match_pools
from broker.pools.model.requirement import Requirement, SubmitPool, pool_of
from broker.pools.model.resource_text import resources_of
from broker.pools.model.resources import EffectiveQueue, Resources
from tests.pools.random_requirements import requirements

VALUES: dict[str, list[object]] = {
    "Memory": ["", "2", "4.0", "4GB", ["3"], "-1", "1e1"],
    "Disk": ["", "0", "1", "2", "3", "4"],
    "SoftwareTag": ["", "V1", ["V1", "V2"], ["V2"], "v1", ["V3", "V1"]],
    "CPUModel": ["", "V1", "V2"],
}


def small_grid(seed: int) -> Resources:
    rng = np.random.default_rng(seed)

    def level(**inner: object) -> dict[str, object]:
        def params() -> dict[str, object]:
            return {name: pool[int(rng.integers(len(pool)))] for name, pool in VALUES.items() if rng.random() < 0.4}

        vos = [[], [], ["lhcb"], ["atlas"]][int(rng.integers(4))]
        return {"params": params(), "vo_params": {"LHCb": params()}, "VO": vos, **inner}

    sites = {
        f"S{s}": level(ces={f"c{c}": level(queues={f"q{q}": level() for q in range(2)}) for c in range(2)})
        for s in range(3)
    }
    return resources_of(sites)[0]


def plainly(pool: SubmitPool, queue: EffectiveQueue) -> str | None:
    """The definition, for one pool and one queue."""
    if not queue.admitted:
        return "vo"
    for one in pool.requirements:
        value = queue.parameters.get(one.name)
        if value is None:
            return f"missing:{one.name}"
        if one.operator == "any":
            if not set(one.values) & ({value} if isinstance(value, str) else set(value)):
                return f"no-common-value:{one.name}"
            continue
        number = number_of(value) if isinstance(value, str) else None
        if number is None:
            return f"resource-not-a-number:{one.name}"
        if number < Decimal(one.values[0]):
            return f"below:{one.name}"
    return None


def pools() -> st.SearchStrategy[SubmitPool]:
    some = st.lists(requirements(), min_size=1, max_size=4, unique_by=lambda one: one.name)
    return st.builds(pool_of, st.sampled_from(["lhcb", "atlas"]), some).map(lambda one: one or SubmitPool("", ()))


@pytest.mark.slow
@given(st.lists(pools(), min_size=1, max_size=6), st.integers(0, 30))
@settings(max_examples=60, deadline=None)
def test_all_at_once_as_by_the_definition(some: list[SubmitPool], seed: int) -> None:
    grid = small_grid(seed)
    answer = match_pools(some, grid)
    for row, pool in enumerate(some):
        expected = {queue.name: plainly(pool, queue) for queue in grid.effective(pool.vo)}
        assert answer.reasons(row) == {name: why for name, why in expected.items() if why is not None}
        assert answer.eligible_queues(row) == [name for name in grid.queues if expected[name] is None]


@given(pools(), requirements(), st.integers(0, 30))
@settings(max_examples=60, deadline=None)
def test_asking_for_more_never_adds_and_accepting_more_never_removes(
    pool: SubmitPool, added: Requirement, seed: int
) -> None:
    grid = small_grid(seed)
    before = evaluate([pool], grid)[0]
    others = [one for one in pool.requirements if one.name != added.name]
    if len(others) == len(pool.requirements):
        more = pool_of(pool.vo, [*others, added])
        assert more is not None
        assert not (evaluate([more], grid)[0] & ~before).any()
    for one in pool.requirements:
        rest = [other for other in pool.requirements if other is not one]
        if one.operator == "ge":
            higher = pool_of(pool.vo, [*rest, Requirement(one.name, "ge", (str(Decimal(one.values[0]) + 1),))])
            assert higher is not None
            assert not (evaluate([higher], grid)[0] & ~before).any()
        else:
            wider = pool_of(pool.vo, [*rest, Requirement(one.name, "any", tuple(sorted({*one.values, "V3"})))])
            assert wider is not None
            assert not (before & ~evaluate([wider], grid)[0]).any()


@pytest.mark.parametrize(
    ("has", "asks", "reason"),
    [
        ("4000", "4000", None),
        ("4000", "4000.000000000001", "below:X"),
        # Binary floats do not tell these apart.
        ("900000000000000000.1", "900000000000000000.1", None),
        ("900000000000000000.1", "900000000000000000.2", "below:X"),
        ("99999999999999999.9", "100000000000000000", "below:X"),
        ("1e18", "1", "resource-not-a-number:X"),
        ("nan", "1", "resource-not-a-number:X"),
        ("inf", "1", "resource-not-a-number:X"),
        ("true", "1", "resource-not-a-number:X"),
        (["4000"], "1", "resource-not-a-number:X"),
        ("", "0", "missing:X"),
        ("-1", "-1", None),
        ("-1", "0", "below:X"),
    ],
)
def test_numbers_are_compared_exactly(has: object, asks: str, reason: str | None) -> None:
    grid, _ = resources_of({"S": {"ces": {"c": {"queues": {"q": {"params": {"X": has}}}}}}})
    pool = pool_of("lhcb", [Requirement("X", "ge", (asks,))])
    assert pool is not None
    answer = match_pools([pool], grid)
    assert list(answer.reasons(0).values()) == ([] if reason is None else [reason])


def test_nothing_at_all() -> None:
    grid, _ = resources_of({})
    pool = pool_of("lhcb", [Requirement("X", "ge", ("1",))])
    assert pool is not None
    assert evaluate([pool], grid).shape == (1, 0)
    assert evaluate([], small_grid(1)).shape == (0, 12)
    assert match_pools([pool], grid).reasons(0) == {}
