"""The first draws of many seeds are those of numpy's generators."""

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
def test_they_are_those_of_a_generator_each(first: int, second: int, last: list[int]) -> None:
    drawn = first_fractions(first, second, np.array(last, dtype=np.int64))
    assert drawn.tolist() == [np.random.default_rng([first, second, one]).random() for one in last]


@pytest.mark.parametrize(("first", "last"), [(0, 0), (ONE_WORD - 1, ONE_WORD - 1), (ONE_WORD, 1), (1, ONE_WORD)])
def test_at_the_edges_of_a_word(first: int, last: int) -> None:
    drawn = first_fractions(first, 0, np.array([1, last]))
    assert drawn.tolist() == [np.random.default_rng([first, 0, one]).random() for one in (1, last)]
