"""A cache that is emptied at once where it would grow beyond a number of bytes."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

ValueT = TypeVar("ValueT")


class BoundedCache(dict[Hashable, ValueT]):
    """What was found, by what it was found for; all values are taken to be of one size.

    Args:
        most_bytes: of all values together.
    """

    def __init__(self, most_bytes: int) -> None:
        super().__init__()
        self._most_bytes = most_bytes

    def keep(self, key: Hashable, found: ValueT, each_bytes: int) -> ValueT:
        """Keep a value of about ``each_bytes``, and return it; the others are forgotten where there are too many."""
        if len(self) * each_bytes >= self._most_bytes:
            self.clear()
        self[key] = found
        return found
