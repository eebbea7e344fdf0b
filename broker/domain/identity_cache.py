"""Cache of values computed from input objects, by identity: snapshots share the parts that have not changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Kept(Generic[T]):
    """The answers for the last few sets of inputs, compared by identity. It only changes how soon they are there.

    Args:
        size: how many answers are kept.
    """

    def __init__(self, size: int = 4) -> None:
        self._size = size
        # replaced as a whole, so that threads see one or the other
        self._known: tuple[tuple[tuple[object, ...], T], ...] = ()

    def of(self, inputs: tuple[object, ...], make: Callable[[], T]) -> T:
        """The answer for these very inputs, which must never change in place; ``make`` works it out."""
        for known, answer in self._known:
            if len(known) == len(inputs) and all(a is b for a, b in zip(known, inputs, strict=True)):
                return answer
        answer = make()
        self._known = (*self._known[1 - self._size :], (inputs, answer)) if self._size > 1 else ((inputs, answer),)
        return answer
