"""How often queues were chosen and rejected, by reason code: counted in a cycle, added up by bucket of time, packed."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from broker.domain.arrays import Ints

#: The code of a queue that was among the chosen candidates.
CANDIDATE = "candidate"
_VERSION = 1
_MAX_BYTES = 256 * 1024 * 1024


class CountsCorruptError(Exception):
    """Packed counts that cannot be read."""


@dataclass(frozen=True)
class QueueCount:
    """One code at one queue.

    Attributes:
        queue: unified queue or nucleus; a name that stands for none, where that was asked for.
        code: of the rule that rejected it, or :data:`CANDIDATE`.
        decisions: how many decisions.
        chunks: about how many distinct chunks or tasks.
        jobs: assigned to the queue; 0 for every code but :data:`CANDIDATE`.
    """

    queue: str
    code: str
    decisions: int
    chunks: int
    jobs: int


@dataclass(frozen=True)
class QueueCounts:
    """Counts of a bucket.

    Attributes:
        queues: (Q,) names.
        codes: (C,) reason codes.
        decisions: (C, Q).
        chunks: (C, Q).
        jobs: (Q,).
    """

    queues: tuple[str, ...]
    codes: tuple[str, ...]
    decisions: Ints
    chunks: Ints
    jobs: Ints

    @classmethod
    def none(cls, queues: Sequence[str] = (), codes: Sequence[str] = ()) -> QueueCounts:
        """No counts of these queues and codes."""
        shape = (len(codes), len(queues))
        zeros = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64), np.zeros(shape[1], dtype=np.int64)
        return cls(tuple(queues), tuple(codes), *zeros)

    def plus(self, other: QueueCounts) -> QueueCounts:
        """The sum; queues and codes that only one of them has are kept."""
        if (self.queues, self.codes) == (other.queues, other.codes):
            stats = self.decisions + other.decisions, self.chunks + other.chunks, self.jobs + other.jobs
            return QueueCounts(self.queues, self.codes, *stats)
        queues = self.queues if self.queues == other.queues else tuple(dict.fromkeys(self.queues + other.queues))
        codes = self.codes if self.codes == other.codes else tuple(dict.fromkeys(self.codes + other.codes))
        total = QueueCounts.none(queues, codes)
        for one in (self, other):
            at = _places(one.queues, queues)
            cells = np.ix_(_places(one.codes, codes), at)
            total.decisions[cells] += one.decisions
            total.chunks[cells] += one.chunks
            total.jobs[at] += one.jobs
        return total

    def rows(self, queue: str | None = None) -> Iterator[QueueCount]:
        """Every code that was counted at a queue, or at ``queue`` alone."""
        where = range(len(self.queues)) if queue is None else _found(self.queues, queue)
        for at in where:
            for step in np.flatnonzero(self.decisions[:, at]).tolist():
                code = self.codes[step]
                jobs = int(self.jobs[at]) if code == CANDIDATE else 0
                counted = int(self.decisions[step, at]), int(self.chunks[step, at])
                yield QueueCount(self.queues[at], code, *counted, jobs)

    def pack(self) -> bytes:
        """Pack into bytes: a version, then compressed names, codes and counts."""
        head = json.dumps([self.queues, self.codes], separators=(",", ":")).encode()
        parts = (self.decisions, self.chunks, self.jobs)
        body = b"".join(np.ascontiguousarray(part, dtype="<i8").tobytes() for part in parts)
        return bytes([_VERSION]) + zlib.compress(len(head).to_bytes(4, "little") + head + body, 1)

    @classmethod
    def unpack(cls, data: bytes) -> QueueCounts:
        """The inverse of :meth:`pack`.

        Raises:
            CountsCorruptError: damaged, or of a newer version.
        """
        if not data or data[0] != _VERSION:
            raise CountsCorruptError(f"counts of version {data[0] if data else None}; this broker knows {_VERSION}")
        try:
            unpacker = zlib.decompressobj()
            body = unpacker.decompress(data[1:], _MAX_BYTES)
            if not unpacker.eof:
                raise ValueError("it ends too early")
            size = int.from_bytes(body[:4], "little")
            queues, codes = json.loads(body[4 : 4 + size])
            stats = np.frombuffer(body[4 + size :], dtype="<i8").astype(np.int64)
            cells = len(queues) * len(codes)
            if len(stats) != 2 * cells + len(queues):
                raise ValueError(f"{len(stats)} figures for {len(codes)} codes at {len(queues)} queues")
        except (zlib.error, ValueError, TypeError) as error:
            raise CountsCorruptError(f"damaged counts: {error}") from error
        shape = (len(codes), len(queues))
        decisions, chunks, jobs = np.split(stats, (cells, 2 * cells))
        return cls(tuple(queues), tuple(codes), decisions.reshape(shape), chunks.reshape(shape), jobs)


def _places(names: Sequence[str], among: Sequence[str]) -> Ints:
    if names == among:
        return np.arange(len(names))
    place = {name: index for index, name in enumerate(among)}
    return np.array([place[name] for name in names], dtype=np.int64)


def _found(queues: Sequence[str], queue: str) -> Sequence[int]:
    return [queues.index(queue)] if queue in queues else []
