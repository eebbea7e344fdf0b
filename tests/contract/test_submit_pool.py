"""Cases of SubmitPools: the identifier, the eligible queues, and the reason why each other queue is not."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from broker.pools.model.declarations import Declaration, Declarations
from broker.pools.model.description import NumberLiteral, RequirementRefused
from broker.pools.model.eligibility import evaluate, match_pools
from broker.pools.model.job_text import kind_of, read_job, resolve_requirements
from broker.pools.model.requirement import SubmitPool, parse_canonical
from broker.pools.model.resource_text import resources_of, unusable_numbers
from tests.contract.offers import HERE

DATA = json.loads(
    (HERE / "submit_pool.json").read_text(encoding="utf-8"), parse_int=NumberLiteral, parse_float=NumberLiteral
)
CASES = DATA["requirements"]
CASES_WITH_QUEUES = [case for case in CASES if "why_not" in case]
DECLARED = Declarations({name: Declaration(kind) for name, kind in DATA["declared"].items()})
RESOURCES, LEFT_OUT = resources_of(DATA["resources"])


def pool_of_case(case: dict[str, Any]) -> SubmitPool | None:
    return resolve_requirements(case["requires"], case["vo"], DECLARED)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_the_identifier(case: dict[str, Any]) -> None:
    if "refused" in case:
        with pytest.raises(RequirementRefused) as refusal:
            pool_of_case(case)
        assert (refusal.value.code, refusal.value.name in case["requires"]) == (case["refused"], True)
        return
    pool = pool_of_case(case)
    assert (pool and pool.pool_id, pool and pool.canonical) == (case["pool"], case["canonical"])
    assert pool is None or parse_canonical(pool.canonical) == pool


@pytest.mark.parametrize("case", CASES_WITH_QUEUES, ids=lambda case: case["case"])
def test_the_eligible_queues_and_the_reasons(case: dict[str, Any]) -> None:
    pool = pool_of_case(case)
    assert pool is not None
    answer = match_pools([pool], RESOURCES)
    assert [str(queue) for queue in answer.eligible_queues(0)] == case["eligible"]
    assert {str(queue): reason for queue, reason in answer.reasons(0).items()} == case["why_not"]


def test_evaluating_all_pools_at_once_equals_one_by_one() -> None:
    pools = [pool for case in CASES_WITH_QUEUES if (pool := pool_of_case(case)) is not None]
    together = evaluate(pools, RESOURCES)
    assert together.shape == (len(CASES_WITH_QUEUES), len(RESOURCES.queues))
    for row, pool in zip(together, pools, strict=True):
        assert np.array_equal(row, evaluate([pool], RESOURCES)[0])


@pytest.mark.parametrize("vo", DATA["effective"])
def test_parameters_of_a_vo_after_inheritance(vo: str) -> None:
    parameters_by_queue = {str(queue.name): queue.parameters for queue in RESOURCES.effective(vo)}
    assert parameters_by_queue == {
        queue: {name: tuple(value) if isinstance(value, list) else value for name, value in parameters.items()}
        for queue, parameters in DATA["effective"][vo].items()
    }


def test_operators_are_told_of_values_that_are_no_numbers() -> None:
    assert LEFT_OUT == ()
    assert [finding.path for finding in unusable_numbers(RESOURCES, DECLARED.numbers)] == [
        "LCG.Gamma.org/Memory",
        "LCG.Gamma.org/arm/odd/Memory",
    ]


def test_case_names_are_unique() -> None:
    names = [case["case"] for case in CASES]
    assert len(names) == len(set(names)) == 37
    assert len(CASES_WITH_QUEUES) == 22


def as_in_cases(value: Any) -> Any:
    """Convert a value to the form of the cases: numbers are compared by value, not by text."""
    if isinstance(value, NumberLiteral):
        return Decimal(value.text)
    return value if isinstance(value, str) else [as_in_cases(item) for item in value]


@pytest.mark.parametrize("case", DATA["texts"], ids=lambda case: case["case"])
def test_the_requirements_in_a_text(case: dict[str, Any]) -> None:
    assert kind_of(case["text"]) == case["kind"]
    if "refused" in case:
        with pytest.raises(RequirementRefused) as refusal:
            read_job(case["text"], case["kind"])
        assert refusal.value.code == case["refused"]
        assert refusal.value.place is not None
        return
    requirements, expected = read_job(case["text"], case["kind"]).requirements, case["requires"]
    assert (requirements is None) == (expected is None)
    for name, value in (requirements or {}).items():
        assert as_in_cases(value) == as_in_cases(expected[name])
    assert set(requirements or {}) == set(expected or {})
