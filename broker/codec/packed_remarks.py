"""Remarks of a decision that are figures at candidates; their texts are built when a remark is read."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np

from broker.codec.compression import inflate
from broker.codec.runs import pack_small, unpack_small
from broker.domain.arrays import Floats, Ints
from broker.domain.chosen_candidates import Legend

#: Version 2 has figures of one byte and runs of others, and a checksum; version 1 is compressed.
_VERSION, _COMPRESSED = 2, 1
_HEAD = 5
#: Version, number of candidates, number of figures, checksum of all that follows.
_PACKED_HEAD = struct.Struct("<BHHI")


class RemarksCorruptError(Exception):
    """Packed remarks that cannot be read."""


@dataclass(frozen=True, eq=False)
class Remarks:
    """Figures at some candidates.

    Attributes:
        legend: names of candidates and figures.
        place: (K,) the candidates.
        stats: (F, K), in the order of the legend's figures.
    """

    legend: Legend
    place: Ints
    stats: Floats

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """A note for each candidate: ``stabilizer:QUEUE nQ=10 nR=5``."""
        names, keys = self.legend.names, self.legend.stats
        return tuple(
            f"{self.legend.remark}:{names[at]} "
            + " ".join(f"{key}={value:g}" for key, value in zip(keys, values, strict=True))
            for at, values in zip(self.place.tolist(), self.stats.T.tolist(), strict=True)
        )


@dataclass(frozen=True, eq=False, repr=False)
class Notes(Sequence[str]):
    """The notes of a decision: codes, then notes built from figures.

    Attributes:
        codes: notes that are stored as texts.
        remarks: figures from which the other notes are built.
    """

    codes: tuple[str, ...]
    remarks: Remarks

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """Codes and remarks, as the decision stores them."""
        return (*self.codes, *self.remarks.notes)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        return self.texts[index]

    def __len__(self) -> int:
        return len(self.codes) + len(self.remarks.place)

    def __eq__(self, other: object) -> bool:
        return self.texts == tuple(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as unhashable as what it stands for

    def __repr__(self) -> str:
        return repr(self.texts)


def pack_remarks(remarks: Sequence[Remarks]) -> list[bytes | None]:
    """The remarks of each decision as bytes; None for none. All decisions of a batch are packed at once.

    The layout is a version, the numbers of candidates and figures, a checksum of the rest, the candidates, and the
    figures.
    """
    packed: list[bytes | None] = [None] * len(remarks)
    rows = [row for row, own_remarks in enumerate(remarks) if own_remarks.stats.size]
    if not rows:
        return packed
    some = [remarks[row] for row in rows]
    places = np.concatenate([own_remarks.place for own_remarks in some]).astype("<u2").tobytes()
    figures = np.concatenate([own_remarks.stats.ravel() for own_remarks in some]).astype(np.float64, copy=False)
    shapes = [own_remarks.stats.shape for own_remarks in some]
    start = 0
    of_each = pack_small(figures, np.array([stats * size for stats, size in shapes], dtype=np.int64))
    for row, (stats, size), own in zip(rows, shapes, of_each, strict=True):
        body = places[start : start + 2 * size] + own
        packed[row] = _PACKED_HEAD.pack(_VERSION, size, stats, zlib.crc32(body)) + body
        start += 2 * size
    return packed


def unpack_remarks(legend: Legend | None, data: bytes) -> Remarks:
    """The inverse of :func:`pack_remarks`.

    Raises:
        RemarksCorruptError: damaged, of a newer version, or of another legend.
    """
    if len(data) < _HEAD or data[0] not in (_COMPRESSED, _VERSION):
        raise RemarksCorruptError(f"remarks of version {data[0] if data else None}; this broker knows {_VERSION}")
    size, stats = int.from_bytes(data[1:3], "little"), int.from_bytes(data[3:5], "little")
    try:
        if legend is None or stats != len(legend.stats):
            raise ValueError(f"{stats} figures of {0 if legend is None else len(legend.stats)}")
        if data[0] == _VERSION:
            body = data[_PACKED_HEAD.size :]
            if len(data) < _PACKED_HEAD.size or _PACKED_HEAD.unpack_from(data)[3] != zlib.crc32(body):
                raise ValueError("their checksum is another one")
            table = unpack_small(body[2 * size :], stats * size).reshape(stats, size)
        else:
            body = inflate(data[_HEAD:])
            octets = np.frombuffer(body[2 * size :], dtype="u1").reshape(8, -1)
            table = np.ascontiguousarray(octets.T).view("<f8").reshape(stats, size).astype(np.float64)
        place = np.frombuffer(body[: 2 * size], dtype="<u2").astype(np.int64)
        if place.size and place.max() >= len(legend.names):
            raise ValueError(f"candidate {place.max()} of {len(legend.names)}")
    except (zlib.error, ValueError) as error:
        raise RemarksCorruptError(f"damaged remarks: {error}") from error
    return Remarks(legend, place, table)
