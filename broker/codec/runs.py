"""Columns of small numbers and figures, many pieces at once, as runs of equal values and as bytes.

A piece is the part of one decision. :func:`pack_codes` packs rows of codes (D, Q), :func:`pack_runs` figures to the
bit, :func:`pack_small` figures of which most are whole numbers below 256.

Three chunks chose 3, 1 and 3 of four queues. Their weights, one piece after the other:

    weight   2.5 2.5 2.5 | 1.5 | 0.1 0.1 4.0
    new      1   0   0   | 1   | 1   0   1      a run begins; bits from the right: 01, 01, 05
    narrow   1           | 1   | 0       1      its value is exact in 4 bytes; one bit a run: 01, 01, 02
    values   2.5         | 1.5 | 0.1     4.0    first those of 8 bytes, then those of 4

>>> weights = np.array([2.5, 2.5, 2.5, 1.5, 0.1, 0.1, 4.0])
>>> pieces = pack_joined_runs(weights, np.array([3, 1, 3]))
>>> [piece.hex(" ") for piece in pieces]
['01 01 00 00 20 40', '01 01 00 00 c0 3f', '05 02 9a 99 99 99 99 99 b9 3f 00 00 80 40']
>>> unpack_runs(pieces[2], 3).tolist()
[0.1, 0.1, 4.0]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from broker.domain.arrays import AnyArray, Bools, Floats, Ints

CountT = TypeVar("CountT", int, Ints)


def bytes_of(bits: CountT) -> CountT:
    """The number of bytes that ``bits`` bits take."""
    return (bits + 7) // 8


def bit_pieces(bits: AnyArray, sizes: Ints) -> list[bytes]:
    """Pack bits (N,), which are pieces of these sizes, into the bytes of each piece."""
    octets = bytes_of(sizes)
    moved = 8 * (np.cumsum(octets) - octets) - (np.cumsum(sizes) - sizes)
    spread = np.zeros(8 * int(octets.sum()), dtype=np.bool_)
    spread[np.arange(len(bits)) + np.repeat(moved, sizes)] = bits
    return byte_pieces(np.packbits(spread, bitorder="little").tobytes(), octets)


def byte_pieces(data: bytes, sizes: Ints) -> list[bytes]:
    """Cut bytes into pieces of these sizes."""
    ends = np.cumsum(sizes)
    return [data[start:end] for start, end in zip((ends - sizes).tolist(), ends.tolist(), strict=True)]


def piece_of_bits(data: bytes, at: int, size: int) -> Bools:
    """``size`` bits from byte ``at`` on.

    Raises:
        ValueError: there are fewer.
    """
    octets = np.frombuffer(data[at : at + bytes_of(size)], dtype=np.uint8)
    if len(octets) < bytes_of(size):
        raise ValueError("they end too early")
    return np.unpackbits(octets, count=size, bitorder="little").astype(np.bool_)


#: The type of the count of numbers of a row.
_COUNT = np.dtype("<u2")
#: Bits of a place among the numbers of a row.
_MOST_BITS, _OCTET = 16, 8
_BITS = np.arange(_MOST_BITS)


def pack_codes(rows: AnyArray) -> list[bytes]:
    """Pack rows (D, Q) of one or two unsigned bytes, each into bytes that :func:`unpack_codes` reads.

    Three decisions about four queues. The first byte says which groups of eight queues have a run, the second where
    runs begin (bits from the right), the third which runs repeat the code before last, the next two count the codes:

    >>> rows = np.array([[1, 1, 1, 1], [2, 2, 0, 2], [0, 1, 2, 3]], dtype=np.uint8)
    >>> pieces = pack_codes(rows)
    >>> [piece.hex(" ") for piece in pieces]
    ['01 01 00 01 00 01', '01 0d 04 02 00 00 02 01', '01 0f 00 04 00 00 01 02 03 e4']
    >>> unpack_codes(pieces[1], 4, np.dtype(np.uint8))[0].tolist()
    [2, 2, 0, 2]

    Row 1 has runs at queues 0, 2 and 3 (``0d``), of which the last repeats (``04``), and the two codes 0 and 2.
    """
    if not rows.size:
        return [b""] * len(rows)
    new = np.ones(rows.shape, dtype=np.bool_)
    np.not_equal(rows[:, 1:], rows[:, :-1], out=new[:, 1:])
    octets = np.packbits(new, axis=1, bitorder="little")
    some = octets != 0
    heads = np.packbits(some, axis=1, bitorder="little")
    begins = np.flatnonzero(new)
    codes = rows.reshape(-1).take(begins)
    first = begins.searchsorted(np.arange(len(rows)) * rows.shape[1])
    again = _again(codes, first)
    numbers, counts, places, others = _numbered(codes, first, np.flatnonzero(~again))
    columns = (
        byte_pieces(heads.tobytes(), np.full(len(rows), heads.shape[1])),
        byte_pieces(octets[some].tobytes(), np.count_nonzero(some, axis=1)),
        bit_pieces(again, _sizes(first, len(codes))),
        byte_pieces(counts.astype(_COUNT).tobytes(), np.full(len(rows), _COUNT.itemsize)),
        byte_pieces(numbers.astype(rows.dtype.newbyteorder("<")).tobytes(), counts * rows.itemsize),
        _places(places, others, _width(counts)),
    )
    return list(map(b"".join, zip(*columns, strict=True)))


def _again(codes: AnyArray, first: Ints) -> Bools:
    """(R,) whether a run has the same number as the run two before it in its row; ``first`` run of each row."""
    again = np.zeros(len(codes), dtype=np.bool_)
    np.equal(codes[2:], codes[:-2], out=again[2:])
    again[first] = False
    second = first + 1
    again[second[second < len(codes)]] = False
    return again


def _sizes(first: Ints, size: int) -> Ints:
    """(D,) sizes of the rows that begin at ``first``, of ``size`` in all."""
    return np.diff(first, append=size)


def _numbered(codes: AnyArray, first: Ints, other: Ints) -> tuple[AnyArray, Ints, AnyArray, Ints]:
    """Numbers of the ``other`` runs, their count per row, the place of each run among them, and runs per row."""
    size = int(codes.max()) + 1
    others = _sizes(other.searchsorted(first), len(other))
    of_row = np.arange(len(first)) * size
    cells = np.repeat(of_row, others) + codes[other]
    used = np.zeros((len(first), size), dtype=np.bool_)
    used.reshape(-1)[cells] = True
    place = np.cumsum(used, axis=1, dtype=np.uint16) - np.uint16(1)
    counts = np.count_nonzero(used, axis=1)
    numbers = np.flatnonzero(used) - np.repeat(of_row, counts)
    return numbers, counts, place.reshape(-1).take(cells), others


def _width(counts: AnyArray) -> Ints:
    """The bits that a place among ``counts`` numbers takes: 0 for one, 1 for two, 2 for three."""
    return np.frexp(counts - 1.0)[1].astype(np.int64)


def _places(places: AnyArray, runs: Ints, width: Ints) -> list[bytes]:
    """Pack the places of runs, with the number of bits of each row."""
    longest = int(runs.max())
    table = np.zeros((len(runs), longest), dtype=np.uint16)
    start = np.arange(len(runs)) * longest - (np.cumsum(runs) - runs)
    table.reshape(-1)[np.arange(len(places)) + np.repeat(start, runs)] = places
    packed_places = [b""] * len(runs)
    for bits in np.flatnonzero(np.bincount(width)).tolist():
        rows = np.flatnonzero(width == bits)
        octets = table[rows].astype("<u2" if bits > _OCTET else "u1").view(np.uint8)
        spread = np.unpackbits(octets.ravel(), bitorder="little").reshape(len(rows), longest, -1)
        packed = np.packbits(spread[:, :, :bits].reshape(len(rows), -1), axis=1, bitorder="little")
        sizes = bytes_of(runs[rows] * bits).tolist()
        data, stride = packed.tobytes(), packed.shape[1]
        for at, (row, size) in enumerate(zip(rows.tolist(), sizes, strict=True)):
            packed_places[row] = data[at * stride : at * stride + size]
    return packed_places


def unpack_codes(data: bytes, size: int, kind: np.dtype[Any]) -> tuple[AnyArray, int]:
    """A row of ``size`` numbers of this type, and its end in the data.

    Raises:
        ValueError: the bytes are not those of so many numbers.
    """
    if not size:
        return np.empty(0, dtype=kind), 0
    eights = bytes_of(size)
    some = piece_of_bits(data, 0, eights)
    at, stop = bytes_of(eights), bytes_of(eights) + int(some.sum())
    octets = np.zeros(eights, dtype=np.uint8)
    octets[some] = _read(data, at, stop, np.dtype(np.uint8))
    new = np.unpackbits(octets, count=size, bitorder="little").astype(np.bool_)
    if not new[0]:
        raise ValueError("numbers that begin with none")
    runs = int(new.sum())
    again, at = piece_of_bits(data, stop, runs), stop + bytes_of(runs)
    count = int(_read(data, at, at + _COUNT.itemsize, _COUNT)[0])
    at, stop = at + _COUNT.itemsize, at + _COUNT.itemsize + count * kind.itemsize
    numbers = _read(data, at, stop, kind.newbyteorder("<"))
    others, width = runs - int(again.sum()), int(_width(np.array([count]))[0]) if count else 0
    bits = piece_of_bits(data, stop, others * width).reshape(others, width)
    places = (bits.astype(np.int64) << _BITS[:width]).sum(axis=1)
    if not count or again[:2].any() or places.max(initial=0) >= count:
        raise ValueError(f"{count} numbers for {others} runs")
    codes = np.empty(runs, dtype=kind)
    codes[~again] = numbers[places]
    for run in np.flatnonzero(again).tolist():
        codes[run] = codes[run - 2]
    return codes[np.cumsum(new) - 1], stop + bytes_of(others * width)


def _read(data: bytes, start: int, stop: int, kind: np.dtype[Any]) -> AnyArray:
    if len(data) < stop:
        raise ValueError("they end too early")
    return np.frombuffer(data[start:stop], dtype=kind)


def pack_runs(pieces: Sequence[Floats]) -> list[bytes]:
    """Pack each piece (N,), with its own N, into bytes that :func:`unpack_runs` reads."""
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
    """(P,) the number of set bits of each piece."""
    before = np.concatenate(([0], np.cumsum(bits)))
    sums: Ints = before[first + sizes] - before[first]
    return sums


_END = 256.0


def pack_small(figures: Floats, sizes: Ints) -> list[bytes]:
    """Pack pieces of these sizes, stored one after the other, into bytes that :func:`unpack_small` reads."""
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
