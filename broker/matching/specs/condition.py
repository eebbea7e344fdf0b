"""One condition of many specs: a bit set over all, cached by the part of a node that it depends on; or for one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np
import numpy.typing as npt

from broker.domain.arrays import Bools
from broker.domain.bounded_cache import BoundedCache
from broker.matching.specs.node import Node

Bits = npt.NDArray[np.uint64]
CACHE_BYTES = 4 << 20
"""Size of the cache of answers, for each condition and for whole nodes; a full cache is cleared at once."""


class Condition:
    """One condition of all specs.

    Args:
        field: field of the spec, with the hyphens of v0.1.
        part: what the condition depends on in a node, rounded to what it can tell apart.
        holds: (S,) whether the condition holds for each spec.
        applies: whether each spec asks for anything; None: all may.
        at: whether it holds for the spec at a place, which asks for something; None: the bits of all specs decide.
    """

    def __init__(
        self,
        field: str,
        part: Callable[[Node], Hashable],
        holds: Callable[[Node], Bools],
        applies: Sequence[bool] | None = None,
        at: Callable[[Node, int], bool] | None = None,
    ) -> None:
        self.field, self.part, self._holds = field, part, holds
        self._applies, self.at = applies, at or self._bit
        self._cache = BoundedCache[Bits](CACHE_BYTES)

    def asks(self, place: int) -> bool:
        """Whether the spec at a place asks for anything here."""
        return self._applies is None or self._applies[place]

    def _bit(self, node: Node, place: int) -> bool:
        return bool(int(self.bits(node)[place >> 6]) >> (place & 63) & 1)

    def bits(self, node: Node) -> Bits:
        """A bit for each spec that the condition lets pass."""
        part = self.part(node)
        bits = self._cache.get(part)
        if bits is None:
            bits = packed(self._holds(node))
            self._cache.keep(part, bits, bits.nbytes + 200)
        return bits


def packed(flags: Bools) -> Bits:
    """Flags as bits, 64 in a word."""
    octets = np.packbits(flags, bitorder="little")
    words = np.zeros(-(-len(octets) // 8), dtype=np.uint64)
    words.view(np.uint8)[: len(octets)] = octets
    return words


def unpacked(bits: Bits, count: int) -> Bools:
    """The first ``count`` bits as flags."""
    return np.unpackbits(bits.view(np.uint8), count=count, bitorder="little").view(np.bool_)
