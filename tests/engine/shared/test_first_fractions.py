"""The first draws of many seeds equal those of numpy's generators."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from broker.engine.shared.distribute import ONE_WORD, first_fractions


@settings(max_examples=50, deadline=None)
@given(
    first=st.integers(0, ONE_WORD - 1),
    second=st.integers(0, ONE_WORD - 1),
    last=st.lists(st.integers(0, ONE_WORD - 1), max_size=20),
)
def test_each_fraction_is_the_first_draw_of_its_generator(first: int, second: int, last: list[int]) -> None:
    fractions = first_fractions(first, second, np.array(last, dtype=np.int64))
    assert fractions.tolist() == [np.random.default_rng([first, second, seed]).random() for seed in last]


@pytest.mark.parametrize(("first", "last"), [(0, 0), (ONE_WORD - 1, ONE_WORD - 1), (ONE_WORD, 1), (1, ONE_WORD)])
def test_at_the_edges_of_a_word(first: int, last: int) -> None:
    fractions = first_fractions(first, 0, np.array([1, last]))
    assert fractions.tolist() == [np.random.default_rng([first, 0, seed]).random() for seed in (1, last)]
