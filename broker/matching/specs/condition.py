"""One condition of many specs: of all a bit set, kept under the part of a node that it looks at; or of one alone."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np
import numpy.typing as npt

from broker.domain.arrays import Bools
from broker.domain.bounded_cache import BoundedCache
from broker.matching.specs.node import Node

Bits = npt.NDArray[np.uint64]
KEPT_BYTES = 4 << 20
"""Answers that are kept, for each condition and for whole nodes; then they are forgotten at once."""


class Condition:
    """One condition of all specs.

    Args:
        field: of the spec, with the hyphens of v0.1.
        part: what the condition looks at in a node, rounded to what it can tell apart.
        holds: (S,) for each spec whether it holds.
        asked: for each spec whether it asks for anything; None: they may all.
        at: whether it holds for the spec at a place, which asks for something; None: a look at all specs says so.
    """

    def __init__(
        self,
        field: str,
        part: Callable[[Node], Hashable],
        holds: Callable[[Node], Bools],
        asked: Sequence[bool] | None = None,
        at: Callable[[Node, int], bool] | None = None,
    ) -> None:
        self.field, self.part, self._holds = field, part, holds
        self._asked, self.at = asked, at or self._bit
        self._kept = BoundedCache[Bits](KEPT_BYTES)

    def asks(self, place: int) -> bool:
        """Whether the spec at a place asks for anything here."""
        return self._asked is None or self._asked[place]

    def _bit(self, node: Node, place: int) -> bool:
        return bool(int(self.bits(node)[place >> 6]) >> (place & 63) & 1)

    def bits(self, node: Node) -> Bits:
        """A bit for each spec that the condition lets pass."""
        part = self.part(node)
        found = self._kept.get(part)
        if found is None:
            found = packed(self._holds(node))
            self._kept.keep(part, found, found.nbytes + 200)
        return found


def packed(flags: Bools) -> Bits:
    """Flags as bits, 64 in a word."""
    octets = np.packbits(flags, bitorder="little")
    found = np.zeros(-(-len(octets) // 8), dtype=np.uint64)
    found.view(np.uint8)[: len(octets)] = octets
    return found


def unpacked(bits: Bits, count: int) -> Bools:
    """The first ``count`` bits as flags."""
    return np.unpackbits(bits.view(np.uint8), count=count, bitorder="little").view(np.bool_)
