"""The chosen candidates of a decision as arrays: places, weights and factors; objects are made when they are asked for.

Factors are stored by factor, not by candidate: neighbours are alike, so they pack well, and no bit is lost. A weight
that is the product of its factors to the bit is not stored.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np

from broker.domain.arrays import Bools, Floats, Ints
from broker.domain.decisions import Candidate
from broker.domain.legend import Legend

_VERSION, _FIRST_VERSION = 2, 1
_NAMED, _PRODUCT = 1, 2
_HEAD = 6
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


def pack_candidates(chosen: ChosenCandidates) -> bytes | None:
    """As bytes: a version, flags, the numbers of candidates and factors, then the compressed arrays; None for none."""
    size, factors = len(chosen.place), len(chosen.factors)
    if not size:
        return None
    product = _product(chosen.factors, chosen.bootstrap)
    follows = product.tobytes() == np.asarray(chosen.weight, dtype=np.float64).tobytes()
    columns = chosen.factors if follows else np.vstack((chosen.weight[None, :], chosen.factors.reshape(factors, size)))
    stats = np.ascontiguousarray(columns, dtype="<f8").tobytes()
    body = chosen.place.astype("<u2").tobytes() + chosen.bootstrap.astype("u1").tobytes() + stats
    head = bytes((_VERSION, _PRODUCT if follows else 0)) + size.to_bytes(2, "little") + factors.to_bytes(2, "little")
    return head + zlib.compress(body, 9)


def _product(factors: Floats, bootstrap: Bools) -> Floats:
    """(C,) the weights that follow from the factors, multiplied in their order, as the ranking does."""
    if not len(factors):
        return np.where(bootstrap, 0.0, 1.0)
    with np.errstate(all="ignore"):
        weight = np.multiply.reduce(factors, axis=0)
    return np.where(bootstrap, 0.0, weight)


def pack_named_candidates(candidates: Sequence[Candidate]) -> bytes | None:
    """Candidates that are known by name alone, with no legend; None for none."""
    if not candidates:
        return None
    reported = [[one.name, one.weight, one.factors, one.bootstrap] for one in candidates]
    size = min(len(candidates), 0xFFFF)
    head = bytes((_VERSION, _NAMED)) + size.to_bytes(2, "little") + bytes(2)
    return head + zlib.compress(json.dumps(reported, separators=(",", ":")).encode(), 6)


def unpack_candidates(legend: Legend | None, data: bytes | None) -> Sequence[Candidate]:
    """The inverse of :func:`pack_candidates`, and of :func:`pack_named_candidates`, which needs no legend.

    Raises:
        CandidatesCorruptError: damaged, of a newer version, or of another legend.
    """
    if data is None:
        return ()
    if len(data) < _HEAD or not _FIRST_VERSION <= data[0] <= _VERSION:
        raise CandidatesCorruptError(f"candidates of version {data[0] if data else None}; this broker knows {_VERSION}")
    size, factors = int.from_bytes(data[2:4], "little"), int.from_bytes(data[4:6], "little")
    try:
        opener = zlib.decompressobj()
        body = opener.decompress(data[_HEAD:], _MAX_BYTES)
        if not opener.eof:
            raise ValueError("they end too early")
        if data[1] & _NAMED:
            return tuple(Candidate(*one) for one in json.loads(body))
        if legend is None:
            raise ValueError("they have no legend")
        if factors and factors != len(legend.factors):
            raise ValueError(f"{factors} factors of {len(legend.factors)}")
        place = np.frombuffer(body[: 2 * size], dtype="<u2").astype(np.int64)
        bootstrap = np.frombuffer(body[2 * size : 3 * size], dtype="u1").astype(np.bool_)
        columns = _columns(data[0], body[3 * size :]).reshape(-1, size)
        weight, factor_columns = columns[0] if len(columns) > factors else None, columns[len(columns) - factors :]
        if len(columns) != factors + (not data[1] & _PRODUCT):
            raise ValueError(f"{len(columns)} columns for {factors} factors")
        if place.size and place.max() >= len(legend.names):
            raise ValueError(f"candidate {place.max()} of {len(legend.names)}")
    except (zlib.error, ValueError, TypeError) as error:
        raise CandidatesCorruptError(f"damaged candidates: {error}") from error
    if weight is None:
        weight = _product(factor_columns, bootstrap)
    return ChosenCandidates(legend, place, weight, factor_columns, bootstrap)


def _columns(version: int, data: bytes) -> Floats:
    """The figures one after the other; the first version had all their first bytes first, and so on."""
    if version == _FIRST_VERSION:
        data = np.ascontiguousarray(np.frombuffer(data, dtype="u1").reshape(8, -1).T).tobytes()
    return np.frombuffer(data, dtype="<f8").astype(np.float64)
