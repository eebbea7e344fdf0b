"""The chosen candidates of a decision as arrays: places, weights and factors; objects are made when they are asked for.

Factors are stored by factor, not by candidate: neighbours are alike, so they are runs of few values, and no bit is
lost. A weight that is the product of its factors to the bit is not stored.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np

from broker.domain.arrays import Bools, Floats, Ints
from broker.domain.decisions import Candidate
from broker.domain.legend import Legend
from broker.domain.value_runs import pack_runs, unpack_runs

#: Version 3 has runs of figures and a checksum; before, all was compressed, and in version 1 figures lay byte by byte.
_VERSION, _COMPRESSED, _BY_BYTES = 3, 2, 1
_NAMED, _PRODUCT, _BOOTSTRAP = 1, 2, 4
_HEAD = 6
#: Version, flags, number of candidates, of factors, checksum of all after it.
_PACKED_HEAD = struct.Struct("<BBHHI")
_NONE = np.zeros((0, 0))
_MAX_BYTES = 64 * 1024 * 1024


class CandidatesCorruptError(Exception):
    """Packed candidates that cannot be read."""


@dataclass(frozen=True, eq=False, repr=False)
class ChosenCandidates(Sequence[Candidate]):
    """Candidates, the best first.

    Attributes:
        legend: names of candidates and factors.
        place: (C,) position of each in the names.
        weight: (C,).
        factors: (F, C), in the order of the legend's factors; F 0 where nothing was weighed.
        bootstrap: (C,).
    """

    legend: Legend
    place: Ints
    weight: Floats
    factors: Floats
    bootstrap: Bools

    @cached_property
    def objects(self) -> tuple[Candidate, ...]:
        """The candidates one by one."""
        names = self.legend.factors if len(self.factors) else ()
        columns = zip(self.place.tolist(), self.weight.tolist(), self.factors.T.tolist(), strict=True)
        return tuple(
            Candidate(self.legend.names[at], weight, dict(zip(names, factors, strict=True)), bootstrap)
            for (at, weight, factors), bootstrap in zip(columns, self.bootstrap.tolist(), strict=True)
        )

    @overload
    def __getitem__(self, index: int) -> Candidate: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Candidate, ...]: ...
    def __getitem__(self, index: int | slice) -> Candidate | tuple[Candidate, ...]:
        return self.objects[index]

    def __len__(self) -> int:
        return len(self.place)

    def __eq__(self, other: object) -> bool:
        return self.objects == tuple(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as unhashable as what it stands for

    def __repr__(self) -> str:
        return repr(self.objects)


def no_candidates(legend: Legend) -> ChosenCandidates:
    """The packed form of a decision without any candidate."""
    none = np.zeros(0, dtype=np.int64)
    return ChosenCandidates(legend, none, none.astype(np.float64), np.zeros((0, 0)), none.astype(np.bool_))


def pack_candidates(chosen: Sequence[ChosenCandidates]) -> list[bytes | None]:
    """The candidates of each decision as bytes; None for none.

    They are a version, flags, the numbers of candidates and factors, a checksum of what follows, the places, which are
    bootstrap where any is, and the figures. All decisions of a batch are packed at once.
    """
    some = [one for one in chosen if len(one.place)]
    if not some:
        return [None] * len(chosen)
    follows = _follows(some).tolist()
    figures = pack_runs(
        [one.factors.ravel() if short else _figures(one) for one, short in zip(some, follows, strict=True)]
    )
    places = np.concatenate([one.place for one in some]).astype("<u2").tobytes()
    bootstrap = np.concatenate([one.bootstrap for one in some])
    any_bootstrap, at = bool(bootstrap.any()), 0
    packed: list[bytes | None] = [None] * len(chosen)
    rows = (row for row, one in enumerate(chosen) if len(one.place))
    for row, one, short, stats in zip(rows, some, follows, figures, strict=True):
        size, flags = len(one.place), _PRODUCT if short else 0
        body = places[2 * at : 2 * (at + size)] + stats
        if any_bootstrap and one.bootstrap.any():
            flags |= _BOOTSTRAP
            body = places[2 * at : 2 * (at + size)] + np.packbits(one.bootstrap).tobytes() + stats
        packed[row] = _PACKED_HEAD.pack(_VERSION, flags, size, len(one.factors), zlib.crc32(body)) + body
        at += size
    return packed


def _figures(chosen: ChosenCandidates) -> Floats:
    return np.concatenate((chosen.weight, chosen.factors.ravel()))


def _follows(chosen: Sequence[ChosenCandidates]) -> Bools:
    """(D,) whether all weights of a decision follow from its factors to the bit."""
    follows = np.zeros(len(chosen), dtype=np.bool_)
    for count in {len(one.factors) for one in chosen}:
        rows = [row for row, one in enumerate(chosen) if len(one.factors) == count]
        factors = np.concatenate([chosen[row].factors.reshape(count, -1) for row in rows], axis=1) if count else _NONE
        bootstrap = np.concatenate([chosen[row].bootstrap for row in rows])
        weight = np.concatenate([chosen[row].weight for row in rows]).astype(np.float64, copy=False)
        sizes = np.array([len(chosen[row].place) for row in rows])
        product = _product(factors, bootstrap)
        # what is no number may come out with other bits
        same = (product.view(np.int64) == weight.view(np.int64)) & (product == product)
        follows[rows] = np.logical_and.reduceat(same, np.cumsum(sizes) - sizes)
    return follows


def _product(factors: Floats, bootstrap: Bools) -> Floats:
    """(C,) the weights that follow from the factors, multiplied in their order, as the ranking does."""
    if not len(factors):
        return np.where(bootstrap, 0.0, 1.0)
    weight = factors[0]
    with np.errstate(all="ignore"):
        for column in factors[1:]:
            weight = weight * column
    return np.where(bootstrap, 0.0, weight)


def pack_named_candidates(candidates: Sequence[Candidate]) -> bytes | None:
    """Candidates that are known by name alone, with no legend; None for none."""
    if not candidates:
        return None
    reported = [[one.name, one.weight, one.factors, one.bootstrap] for one in candidates]
    size = min(len(candidates), 0xFFFF)
    head = bytes((_COMPRESSED, _NAMED)) + size.to_bytes(2, "little") + bytes(2)
    return head + zlib.compress(json.dumps(reported, separators=(",", ":")).encode(), 6)


def unpack_candidates(legend: Legend | None, data: bytes | None) -> Sequence[Candidate]:
    """The inverse of :func:`pack_candidates`, and of :func:`pack_named_candidates`, which needs no legend.

    Raises:
        CandidatesCorruptError: damaged, of a newer version, or of another legend.
    """
    if data is None:
        return ()
    if len(data) < _HEAD or not _BY_BYTES <= data[0] <= _VERSION:
        raise CandidatesCorruptError(f"candidates of version {data[0] if data else None}; this broker knows {_VERSION}")
    try:
        if data[0] == _VERSION:
            return _read(_legend(legend, data), data)
        body = _opened(data)
        if data[1] & _NAMED:
            return tuple(Candidate(*one) for one in json.loads(body))
        return _read_compressed(_legend(legend, data), data, body)
    except (zlib.error, ValueError, TypeError) as error:
        raise CandidatesCorruptError(f"damaged candidates: {error}") from error


def _legend(legend: Legend | None, data: bytes) -> Legend:
    if legend is None:
        raise ValueError("they have no legend")
    factors = int.from_bytes(data[4:6], "little")
    if factors and factors != len(legend.factors):
        raise ValueError(f"{factors} factors of {len(legend.factors)}")
    return legend


def _read(legend: Legend, data: bytes) -> ChosenCandidates:
    if len(data) < _PACKED_HEAD.size:
        raise ValueError("they end too early")
    _, flags, size, factors, checksum = _PACKED_HEAD.unpack_from(data)
    body = data[_PACKED_HEAD.size :]
    if zlib.crc32(body) != checksum:
        raise ValueError("their checksum is another one")
    at, bootstrap = 2 * size, np.zeros(size, dtype=np.bool_)
    place = np.frombuffer(body[:at], dtype="<u2").astype(np.int64)
    if flags & _BOOTSTRAP:
        at, octets = at + (size + 7) // 8, np.frombuffer(body[at : at + (size + 7) // 8], dtype=np.uint8)
        bootstrap = np.unpackbits(octets, count=size).astype(np.bool_)
    columns = factors + (not flags & _PRODUCT)
    figures = unpack_runs(body[at:], columns * size).reshape(columns, size)
    return _chosen(legend, place, figures, factors, bootstrap)


def _opened(data: bytes) -> bytes:
    opener = zlib.decompressobj()
    body = opener.decompress(data[_HEAD:], _MAX_BYTES)
    if not opener.eof:
        raise ValueError("they end too early")
    return body


def _read_compressed(legend: Legend, data: bytes, body: bytes) -> ChosenCandidates:
    """The form of the versions before."""
    size, factors = int.from_bytes(data[2:4], "little"), int.from_bytes(data[4:6], "little")
    place = np.frombuffer(body[: 2 * size], dtype="<u2").astype(np.int64)
    bootstrap = np.frombuffer(body[2 * size : 3 * size], dtype="u1").astype(np.bool_)
    columns = _columns(data[0], body[3 * size :]).reshape(-1, size)
    if len(columns) != factors + (not data[1] & _PRODUCT):
        raise ValueError(f"{len(columns)} columns for {factors} factors")
    return _chosen(legend, place, columns, factors, bootstrap)


def _chosen(legend: Legend, place: Ints, columns: Floats, factors: int, bootstrap: Bools) -> ChosenCandidates:
    """Of these columns: the factors, and before them the weight where it does not follow from them."""
    if place.size and place.max() >= len(legend.names):
        raise ValueError(f"candidate {place.max()} of {len(legend.names)}")
    factor_columns = columns[len(columns) - factors :]
    weight = columns[0] if len(columns) > factors else _product(factor_columns, bootstrap)
    return ChosenCandidates(legend, place, weight, factor_columns, bootstrap)


def _columns(version: int, data: bytes) -> Floats:
    """The figures one after the other; the first version had all their first bytes first, and so on."""
    if version == _BY_BYTES:
        data = np.ascontiguousarray(np.frombuffer(data, dtype="u1").reshape(8, -1).T).tobytes()
    return np.frombuffer(data, dtype="<f8").astype(np.float64)
