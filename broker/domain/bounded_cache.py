"""A cache that is cleared as a whole before it would exceed a number of bytes."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

ValueT = TypeVar("ValueT")


class BoundedCache(dict[Hashable, ValueT]):
    """Cached values by key; all values are assumed to have the same size.

    Args:
        most_bytes: limit for all values together.
    """

    def __init__(self, most_bytes: int) -> None:
        super().__init__()
        self._most_bytes = most_bytes

    def keep(self, key: Hashable, value: ValueT, each_bytes: int) -> ValueT:
        """Store a value of about ``each_bytes`` and return it; if there are too many, the others are dropped."""
        if len(self) * each_bytes >= self._most_bytes:
            self.clear()
        self[key] = value
        return value
