"""Equal requirements have one canonical text, and no other text is read back."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from broker.pools.model.description import RawValue, RequirementRefused
from broker.pools.model.job_text import resolve_requirements
from broker.pools.model.requirement import Requirement, parse_canonical, pool_of
from tests.pools.random_requirements import raw_requirements

XEON = '["submitpool/1","lhcb",[["CPUModel","any",["Intel Xeon"]],["Memory","ge","4000"]]]'


@given(raw_requirements(min_size=1), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_order_and_repetition_do_not_count(requirements: dict[str, RawValue], random: Any) -> None:
    pool = resolve_requirements(requirements, "lhcb")
    names = list(requirements)
    random.shuffle(names)
    shuffled: dict[str, RawValue] = {}
    for name in names:
        value = requirements[name]
        if isinstance(value, list):
            value = [*value, random.choice(value)]
            random.shuffle(value)
        shuffled[name] = value
    shuffled_pool = resolve_requirements(shuffled, " LHCb ")
    assert pool is not None
    assert shuffled_pool is not None
    assert (shuffled_pool.canonical, shuffled_pool.pool_id) == (pool.canonical, pool.pool_id)
    assert shuffled_pool == pool


@given(raw_requirements(min_size=1))
@settings(max_examples=60, deadline=None)
def test_a_canonical_text_read_back_is_itself(requirements: dict[str, RawValue]) -> None:
    pool = resolve_requirements(requirements, "vo.example.org")
    assert pool is not None
    reparsed = parse_canonical(pool.canonical)
    assert reparsed == pool
    assert reparsed.canonical == pool.canonical
    digest = hashlib.sha256(pool.canonical.encode()).hexdigest()
    assert (pool.pool_id, len(pool.pool_id)) == ("sp1-" + digest[:32], 36)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (XEON.replace("lhcb", "LHCb"), "not-canonical"),
        (XEON.replace('"4000"', '"4000.0"'), "not-canonical"),
        (XEON.replace('"4000"', "4000"), "not-canonical"),
        (XEON.replace("Intel Xeon", " Intel Xeon"), "not-canonical"),
        (XEON.replace('["Intel Xeon"]', '["b","a"]'), "not-canonical"),
        (XEON.replace('["Intel Xeon"]', '["a","a"]'), "not-canonical"),
        (XEON.replace('["Intel Xeon"]', "[]"), "not-canonical"),
        (XEON.replace('["Intel Xeon"]', '["Z\\u00fcrich"]'), "not-canonical"),
        (XEON.replace("CPUModel", "Name"), "not-canonical"),
        (XEON.replace(",", ", "), "not-canonical"),
        (XEON.replace("submitpool/1", "submitpool/2"), "not-canonical"),
        (XEON.replace('"ge"', '"le"'), "operator-reserved"),
        (XEON.replace('"any"', '"all"'), "operator-reserved"),
        (XEON.replace('"ge"', '"=="'), "not-canonical"),
        (XEON.replace("Memory", "Site"), "standard-keyword"),
        (XEON.replace("CPUModel", "memory"), "name-case-clash"),
        ('["submitpool/1","lhcb",[]]', "not-canonical"),
        ("[" * 100_000, "not-canonical"),
        ("{}", "not-canonical"),
        ("", "not-canonical"),
        (XEON[:-1], "not-canonical"),
    ],
)
def test_texts_that_are_not_canonical(text: str, code: str) -> None:
    assert parse_canonical(XEON).canonical == XEON
    with pytest.raises(RequirementRefused) as refusal:
        parse_canonical(text)
    assert refusal.value.code == code


@pytest.mark.parametrize("vo", ["", "  ", "a b", "a/b", "-x", "x" * 65, "v\no", "\u212aek"])
def test_invalid_names_of_a_vo_are_refused(vo: str) -> None:
    with pytest.raises(RequirementRefused, match="vo-invalid"):
        pool_of(vo, [])


def test_a_pool_accepts_only_canonical_values() -> None:
    for bad in (Requirement("A", "ge", ("1.0",)), Requirement("A", "any", ("b", "a")), Requirement("A", "ge", ())):
        with pytest.raises(RequirementRefused):
            pool_of("lhcb", [bad])
    assert pool_of("lhcb", []) is None
