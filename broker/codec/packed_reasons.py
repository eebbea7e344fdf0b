"""The reasons of a decision as one small number per candidate, and the names and funnel that they stand for.

A cycle produces only the numbers; names and funnel are built on first access.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import Any, overload

import numpy as np

from broker.codec.compression import inflate
from broker.codec.runs import pack_codes, unpack_codes
from broker.domain.arrays import AnyArray, Ints
from broker.domain.chosen_candidates import Legend
from broker.domain.decisions import FunnelStep


class UndecidedPair(IntEnum):
    """State of a pair that no rule decides: feasible, or never a candidate."""

    FEASIBLE = -1
    NOT_A_CANDIDATE = -2


FEASIBLE, NOT_A_CANDIDATE = UndecidedPair.FEASIBLE, UndecidedPair.NOT_A_CANDIDATE
#: Version 2 has runs of numbers and a checksum; version 1 is deflated, or stored as it is where that is shorter.
_VERSION, _COMPRESSED = 2, 1
_WIDE, _PACKED, _EXTRA, _NAMED = 1, 2, 4, 8
#: Codes are stored from this number on; lower ones stand for candidates that are left, and for queues that never were
#: candidates.
_FIRST = 2
_MOST_NARROW = 255 - _FIRST
#: Where runs take more than this part of the plain numbers, deflate is used; it searches for runs alone, in half the
#: time and nearly as well.
_MOST_OF_PLAIN = 0.6
_RUNS_ALONE, _ANY_REPEATS = zlib.Z_RLE, zlib.Z_DEFAULT_STRATEGY
_WINDOW_BITS, _MEMORY_LEVEL = 9, 5
_RUNS_HEAD = 6


class ReasonsCorruptError(Exception):
    """Packed reasons that cannot be read."""


@dataclass(frozen=True, eq=False)
class Reasons:
    """The outcome of each candidate of one decision.

    Attributes:
        legend: names and codes.
        position: (Q,) index into the codes of what rejected it; FEASIBLE, or NOT_A_CANDIDATE.
        blocked: why the remaining candidates were rejected nevertheless; empty if they were not.
        refused: names that stand for no candidate, each with its code.
        steps: the funnel, where it does not follow from the positions.
    """

    legend: Legend
    position: AnyArray
    blocked: str = ""
    refused: Mapping[str, str] = field(default_factory=dict)
    steps: tuple[FunnelStep, ...] | None = None

    @cached_property
    def rejected(self) -> dict[str, str]:
        """Code by candidate, and by unified queue without remaining candidates: that of the last one rejected."""
        legend, codes = self.legend, {}
        gone = np.flatnonzero(self.position >= 0).tolist()
        for at, step in zip(gone, self.position[gone].tolist(), strict=True):
            codes[legend.names[at]] = legend.codes[step]
        if legend.groups:
            last = group_steps(legend, self.position[None, :])[0].tolist()
            for name, step in zip(legend.group_names, last, strict=True):
                if step >= 0:
                    codes.setdefault(name, legend.codes[step])
        if self.blocked:
            codes.update((legend.names[at], self.blocked) for at in np.flatnonzero(self.position == FEASIBLE).tolist())
        codes.update(self.refused)
        return codes

    @cached_property
    def funnel(self) -> tuple[FunnelStep, ...]:
        """Every rule that rejected candidates, with their numbers before and after."""
        if self.steps is not None:
            return self.steps
        current = int((self.position >= FEASIBLE).sum())
        counts = np.bincount(self.position[self.position >= 0], minlength=len(self.legend.codes)).tolist()
        funnel = []
        for step in self.legend.order:
            if counts[step]:
                funnel.append(FunnelStep(self.legend.codes[step], current, current - counts[step]))
                current -= counts[step]
        if self.blocked and current:
            funnel.append(FunnelStep(self.blocked, current, 0))
        return tuple(funnel)


def group_steps(legend: Legend, position: AnyArray) -> Ints:
    """(B, G): for each group of candidates the index of the code that rejected it.

    That is the code of the last candidate rejected, the later name on ties; FEASIBLE where a candidate is left,
    NOT_A_CANDIDATE where there never was one.

    Args:
        legend: of the positions, with groups.
        position: (B, Q), as in :class:`Reasons`.
    """
    size = position.shape[1]
    departure = np.append(np.array(legend.departure, dtype=np.int64), (0, 0))
    gone = position >= 0
    key = np.where(gone, departure[position] * size + np.arange(size), -1)
    order = np.argsort(legend.group_of, kind="stable")
    starts = np.searchsorted(legend.group_of[order], np.arange(len(legend.group_names)))
    last = np.maximum.reduceat(key[:, order], starts, axis=1)
    alive = np.logical_or.reduceat((position == FEASIBLE)[:, order], starts, axis=1)
    steps = np.take_along_axis(position, np.maximum(last, 0) % size, axis=1)
    return np.where(alive, FEASIBLE, np.where(last < 0, NOT_A_CANDIDATE, steps)).astype(np.int64)


class RejectedNames(Mapping[str, str]):
    """The rejected names of packed reasons as a mapping, built on first access."""

    def __init__(self, reasons: Reasons) -> None:
        self.reasons = reasons

    def __getitem__(self, name: str) -> str:
        return self.reasons.rejected[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.reasons.rejected)

    def __len__(self) -> int:
        return len(self.reasons.rejected)

    def __repr__(self) -> str:
        return repr(self.reasons.rejected)


class FunnelSteps(Sequence[FunnelStep]):
    """The funnel of packed reasons as a sequence, built on first access."""

    def __init__(self, reasons: Reasons) -> None:
        self.reasons = reasons

    @overload
    def __getitem__(self, index: int) -> FunnelStep: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[FunnelStep, ...]: ...
    def __getitem__(self, index: int | slice) -> FunnelStep | tuple[FunnelStep, ...]:
        return self.reasons.funnel[index]

    def __len__(self) -> int:
        return len(self.reasons.funnel)

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as unhashable as what it stands for

    def __repr__(self) -> str:
        return repr(self.reasons.funnel)


def pack_reasons(reasons: Sequence[Reasons]) -> list[bytes]:
    """The reasons of each decision as bytes, packed at once for each legend.

    The layout is a version, flags, a checksum of the rest, the runs of numbers, candidates of one kind after the other,
    and as JSON what does not follow from them; or the plain numbers and the JSON, deflated.
    """
    packed = [b""] * len(reasons)
    by_legend: dict[Legend, list[int]] = {}
    for row, reason in enumerate(reasons):
        by_legend.setdefault(reason.legend, []).append(row)
    for legend, rows in by_legend.items():
        kind = _kind(legend)
        # FEASIBLE becomes 1, NOT_A_CANDIDATE 0
        numbers = np.concatenate([reasons[row].position for row in rows]).reshape(len(rows), -1) + _FIRST
        numbers = numbers.astype(kind)
        flags = _WIDE if kind.itemsize > 1 else 0
        size = len(legend.names) * kind.itemsize
        runs = pack_codes(numbers.take(legend.by_kind, axis=1))
        for at, (row, own) in enumerate(zip(rows, runs, strict=True)):
            extra = _extra(reasons[row])
            marked = flags | _EXTRA if extra else flags
            if len(own) > _MOST_OF_PLAIN * size:
                packed[row] = _sealed(marked, numbers[at].tobytes() + extra, _RUNS_ALONE)
            else:
                body = own + extra
                packed[row] = bytes((_VERSION, marked)) + _checksum(legend, body) + body
    return packed


def _kind(legend: Legend) -> np.dtype[Any]:
    """The dtype that holds the numbers of a chain with this many codes."""
    return np.dtype("<u2" if len(legend.codes) > _MOST_NARROW else "u1")


def pack_named(rejected: Mapping[str, str], funnel: Sequence[FunnelStep]) -> bytes:
    """Pack reasons that are known by name alone, without a legend: each code with its names."""
    by_code: dict[str, list[str]] = {}
    for name, code in rejected.items():
        by_code.setdefault(code, []).append(name)
    reported = [by_code, [[step.code, step.before, step.after] for step in funnel]]
    return _sealed(_NAMED, json.dumps(reported, separators=(",", ":")).encode(), _ANY_REPEATS)


def unpack_reasons(legend: Legend | None, data: bytes) -> Reasons:
    """The inverse of :func:`pack_reasons`, and of :func:`pack_named`, which needs no legend.

    Raises:
        ReasonsCorruptError: damaged, of a newer version, or of another legend.
    """
    if len(data) < 2 or data[0] not in (_COMPRESSED, _VERSION):
        raise ReasonsCorruptError(f"reasons of version {data[0] if data else None}; this broker knows {_VERSION}")
    try:
        flags, body = data[1], _opened(data) if data[0] == _COMPRESSED else data[_RUNS_HEAD:]
        if flags & _NAMED:
            return _named(json.loads(body))
        if legend is None:
            raise ValueError("they have no legend")
        kind = np.dtype("<u2") if flags & _WIDE else np.dtype("u1")
        if data[0] == _COMPRESSED:
            numbers, size = _plain(legend, kind, body)
        else:
            numbers, size = _of_runs(legend, kind, body, data[2:_RUNS_HEAD])
        if (len(body) > size) != bool(flags & _EXTRA):
            raise ValueError(f"{len(body)} bytes for {len(legend.names)} candidates")
        position = numbers.astype(np.int16) - np.int16(_FIRST)
        if position.size and position.max() >= len(legend.codes):
            raise ValueError(f"code {position.max()} of {len(legend.codes)}")
        extra = json.loads(body[size:]) if flags & _EXTRA else {}
        steps = extra.get("funnel")
        funnel = None if steps is None else tuple(FunnelStep(*step) for step in steps)
        return Reasons(legend, position, extra.get("blocked", ""), extra.get("refused", {}), funnel)
    except (zlib.error, ValueError, TypeError, AttributeError) as error:
        raise ReasonsCorruptError(f"damaged reasons: {error}") from error


def _checksum(legend: Legend, body: bytes) -> bytes:
    """Checksum over the number of candidates and the body."""
    return zlib.crc32(body, len(legend.names)).to_bytes(4, "little")


def _plain(legend: Legend, kind: np.dtype[Any], body: bytes) -> tuple[AnyArray, int]:
    """The numbers (Q,) at the beginning of a body, and their end."""
    size = len(legend.names) * kind.itemsize
    if len(body) < size:
        raise ValueError(f"{len(body)} bytes for {len(legend.names)} candidates")
    return np.frombuffer(body[:size], dtype=kind), size


def _of_runs(legend: Legend, kind: np.dtype[Any], body: bytes, checksum: bytes) -> tuple[AnyArray, int]:
    """Unpack a body that is stored as runs."""
    if _checksum(legend, body) != checksum:
        raise ValueError("their checksum is another one")
    ordered, size = unpack_codes(body, len(legend.names), kind)
    numbers = np.empty_like(ordered)
    numbers[legend.by_kind] = ordered
    return numbers, size


def _extra(reasons: Reasons) -> bytes:
    extra: dict[str, Any] = {}
    if reasons.blocked:
        extra["blocked"] = reasons.blocked
    if reasons.refused:
        extra["refused"] = dict(reasons.refused)
    if reasons.steps is not None:
        extra["funnel"] = [[step.code, step.before, step.after] for step in reasons.steps]
    return json.dumps(extra, separators=(",", ":")).encode("utf-8", "replace") if extra else b""


def _sealed(flags: int, body: bytes, strategy: int) -> bytes:
    # a small window is faster to set up, and loses nothing here
    packer = zlib.compressobj(6, zlib.DEFLATED, _WINDOW_BITS, _MEMORY_LEVEL, strategy)
    packed = packer.compress(body) + packer.flush()
    if len(packed) < len(body):
        flags, body = flags | _PACKED, packed
    return bytes((_COMPRESSED, flags)) + body


def _opened(data: bytes) -> bytes:
    return inflate(data[2:]) if data[1] & _PACKED else data[2:]


def _named(reported: Any) -> Reasons:
    by_code, funnel = reported
    refused = {name: code for code, names in by_code.items() for name in names}
    steps = tuple(FunnelStep(*step) for step in funnel)
    return Reasons(Legend(()), np.zeros(0, dtype=np.int16), "", refused, steps)
