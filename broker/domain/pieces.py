"""Bits and bytes of many pieces at once: each piece begins with a byte of its own, so that it is read alone."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from broker.domain.arrays import AnyArray, Bools, Ints

CountT = TypeVar("CountT", int, Ints)


def bytes_of(bits: CountT) -> CountT:
    """How many bytes so many bits take."""
    return (bits + 7) // 8


def bit_pieces(bits: AnyArray, sizes: Ints) -> list[bytes]:
    """The bits of pieces of these sizes, shape (N,) in all, as the bytes of each piece."""
    octets = bytes_of(sizes)
    moved = 8 * (np.cumsum(octets) - octets) - (np.cumsum(sizes) - sizes)
    spread = np.zeros(8 * int(octets.sum()), dtype=np.bool_)
    spread[np.arange(len(bits)) + np.repeat(moved, sizes)] = bits
    return byte_pieces(np.packbits(spread, bitorder="little").tobytes(), octets)


def byte_pieces(data: bytes, sizes: Ints) -> list[bytes]:
    """Bytes cut into pieces of these sizes."""
    ends = np.cumsum(sizes)
    return [data[start:end] for start, end in zip((ends - sizes).tolist(), ends.tolist(), strict=True)]


def piece_of_bits(data: bytes, at: int, size: int) -> Bools:
    """``size`` bits from byte ``at`` on.

    Raises:
        ValueError: there are not so many.
    """
    octets = np.frombuffer(data[at : at + bytes_of(size)], dtype=np.uint8)
    if len(octets) < bytes_of(size):
        raise ValueError("they end too early")
    return np.unpackbits(octets, count=size, bitorder="little").astype(np.bool_)
