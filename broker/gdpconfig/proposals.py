"""Proposed tuning values as people type them, and canaries: values tried on a share of the tasks for some time. Pure.

A proposal is ``KEY=VALUE``, or ``KEY=FROM:TO:STEP`` for a range.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation

import numpy as np
from numpy.typing import NDArray

from broker.errors import WRONG_USAGE, BrokerError, Refused
from broker.gdpconfig.catalogue import Catalogue, Value, ValueRefusedError
from broker.gdpconfig.publish import Published, vo_to_edit, with_values
from broker.gdpconfig.values import from_text

MOST_POINTS = 10_000
"""Most points of a grid; each point decides all cycles again."""


class NotAProposal(BrokerError):
    """The text is not of the expected form."""

    exit_status = WRONG_USAGE


@dataclass(frozen=True)
class Proposal:
    """One key with a proposed value.

    Attributes:
        key: full name.
        value: the value, checked by the catalogue.
        vo: VO whose row would be set.
    """

    key: str
    value: Value
    vo: str

    def __str__(self) -> str:
        """The proposal as typed."""
        reported = str(self.value).lower() if isinstance(self.value, bool) else str(self.value)
        return f"{self.key}={reported}"


@dataclass(frozen=True)
class Range:
    """One key with a range of values to try.

    Attributes:
        key: full name.
        points: one proposal per value, from first to last.
    """

    key: str
    points: tuple[Proposal, ...]


def read_proposals(catalogue: Catalogue, texts: Iterable[str], vo: str) -> tuple[Proposal, ...]:
    """Parse ``KEY=VALUE`` texts into proposals.

    Args:
        catalogue: the keys.
        texts: one per key; everything after the first ``=`` is the value.
        vo: VO whose rows would be set; a key that is read for one VO only uses that one.

    Raises:
        NotAProposal: a text has no ``=``, or nothing before it.
        UnknownKeyError: no such key; similar names are offered.
        ValueRefusedError: a value is of the wrong type or out of range, or a key occurs twice.
    """
    return _each_once(_proposal(catalogue, text, vo) for text in texts)


def read_ranges(catalogue: Catalogue, texts: Iterable[str], vo: str) -> tuple[Range, ...]:
    """Parse ``KEY=FROM:TO:STEP`` texts: FROM, then steps up to TO, which is included if a step reaches it.

    Arguments as for :func:`read_proposals`.

    Raises:
        NotAProposal: a text is of another form, or its step does not lead from FROM to TO.
        UnknownKeyError: no such key.
        ValueRefusedError: the key is not numeric, a value is out of range, a key occurs twice, or there are more than
            MOST_POINTS points in all.
    """
    ranges = [_range(catalogue, text, vo) for text in texts]
    _each_once(key_range.points[0] for key_range in ranges)
    count = 1
    for key_range in ranges:
        count *= len(key_range.points)
    if count > MOST_POINTS:
        raise ValueRefusedError(f"the ranges have {count} points in all, more than {MOST_POINTS}; take larger steps")
    return tuple(ranges)


def grid(ranges: Sequence[Range]) -> tuple[tuple[Proposal, ...], ...]:
    """All combinations, with the last range varying fastest."""
    return tuple(itertools.product(*(one.points for one in ranges)))


def proposed(published: Published, proposals: Iterable[Proposal]) -> Published:
    """The values with the proposals applied.

    Raises:
        ValueRefusedError: the values contradict each other, or an unchanged value.
    """
    return with_values(published, ((one.key, one.value, one.vo) for one in proposals))


def readers_beside_brokerages(catalogue: Catalogue, proposal: Proposal, brokerages: Iterable[str]) -> str:
    """The readers of a key that none of ``brokerages`` reads, so that it changes no decision; otherwise empty."""
    readers = catalogue.require(proposal.key).read_by
    return "" if set(readers) & set(brokerages) else ", ".join(readers)


def _proposal(catalogue: Catalogue, text: str, vo: str) -> Proposal:
    key, value = _split(text, "KEY=VALUE")
    entry = catalogue.require(key)
    return Proposal(key, from_text(entry, value), _row_vo(catalogue, key, vo))


def _row_vo(catalogue: Catalogue, key: str, vo: str) -> str:
    """The VO of the row; a key with its own VO uses that."""
    entry = catalogue.require(key)
    return vo_to_edit(entry, vo if entry.scope in ("task", "any") else None)


def _split(text: str, form: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise NotAProposal(f"{text[:60]!r} is not of the form {form}", "", "write for example NQUEUED_SAT_CAP=200")
    return key.strip(), value


def _each_once(proposals: Iterable[Proposal]) -> tuple[Proposal, ...]:
    by_key: dict[str, Proposal] = {}
    for proposal in proposals:
        if proposal.key in by_key:
            raise ValueRefusedError(
                f"{by_key[proposal.key]} and {proposal} contradict each other; name {proposal.key} once"
            )
        by_key[proposal.key] = proposal
    return tuple(by_key.values())


def _range(catalogue: Catalogue, text: str, vo: str) -> Range:
    form = "KEY=FROM:TO:STEP"
    key, value = _split(text, form)
    entry = catalogue.require(key)
    if not entry.type.is_numeric:
        raise ValueRefusedError(f"{key} is {entry.type.words}; only numbers have a range of values")
    try:
        first, last, step = (Decimal(part.strip()) for part in value.split(":"))
    except (InvalidOperation, ValueError) as error:
        raise NotAProposal(f"{text[:60]!r} is not of the form {form}", key, "write for example 10:50:10") from error
    numbers = (first, last, step)
    if not all(math.isfinite(float(one)) for one in numbers) or float(step) == 0 or (last - first) * step < 0:
        raise NotAProposal(f"{step} does not lead from {first} to {last}", key, "give a step of the right sign, not 0")
    if (last - first) / step >= MOST_POINTS:
        raise ValueRefusedError(f"{key} has more than {MOST_POINTS} values; take a larger step")
    count = int((last - first) / step) + 1
    row_vo = _row_vo(catalogue, key, vo)
    values = (first + step * index for index in range(count))
    return Range(key, tuple(Proposal(key, from_text(entry, f"{number:f}"), row_vo) for number in values))


class CanaryRefused(Refused):
    """The values, share or time of a canary are not acceptable."""


@dataclass(frozen=True)
class Canary:
    """Values tried on a share of the tasks.

    Attributes:
        id: its number; each canary chooses different tasks.
        proposals: the values.
        share: fraction of the tasks, between 0 and 1.
        editor: the user who started it.
        reason: why it was started.
        started_at: first instant, aware.
        ends_at: instant from which it is over, aware.
        stopped_at: when it was stopped before that; None if it was not.
    """

    id: int
    proposals: tuple[Proposal, ...]
    share: float
    editor: str
    reason: str
    started_at: datetime
    ends_at: datetime
    stopped_at: datetime | None

    def runs_at(self, now: datetime) -> bool:
        """Whether it is in force at an instant."""
        return self.started_at <= now < self.over_at

    @property
    def over_at(self) -> datetime:
        """The instant from which it is no longer in force."""
        return self.ends_at if self.stopped_at is None else min(self.stopped_at, self.ends_at)

    def chooses(self, jeditaskid: int) -> bool:
        """Whether the values are tried on a task; the answer for a task never changes."""
        digest = hashlib.sha256(f"{self.id}:{jeditaskid}".encode()).digest()
        return int.from_bytes(digest[:8], "big") < self.share * 2.0**64

    def chosen(self, jeditaskids: Iterable[int]) -> NDArray[np.bool_]:
        """(T,) whether each task is chosen."""
        tasks = list(jeditaskids)
        known = {task: self.chooses(task) for task in dict.fromkeys(tasks)}
        return np.array([known[task] for task in tasks], dtype=np.bool_)


def check_canary(
    catalogue: Catalogue,
    proposals: Iterable[Proposal],
    share: float,
    not_split: Iterable[str],
    brokerages: Collection[str],
) -> None:
    """Refuse values that cannot be tried on a share of the tasks.

    Args:
        catalogue: the keys.
        proposals: the values.
        share: fraction of the tasks.
        not_split: keys whose value holds for the grid, not for a task.
        brokerages: names of the brokerages.

    Raises:
        CanaryRefused: the share leaves nothing to compare, or no brokerage decides about tasks by a key.
    """
    if not (math.isfinite(share) and 0 < share < 1):
        raise CanaryRefused(f"a share of {share:g} leaves nothing to compare", "--share", "give one between 0 and 1")
    for proposal in proposals:
        entry = catalogue.require(proposal.key)
        others = readers_beside_brokerages(catalogue, proposal, brokerages)
        if others:
            raise CanaryRefused(f"{proposal.key} is read by {others}, not by a brokerage", "", "set it for all tasks")
        if entry.key in set(not_split):
            raise CanaryRefused(f"{proposal.key} holds for queues, not for tasks", "", "try it with broker what-if")
