"""The type of a value is declared or follows from its literal; what a job may not require is refused."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from broker.pools.model.declarations import Declaration, Declarations
from broker.pools.model.description import NumberLiteral, RequirementRefused
from broker.pools.model.job_text import resolve_requirements
from broker.pools.model.requirement import STANDARD_KEYWORDS

N = NumberLiteral
DECLARED = Declarations(
    {
        "Memory": Declaration("number", unit="MB"),
        "Model": Declaration("text"),
        "Cores": Declaration(smallest=Decimal(1), largest=Decimal(64)),
        "Queue": Declaration(choices=frozenset({"short", "long"})),
        "Level": Declaration("text", smallest=Decimal(1), choices=frozenset({"1"})),
    }
)


def entry_of(name: str, value: Any) -> list[Any]:
    pool = resolve_requirements({name: value}, "lhcb", DECLARED)
    assert pool is not None
    return pool.requirements[0].entry()[1:]


@pytest.mark.parametrize(
    ("name", "value", "entry"),
    [
        ("Memory", "4e3", ["ge", "4000"]),
        ("Memory", N("4000.50"), ["ge", "4000.5"]),
        ("Model", N("4e3"), ["any", ["4e3"]]),
        ("Model", [N("5"), "a"], ["any", ["5", "a"]]),
        ("Cores", "1", ["ge", "1"]),
        ("Cores", N("64"), ["ge", "64"]),
        ("Queue", ["short", "long"], ["any", ["long", "short"]]),
        ("Level", N("1"), ["any", ["1"]]),
        ("Other", N("10"), ["ge", "10"]),
        ("Other", "10", ["any", ["10"]]),
        ("Other", ("b", " a", "b"), ["any", ["a", "b"]]),
        ("Other", [str(number) for number in range(64)], ["any", sorted(map(str, range(64)))]),
        ("memory", "4000", ["any", ["4000"]]),
    ],
)
def test_the_requirement_of_a_value(name: str, value: Any, entry: list[Any]) -> None:
    assert entry_of(name, value) == entry


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("Memory", "much", "not-a-number"),
        ("Memory", ["4000"], "numeric-list"),
        ("Memory", [N("4000"), "a"], "numeric-list"),
        ("Memory", "", "not-a-number"),
        ("Cores", N("0.999999999999"), "outside-declared-range"),
        ("Cores", "64.000000000001", "outside-declared-range"),
        ("Queue", "Short", "not-a-choice"),
        ("Other", [N("1")], "numeric-list"),
        ("Other", [N("1"), "1"], "mixed-list"),
        ("Other", [], "empty-list"),
        ("Other", ["a", ""], "empty-value"),
        ("Other", [["a"]], "nested-list"),
        ("Other", ["a"] * 65, "too-many-values"),
        ("Other", N("1e18"), "number-range"),
        ("1st", "a", "name-invalid"),
        ("x" * 65, "a", "name-invalid"),
        ("Größe", "a", "name-invalid"),
        ("a b", "a", "name-invalid"),
        ("", "a", "name-invalid"),
        ("a\n", "a", "name-invalid"),
    ],
)
def test_invalid_requirements_are_refused_by_name(name: str, value: Any, code: str) -> None:
    with pytest.raises(RequirementRefused) as refusal:
        resolve_requirements({name: value}, "lhcb", DECLARED)
    assert (refusal.value.code, refusal.value.name) == (code, name)


def test_the_declared_kind_is_named_in_the_refusal() -> None:
    with pytest.raises(RequirementRefused, match=r"declared as a number in MB \(Memory\)"):
        resolve_requirements({"Memory": "4 GB"}, "lhcb", DECLARED)


@pytest.mark.parametrize("keyword", sorted(STANDARD_KEYWORDS.values()))
def test_standard_keywords_belong_outside(keyword: str) -> None:
    for name in (keyword, keyword.lower(), keyword.upper()):
        with pytest.raises(RequirementRefused, match=f"standard-keyword: write {keyword} outside"):
            resolve_requirements({name: "x"}, "lhcb")


def test_the_number_of_requirements_is_limited() -> None:
    requirements = {f"P{number}": "x" for number in range(64)}
    pool = resolve_requirements(requirements, "lhcb")
    assert pool is not None
    assert len(pool.requirements) == 64
    with pytest.raises(RequirementRefused, match="too-many-requirements"):
        resolve_requirements(requirements | {"P64": "x"}, "lhcb")


def test_no_requirements_give_no_pool_but_the_vo_is_checked() -> None:
    assert resolve_requirements({}, "lhcb") is None
    with pytest.raises(RequirementRefused, match="vo-invalid"):
        resolve_requirements({}, "")
