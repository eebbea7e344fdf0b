"""A cache is emptied before it exceeds its limit in bytes."""

from __future__ import annotations

import pytest

from broker.domain.bounded_cache import BoundedCache


@pytest.mark.parametrize(("limit", "count"), [(100, 1), (101, 2), (199, 2), (200, 2), (201, 3)])
def test_all_entries_are_dropped_when_the_next_one_exceeds_the_limit(limit: int, count: int) -> None:
    cache = BoundedCache[str](limit)
    assert [cache.keep(number, f"{number}", 100) for number in range(count)] == [f"{key}" for key in range(count)]
    assert list(cache) == list(range(count))
    assert cache.keep("next", "found", 100) == "found"
    assert list(cache) == ["next"]


def test_a_value_larger_than_the_limit_is_the_only_entry() -> None:
    cache = BoundedCache[str](10)
    cache.keep("a", "large", 1000)
    assert cache.get("a") == "large" and cache.get("b") is None
