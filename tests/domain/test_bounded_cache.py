"""A cache that is emptied before it grows beyond its bytes."""

from __future__ import annotations

import pytest

from broker.domain.bounded_cache import BoundedCache


@pytest.mark.parametrize(("most", "kept"), [(100, 1), (101, 2), (199, 2), (200, 2), (201, 3)])
def test_the_others_are_forgotten_where_there_would_be_too_many(most: int, kept: int) -> None:
    cache = BoundedCache[str](most)
    assert [cache.keep(number, f"{number}", 100) for number in range(kept)] == [f"{n}" for n in range(kept)]
    assert list(cache) == list(range(kept))
    assert cache.keep("next", "found", 100) == "found"
    assert list(cache) == ["next"]


def test_a_value_larger_than_the_limit_is_kept_alone() -> None:
    cache = BoundedCache[str](10)
    cache.keep("a", "large", 1000)
    assert cache.get("a") == "large" and cache.get("b") is None
