"""Figures as runs of equal values, for many pieces at once: bytes for each piece, and no bit lost.

A piece is a bit for each figure (1: another value than before), a bit for each such value (1: four bytes hold it), then
the values of eight bytes, then those of four. Figures of neighbours are mostly the same, and what is left of them would
hardly be compressed, at ten times the cost.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from broker.domain.arrays import Bools, Floats, Ints
from broker.domain.pieces import bit_pieces, byte_pieces, bytes_of, piece_of_bits


def pack_runs(pieces: Sequence[Floats]) -> list[bytes]:
    """Each piece, shape (N,), N of its own, as bytes that :func:`unpack_runs` reads."""
    if not pieces:
        return []
    sizes = np.array([len(piece) for piece in pieces], dtype=np.int64)
    return pack_joined_runs(np.concatenate(pieces).astype(np.float64, copy=False), sizes)


def pack_joined_runs(figures: Floats, sizes: Ints) -> list[bytes]:
    """Pack pieces of these sizes that are stored one after the other."""
    bits = figures.view(np.int64)
    first = np.cumsum(sizes) - sizes
    new = np.ones(len(figures), dtype=np.bool_)
    np.not_equal(bits[1:], bits[:-1], out=new[1:])
    new[first[sizes > 0]] = True
    values = figures[new]
    with np.errstate(all="ignore"):
        short = values.astype("<f4")
    narrow = short.astype(np.float64).view(np.int64) == values.view(np.int64)
    runs = _sums(new, first, sizes)
    first_run = np.cumsum(runs) - runs
    narrow_runs = _sums(narrow, first_run, runs)
    columns = (
        bit_pieces(new, sizes),
        bit_pieces(narrow, runs),
        byte_pieces(values[~narrow].astype("<f8").tobytes(), 8 * (runs - narrow_runs)),
        byte_pieces(short[narrow].tobytes(), 4 * narrow_runs),
    )
    return list(map(b"".join, zip(*columns, strict=True)))


def unpack_runs(data: bytes, size: int) -> Floats:
    """The ``size`` figures of a piece.

    Raises:
        ValueError: the bytes are not those of so many figures.
    """
    new = piece_of_bits(data, 0, size)
    if size and not new[0]:
        raise ValueError("figures that begin with none")
    runs = int(new.sum())
    at = bytes_of(size)
    narrow = piece_of_bits(data, at, runs)
    at += bytes_of(runs)
    short = int(narrow.sum())
    wide_end = at + 8 * (runs - short)
    if len(data) != wide_end + 4 * short:
        raise ValueError(f"{len(data)} bytes for {size} figures")
    values = np.empty(runs, dtype=np.float64)
    values[~narrow] = np.frombuffer(data[at:wide_end], dtype="<f8")
    values[narrow] = np.frombuffer(data[wide_end:], dtype="<f4")
    figures: Floats = values[np.cumsum(new) - 1]
    return figures


def _sums(bits: Bools, first: Ints, sizes: Ints) -> Ints:
    """(P,) how many bits of each piece are set."""
    before = np.concatenate(([0], np.cumsum(bits)))
    sums: Ints = before[first + sizes] - before[first]
    return sums
