"""Counts of rejections: of the candidates of one decision by reason, and of many decisions by queue and code. Pure.

:func:`rejection_counts` counts the queues and pseudo-queues that each reason of one decision rejected. A queue counts
once, where its last pseudo-queue was rejected: under the reason stored for the queue's own name, or else the latest
reason of its pseudo-queues. The rejected queues and those with a chosen pseudo-queue therefore add up to the queues at
the start, as do the pseudo-queues.

:class:`QueueCounts` holds how often each queue was chosen and rejected, by reason code: counted in a cycle, summed by
time bucket, packed into bytes.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from broker.domain.arrays import Ints

SUCH_AS = 4


@dataclass(frozen=True)
class Counts:
    """Numbers of candidates. ``queues``: unified queues, or nuclei; ``pseudo_queues``: theirs, null for nuclei."""

    queues: int
    pseudo_queues: int | None = None


@dataclass(frozen=True)
class Rejection:
    """The candidates rejected for one reason, and those that remained; the reasons are in the order of the rules.

    A queue counts where its last pseudo-queue was rejected, so that all reasons and ``chosen`` add up to
    ``start`` in both columns. ``such_as``: names of some queues.
    """

    code: str
    rejected: Counts
    remaining: Counts
    such_as: tuple[str, ...] = ()


@dataclass(frozen=True)
class RejectionCounts:
    """The candidates of a decision, in the order of its rules; ``start`` is the sum of all rejected and chosen ones.

    ``by_queue``: the reason of each queue without a chosen pseudo-queue. ``not_candidates``: names that stood for no
    candidate, with the reason.
    """

    start: Counts
    rejected: tuple[Rejection, ...]
    chosen: Counts
    by_queue: Mapping[str, str]
    not_candidates: Mapping[str, str]


def unified_of(name: str) -> str:
    """The queue of a pseudo-queue; a name without a resource type is a queue of its own."""
    return name.partition("/")[0]


def rejection_counts(
    rejected: Mapping[str, str], funnel: Sequence[tuple[str, int, int]], chosen: Collection[str]
) -> RejectionCounts:
    """Count the candidates of one decision.

    Args:
        rejected: stored reason by name, of pseudo-queues and of queues with no pseudo-queue left.
        funnel: reason, candidates before it and after it, in the order of the rules.
        chosen: names of the chosen candidates.
    """
    rejected = dict(rejected)  # names are looked up several times below, which is slow in a packed mapping
    order = list(dict.fromkeys(code for code, _, _ in funnel))
    in_funnel = Counter[str]()
    for code, before, after in funnel:
        in_funnel[code] += before - after
    pseudo = {name for name in rejected if "/" in name}
    of_pseudo = {unified_of(name) for name in (*pseudo, *chosen) if "/" in name}
    alone = [name for name in rejected if "/" not in name and name not in of_pseudo]
    room = dict(in_funnel)
    for name in pseudo:
        room[rejected[name]] = room.get(rejected[name], 0) - 1
    candidates, others = set(pseudo), {}
    for name in alone:
        # names of a task that stand for no queue are stored with the rejected ones, but no rule has seen them
        if room.get(rejected[name], 0) > 0:
            room[rejected[name]] -= 1
            candidates.add(name)
        else:
            others[name] = rejected[name]
    order += [code for code in dict.fromkeys(rejected[name] for name in candidates) if code not in order]
    by_queue = _by_queue(candidates, rejected, order, {unified_of(name) for name in chosen})
    return _added(order, candidates, rejected, by_queue, chosen, others)


def _by_queue(
    candidates: Collection[str], rejected: Mapping[str, str], order: Sequence[str], with_chosen: Collection[str]
) -> dict[str, str]:
    """The reason with which each queue that was not chosen was rejected."""
    position = {code: place for place, code in enumerate(order)}
    latest: dict[str, str] = {}
    for name in candidates:
        queue, code = unified_of(name), rejected[name]
        if queue not in with_chosen and (queue not in latest or position[code] > position[latest[queue]]):
            latest[queue] = code
    return {queue: rejected[queue] if rejected.get(queue) in position else code for queue, code in latest.items()}


def _added(
    order: Sequence[str],
    candidates: Collection[str],
    rejected: Mapping[str, str],
    by_queue: Mapping[str, str],
    chosen: Collection[str],
    others: Mapping[str, str],
) -> RejectionCounts:
    of_pseudo, of_queue = Counter(rejected[name] for name in candidates), Counter(by_queue.values())
    chosen_counts = Counts(len({unified_of(name) for name in chosen}), len(set(chosen)))
    queues, pseudo_queues = len(by_queue) + chosen_counts.queues, len(candidates) + len(set(chosen))
    start = Counts(queues, pseudo_queues)
    lines: list[Rejection] = []
    for code in order:
        if of_pseudo[code]:
            queues, pseudo_queues = queues - of_queue[code], pseudo_queues - of_pseudo[code]
            here = Counts(of_queue[code], of_pseudo[code])
            names = sorted(queue for queue, why in by_queue.items() if why == code)
            names = names or sorted(name for name in candidates if rejected[name] == code)
            lines.append(Rejection(code, here, Counts(queues, pseudo_queues), tuple(names[:SUCH_AS])))
    return RejectionCounts(start, tuple(lines), chosen_counts, dict(by_queue), dict(others))


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
        queue: unified queue or nucleus; on request, a name that stands for none.
        code: of the rule that rejected it, or :data:`CANDIDATE`.
        decisions: number of decisions.
        chunks: approximate number of distinct chunks or tasks.
        jobs: jobs assigned to the queue; 0 for every code but :data:`CANDIDATE`.
    """

    queue: str
    code: str
    decisions: int
    chunks: int
    jobs: int


@dataclass(frozen=True)
class QueueCounts:
    """Counts of a time bucket.

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
        """Zero counts for these queues and codes."""
        shape = (len(codes), len(queues))
        zeros = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64), np.zeros(shape[1], dtype=np.int64)
        return cls(tuple(queues), tuple(codes), *zeros)

    def plus(self, other: QueueCounts) -> QueueCounts:
        """The sum; queues and codes that occur in only one of them are kept."""
        if (self.queues, self.codes) == (other.queues, other.codes):
            stats = self.decisions + other.decisions, self.chunks + other.chunks, self.jobs + other.jobs
            return QueueCounts(self.queues, self.codes, *stats)
        queues = self.queues if self.queues == other.queues else tuple(dict.fromkeys(self.queues + other.queues))
        codes = self.codes if self.codes == other.codes else tuple(dict.fromkeys(self.codes + other.codes))
        total = QueueCounts.none(queues, codes)
        for counts in (self, other):
            columns = _places(counts.queues, queues)
            cells = np.ix_(_places(counts.codes, codes), columns)
            total.decisions[cells] += counts.decisions
            total.chunks[cells] += counts.chunks
            total.jobs[columns] += counts.jobs
        return total

    def rows(self, queue: str | None = None) -> Iterator[QueueCount]:
        """Every code counted at each queue, or at ``queue`` alone."""
        where = range(len(self.queues)) if queue is None else _columns_of(self.queues, queue)
        for column in where:
            for step in np.flatnonzero(self.decisions[:, column]).tolist():
                code = self.codes[step]
                jobs = int(self.jobs[column]) if code == CANDIDATE else 0
                numbers = int(self.decisions[step, column]), int(self.chunks[step, column])
                yield QueueCount(self.queues[column], code, *numbers, jobs)

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


def _columns_of(queues: Sequence[str], queue: str) -> Sequence[int]:
    return [queues.index(queue)] if queue in queues else []
