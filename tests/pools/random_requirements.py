"""Hypothesis strategies for valid requirements."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import strategies as st

from broker.pools.model.description import NumberLiteral, RawValue, decimal_text
from broker.pools.model.requirement import Requirement

NAMES = ["Memory", "Disk", "SoftwareTag", "CPUModel", "A1", "b_2", "Z"]
TEXTS = ["V1", "V2", "intel xeon", "Intel Xeon", "a,b", 'q"uo\\te', "Zürich", "10", "Ω", "\U0001f680"]


def number_texts() -> st.SearchStrategy[str]:
    decimals = st.decimals(min_value=Decimal(-(10**17)), max_value=Decimal(10**17), places=3)
    return st.one_of(
        decimals.map(lambda number: f"{number:f}"), st.integers(-20, 20).map(str), st.sampled_from(["4e3", "+07.50"])
    )


def texts() -> st.SearchStrategy[str]:
    return st.sampled_from(TEXTS)


def raw_values() -> st.SearchStrategy[RawValue]:
    return st.one_of(number_texts().map(NumberLiteral), texts(), st.lists(texts(), min_size=1, max_size=4))


def raw_requirements(min_size: int = 0) -> st.SearchStrategy[dict[str, RawValue]]:
    return st.dictionaries(st.sampled_from(NAMES), raw_values(), min_size=min_size, max_size=5)


def requirements() -> st.SearchStrategy[Requirement]:
    """Canonical requirements on the few parameters of the small grid."""
    number = st.integers(-2, 6).map(lambda value: decimal_text(str(value)))
    return st.one_of(
        st.builds(lambda name, least: Requirement(name, "ge", (least,)), st.sampled_from(["Memory", "Disk"]), number),
        st.builds(
            lambda name, values: Requirement(name, "any", tuple(sorted(values))),
            st.sampled_from(["SoftwareTag", "CPUModel"]),
            st.sets(st.sampled_from(["V1", "V2", "V3"]), min_size=1),
        ),
    )
