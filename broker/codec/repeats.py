"""Repeated decisions of a cycle: which ones, in which order, and where their work was not the same to the byte.

The pattern of a batch names each of its decisions in order: a repeated one by the id of its row, a new one by 0; the
rows of the new ones follow in the order of their ids.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from broker.codec.compression import pack_alike, unpack_work, window_bits
from broker.domain.arrays import Ints

NEW = 0
_VERSION = 1
_MAX_BYTES = 256 * 1024 * 1024
_WINDOW = 32 * 1024
_NONE = 0xFFFFFFFF
_AS_IT_IS = 0
_HEADS = {15: 1, 13: 2}
"""First byte of a text with uncompressed work, by the window with which the work was packed: 2 to the power of it."""
_WIDE_ONLY, _ANY_WINDOW = 1, 2
"""Versions of changes: releases that know only the first one pack work in the wide window, and assume it."""


class RepeatsCorruptError(Exception):
    """A pattern or change that cannot be read."""


@dataclass(frozen=True)
class Body:
    """The parts of a decision that may differ when it is repeated: notes, remarks and work.

    Attributes:
        notes: as JSON.
        remarks: packed.
        work: packed.
    """

    notes: bytes | None
    remarks: bytes | None
    work: bytes | None

    def joined(self) -> bytes:
        """Join the parts into one text with uncompressed work, for byte-wise comparison."""
        return _text_of(self, *_inflated(self.work))

    @classmethod
    def split(cls, data: bytes) -> Body:
        """The inverse of :meth:`joined`; the work is compressed again."""
        sizes = [int.from_bytes(data[at : at + 4], "little") for at in (1, 5, 9)]
        parts: list[bytes | None] = []
        start = 13
        for size in sizes:
            parts.append(None if size == _NONE else data[start : start + size])
            start += 0 if size == _NONE else size
        if len(data) != start:
            raise RepeatsCorruptError(f"damaged change: {len(data)} bytes instead of {start}")
        notes, remarks, work = parts
        packed_in = {head: bits for bits, head in _HEADS.items()}
        if data[0] != _AS_IT_IS and work is not None:
            if data[0] not in packed_in:
                raise RepeatsCorruptError(f"damaged change: it begins with {data[0]}")
            work = pack_alike(work, packed_in[data[0]])
        return cls(notes, remarks, work)


def pack_pattern(pattern: Sequence[int]) -> bytes:
    """Pack ids into bytes: a version, then compressed differences of neighbours, all 1 in a quiet cycle."""
    ids = np.array(pattern, dtype=np.int64)
    repeat = ids != NEW
    steps = np.diff(ids[repeat], prepend=0).astype("<i8")
    body = len(ids).to_bytes(4, "little") + np.packbits(repeat).tobytes() + steps.view("u1").reshape(-1, 8).T.tobytes()
    return bytes((_VERSION,)) + zlib.compress(body, 6)


def unpack_pattern(data: bytes) -> Ints:
    """The inverse of :func:`pack_pattern`.

    Raises:
        RepeatsCorruptError: damaged, or of a newer version.
    """
    body = _opened(data)
    size = int.from_bytes(body[:4], "little")
    start = 4 + (size + 7) // 8
    repeat = np.unpackbits(np.frombuffer(body[4:start], dtype="u1"), count=size).astype(np.bool_)
    octets = np.frombuffer(body[start:], dtype="u1")
    if len(octets) != 8 * int(repeat.sum()):
        raise RepeatsCorruptError(f"damaged pattern: {len(octets)} bytes for {int(repeat.sum())} decisions")
    ids = np.zeros(size, dtype=np.int64)
    ids[repeat] = np.cumsum(np.ascontiguousarray(octets.reshape(8, -1).T).view("<i8").ravel())
    return ids


def pack_changes(changes: Mapping[int, tuple[Body, Body]]) -> bytes | None:
    """Pack the changed bodies of repeated decisions; None where nothing changed.

    Args:
        changes: by place in the pattern, the stored body and the body in this cycle.
    """
    if not changes:
        return None
    version, parts = _WIDE_ONLY, []
    for place, (before, now) in changes.items():
        texts = before.joined(), now.joined()
        if _HEADS[13] in (texts[0][0], texts[1][0]):
            version = _ANY_WINDOW
        packer = zlib.compressobj(6, zdict=texts[0][-_WINDOW:])
        difference = packer.compress(texts[1]) + packer.flush()
        parts += [place.to_bytes(4, "little"), len(difference).to_bytes(4, "little"), difference]
    return bytes((version,)) + b"".join(parts)


def changes_by_place(data: bytes | None) -> dict[int, bytes]:
    """The differences by place in the pattern, as input of :func:`changed`.

    Raises:
        RepeatsCorruptError: damaged, or of a newer version.
    """
    differences: dict[int, bytes] = {}
    if data is None:
        return differences
    if not data or data[0] not in (_WIDE_ONLY, _ANY_WINDOW):
        raise RepeatsCorruptError(f"changes of version {data[0] if data else None}; this broker knows {_ANY_WINDOW}")
    position = 1
    while position < len(data):
        place, size = (int.from_bytes(data[start : start + 4], "little") for start in (position, position + 4))
        position += 8 + size
        if position > len(data):
            raise RepeatsCorruptError("damaged changes: they end too early")
        differences[place] = data[position - size : position]
    return differences


def changed(before: Body, difference: bytes) -> Body:
    """The body of a decision as it was in a later cycle.

    Raises:
        RepeatsCorruptError: damaged.
    """
    opener = zlib.decompressobj(zdict=_compared_with(before, difference)[-_WINDOW:])
    try:
        return Body.split(opener.decompress(difference, _MAX_BYTES))
    except zlib.error as error:
        raise RepeatsCorruptError(f"damaged change: {error}") from error


def _text_of(body: Body, head: int, work: bytes | None) -> bytes:
    parts = (body.notes, body.remarks, work)
    sizes = b"".join((_NONE if part is None else len(part)).to_bytes(4, "little") for part in parts)
    return bytes((head,)) + sizes + b"".join(part or b"" for part in parts)


def _compared_with(before: Body, difference: bytes) -> bytes:
    """The text against which a difference was taken; releases with a single window left narrow work compressed."""
    text = before.joined()
    if difference[2:6] == zlib.adler32(text[-_WINDOW:]).to_bytes(4, "big"):
        return text
    return _text_of(before, _AS_IT_IS, before.work)


def _inflated(work: bytes | None) -> tuple[int, bytes | None]:
    """The work inflated, with a head that says how to compress it again; unchanged where that fails."""
    if not work or window_bits(work) not in _HEADS:
        return _AS_IT_IS, work
    bits = window_bits(work)
    try:
        plain = unpack_work(work, _MAX_BYTES)
    except zlib.error:
        return _AS_IT_IS, work
    return (_HEADS[bits], plain) if pack_alike(plain, bits) == work else (_AS_IT_IS, work)


def _opened(data: bytes) -> bytes:
    if not data or data[0] != _VERSION:
        raise RepeatsCorruptError(f"pattern of version {data[0] if data else None}; this broker knows {_VERSION}")
    try:
        opener = zlib.decompressobj()
        body = opener.decompress(data[1:], _MAX_BYTES)
    except zlib.error as error:
        raise RepeatsCorruptError(f"damaged pattern: {error}") from error
    if not opener.eof or len(body) < 4:
        raise RepeatsCorruptError("damaged pattern: it ends too early")
    return body
