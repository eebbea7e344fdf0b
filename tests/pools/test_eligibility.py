"""Eligibility is monotonic, agrees with its definition for each queue, and compares numbers exactly."""

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


def defined_reason(pool: SubmitPool, queue: EffectiveQueue) -> str | None:
    """The reason by the definition, for one pool and one queue."""
    if not queue.admitted:
        return "vo"
    for requirement in pool.requirements:
        value = queue.parameters.get(requirement.name)
        if value is None:
            return f"missing:{requirement.name}"
        if requirement.operator == "any":
            if not set(requirement.values) & ({value} if isinstance(value, str) else set(value)):
                return f"no-common-value:{requirement.name}"
            continue
        number = number_of(value) if isinstance(value, str) else None
        if number is None:
            return f"resource-not-a-number:{requirement.name}"
        if number < Decimal(requirement.values[0]):
            return f"below:{requirement.name}"
    return None


def pools() -> st.SearchStrategy[SubmitPool]:
    requirement_lists = st.lists(requirements(), min_size=1, max_size=4, unique_by=lambda requirement: requirement.name)
    return st.builds(pool_of, st.sampled_from(["lhcb", "atlas"]), requirement_lists).map(
        lambda pool: pool or SubmitPool("", ())
    )


@pytest.mark.slow
@given(st.lists(pools(), min_size=1, max_size=6), st.integers(0, 30))
@settings(max_examples=60, deadline=None)
def test_all_pools_together_agree_with_the_definition(submit_pools: list[SubmitPool], seed: int) -> None:
    grid = small_grid(seed)
    answer = match_pools(submit_pools, grid)
    for row, pool in enumerate(submit_pools):
        expected = {queue.name: defined_reason(pool, queue) for queue in grid.effective(pool.vo)}
        assert answer.reasons(row) == {name: reason for name, reason in expected.items() if reason is not None}
        assert answer.eligible_queues(row) == [name for name in grid.queues if expected[name] is None]


@given(pools(), requirements(), st.integers(0, 30))
@settings(max_examples=60, deadline=None)
def test_stricter_requirements_never_add_queues_and_wider_ones_never_remove_them(
    pool: SubmitPool, extra: Requirement, seed: int
) -> None:
    grid = small_grid(seed)
    before = evaluate([pool], grid)[0]
    other_requirements = [requirement for requirement in pool.requirements if requirement.name != extra.name]
    if len(other_requirements) == len(pool.requirements):
        stricter = pool_of(pool.vo, [*other_requirements, extra])
        assert stricter is not None
        assert not (evaluate([stricter], grid)[0] & ~before).any()
    for requirement in pool.requirements:
        rest = [other for other in pool.requirements if other is not requirement]
        if requirement.operator == "ge":
            higher = pool_of(
                pool.vo, [*rest, Requirement(requirement.name, "ge", (str(Decimal(requirement.values[0]) + 1),))]
            )
            assert higher is not None
            assert not (evaluate([higher], grid)[0] & ~before).any()
        else:
            wider = pool_of(
                pool.vo, [*rest, Requirement(requirement.name, "any", tuple(sorted({*requirement.values, "V3"})))]
            )
            assert wider is not None
            assert not (before & ~evaluate([wider], grid)[0]).any()


@pytest.mark.parametrize(
    ("has", "asks", "reason"),
    [
        ("4000", "4000", None),
        ("4000", "4000.000000000001", "below:X"),
        # Binary floats cannot distinguish these.
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


def test_no_queues_and_no_pools() -> None:
    grid, _ = resources_of({})
    pool = pool_of("lhcb", [Requirement("X", "ge", ("1",))])
    assert pool is not None
    assert evaluate([pool], grid).shape == (1, 0)
    assert evaluate([], small_grid(1)).shape == (0, 12)
    assert match_pools([pool], grid).reasons(0) == {}
