"""Figures of many pieces most of which are small whole numbers: one byte for each of those, and no bit lost.

A piece is a bit for each figure (1: a whole number below 256 follows in a byte), these bytes, then the others as runs
of equal figures (:mod:`broker.domain.value_runs`).
"""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Floats, Ints
from broker.domain.pieces import bit_pieces, byte_pieces, bytes_of, piece_of_bits
from broker.domain.value_runs import pack_joined_runs, unpack_runs

_END = 256.0


def pack_small(figures: Floats, sizes: Ints) -> list[bytes]:
    """Pieces of these sizes, which lie one after the other, as bytes that :func:`unpack_small` reads."""
    inside = (figures >= 0) & (figures < _END)
    octets = np.where(inside, figures, 0.0).astype(np.uint8)
    small = inside & (octets.astype(np.float64).view(np.int64) == figures.view(np.int64))
    counted = np.concatenate(([0], np.cumsum(small)))
    ends = np.cumsum(sizes)
    counts = counted[ends] - counted[ends - sizes]
    columns = (
        bit_pieces(small, sizes),
        byte_pieces(octets[small].tobytes(), counts),
        pack_joined_runs(figures[~small], sizes - counts),
    )
    return list(map(b"".join, zip(*columns, strict=True)))


def unpack_small(data: bytes, size: int) -> Floats:
    """The ``size`` figures of a piece.

    Raises:
        ValueError: the bytes are not those of so many figures.
    """
    small = piece_of_bits(data, 0, size)
    at = bytes_of(size)
    stop = at + int(small.sum())
    if len(data) < stop:
        raise ValueError("they end too early")
    figures = np.empty(size)
    figures[small] = np.frombuffer(data[at:stop], dtype=np.uint8)
    figures[~small] = unpack_runs(data[stop:], size - (stop - at))
    return figures
