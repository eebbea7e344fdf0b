"""Stored decisions on their way to message brokers: in order, in bounded batches, at least once each.

How far a channel has come is a row, moved under the lease when receipts have come. A process that dies before it can
move it sends the same messages again, under the same numbers.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import sqlalchemy as sa

from agents.notifications.delivering import publish_decisions
from agents.notifications.stomp_delivering import Outgoing, Published
from agents.service import fault_points
from agents.service.base import CycleContext
from broker import feature
from broker.domain.decisions import StoredDecision
from broker.notifications.model.backoff import pause_s
from broker.notifications.model.channels import StompChannel
from broker.notifications.model.messages import DELIVERY_HEADER
from broker.notifications.model.publishing import (
    DECISION_HEADER,
    LOST_HEADER,
    PublishedDecisions,
    confirmed_position,
)
from broker.notifications.model.rules import NotificationSettings
from broker.notifications.statements import stream_rows
from broker.notifications.statements.stream_rows import Numbered, StreamRow

OF_A_BATCH = 100
"""Decisions that are read, sent over one connection and waited for together."""
_USE_OF_BUDGET = 0.6
"""Part of the cycle's time after which no further batch is begun."""
Bodies = Callable[[sa.Connection, Sequence[StoredDecision]], list[bytes]]
Publish = Callable[[StompChannel, Sequence[Outgoing]], Published]


@dataclass(frozen=True)
class _Batch:
    """Decisions that were read: those to be sent, how many a filter could not judge, up to where all were read."""

    ids: Sequence[int]
    messages: Sequence[Outgoing]
    unknown: int
    scanned: int
    read: int


class DecisionPublisher:
    """Publishes the decisions of all channels that ask for some; kept from cycle to cycle."""

    def __init__(self) -> None:
        """Nothing is known of transactions that are under way."""
        self.publish: Publish = publish_decisions
        self.bodies: Callable[[], Bodies] = bodies
        self._before: Numbered | None = None

    def run(self, context: CycleContext, settings: NotificationSettings, most: int, counts: Counter[str]) -> list[str]:
        """Send what is due, at most so many decisions a channel; what there is to say of it."""
        asked = {
            name: (channel, channel.decisions)
            for name, channel in settings.channels.items()
            if isinstance(channel, StompChannel) and channel.decisions is not None
        }
        with context.database.read_snapshot() as connection:
            known = stream_rows.read(connection)
            now = stream_rows.numbered(connection) if asked else Numbered(0, frozenset())
        notes = self._begin_and_end(context, asked.keys() - known.keys(), known.keys() - asked.keys(), asked, now)
        until = self._readable(now) if asked else None
        for name, (channel, wanted) in asked.items():
            row = known.get(name)
            if until is None or row is None or until < row.position:
                continue
            if row.not_before is not None and row.not_before > context.now:
                counts["held_back"] += 1
                continue
            notes += _Stream(self, context, settings, channel, wanted, counts).send(row, until, most)
        return notes

    def _begin_and_end(
        self, context: CycleContext, new: Sequence[str] | set[str], gone: set[str], asked: Mapping[str, object],
        now: Numbered,
    ) -> list[str]:  # fmt: skip
        if not new and not gone:
            return []
        with context.writing() as connection:
            for name in new:
                stream_rows.start(connection, name, now.last, context.now)
            stream_rows.forget(connection, asked)
        notes = [f"{name}: decisions are published from now on, none of before" for name in sorted(new)]
        return notes + [f"{name}: publishes no decisions any more" for name in sorted(gone)]

    def _readable(self, now: Numbered) -> int | None:
        """The number up to which all decisions that there will be can be read; None: not known in this cycle."""
        found, self._before = readable(self._before, now)
        return found


def readable(before: Numbered | None, now: Numbered) -> tuple[int | None, Numbered | None]:
    """Up to which number all decisions are visible from now on, and what to compare the next look with. Pure.

    >>> readable(None, Numbered(7, frozenset()))
    (7, None)
    >>> readable(None, Numbered(7, frozenset({"3/1"})))
    (None, Numbered(last=7, by=frozenset({'3/1'})))
    >>> readable(Numbered(7, frozenset({"3/1"})), Numbered(9, frozenset({"3/2"})))
    (7, Numbered(last=9, by=frozenset({'3/2'})))
    """
    if not now.by:
        return now.last, None
    if before is None:
        return None, now
    return (None, before) if before.by & now.by else (before.last, now)


@dataclass
class _Stream:
    """The decisions of one channel in one cycle."""

    publisher: DecisionPublisher
    context: CycleContext
    settings: NotificationSettings
    channel: StompChannel
    wanted: PublishedDecisions
    counts: Counter[str]

    def send(self, row: StreamRow, until: int, most: int) -> list[str]:
        """Send what there is from ``row`` up to ``until``; what there is to say of it."""
        row, notes = self._past_the_gap(row, until)
        while most > 0 and self._has_time():
            self.context.check()
            batch = self._read(row, until, min(most, OF_A_BATCH))
            failure = self._send(row, batch)
            if failure is not None:
                return [*notes, f"{row.channel}: {failure}"]
            if batch.scanned >= until:
                break
            most -= batch.read
            untold = 0 if batch.ids else row.lost_untold
            row = replace(row, position=batch.scanned, tries=0, lost_untold=untold)
        return notes

    def _has_time(self) -> bool:
        return self.context.monotonic() - self.context.started < _USE_OF_BUDGET * self.context.budget_s

    def _past_the_gap(self, row: StreamRow, until: int) -> tuple[StreamRow, list[str]]:
        """Where to go on, and what was cleared away before it was sent."""
        with self.context.database.read_snapshot() as connection:
            oldest = stream_rows.oldest(connection)
        first = until + 1 if oldest is None else oldest
        # a decision that was sent is older than all that were not: while one is stored, none of these is gone
        lost = first - row.position - 1
        if lost <= 0:
            return row, []
        with self.context.writing() as connection:
            stream_rows.lose(connection, row.channel, first - 1, lost, self.context.now)
        self.counts["decisions_lost"] += lost
        note = f"{row.channel}: at most {lost} decisions were cleared away before they were sent"
        return replace(row, position=first - 1, lost_untold=row.lost_untold + lost), [note]

    def _read(self, row: StreamRow, until: int, most: int) -> _Batch:
        with self.context.database.read_snapshot() as connection:
            found = stream_rows.decisions_between(connection, row.position, until, most)
            verdicts = [self.wanted.wants(one.record) for one in found]
            chosen = [as_made(one) for one, wanted in zip(found, verdicts, strict=True) if wanted]
            texts = self.publisher.bodies()(connection, chosen) if chosen else []
        messages = [_message(one, text) for one, text in zip(chosen, texts, strict=True)]
        if messages and row.lost_untold:
            first = messages[0]
            messages[0] = replace(first, headers={**first.headers, LOST_HEADER: str(row.lost_untold)})
        scanned = until if len(found) < most else found[-1].id
        return _Batch([one.id for one in chosen], messages, verdicts.count(None), scanned, len(found))

    def _send(self, row: StreamRow, batch: _Batch) -> str | None:
        """Send a batch, and keep how far that came; why it failed, None: it did not."""
        context, done = self.context, Published(0)
        if batch.messages:
            pause = pause_s(row.tries, self.settings.first_pause_s, self.settings.longest_pause_s)
            with context.writing() as connection:
                if not stream_rows.trying(connection, row, context.now + timedelta(seconds=pause)):
                    return "somebody else has sent them"
            fault_points.reach("before_delivery")
            done = self.publisher.publish(self.channel, batch.messages)
            fault_points.reach("after_delivery")
        self.counts["decisions_sent"] += done.confirmed
        with context.writing() as connection:
            if done.failure is None:
                stream_rows.got_through(
                    connection, row.channel, batch.scanned, context.now, done.confirmed, batch.unknown
                )
                return None
            position = confirmed_position(batch.ids, done.confirmed, batch.scanned)
            at = row.position if position is None else position
            stream_rows.failed(connection, row.channel, at, context.now, done.confirmed, str(done.failure))
        self.counts["failed"] += 1
        return str(done.failure)


def as_made(stored: StoredDecision) -> StoredDecision:
    """A decision as it was when it was made, whatever cycles saw it again: each try sends the same."""
    return replace(stored, seen_again=0, last_seen_at=None, last_agent_run=None)


def _message(stored: StoredDecision, body: bytes) -> Outgoing:
    number = f"decision.{stored.id}"
    return Outgoing(number, {DELIVERY_HEADER: number, DECISION_HEADER: str(stored.id)}, body)


def bodies() -> Bodies:
    """What makes the bodies of messages, as the installed features register it."""
    module, _, name = feature.decision_bodies().partition(":")
    found: Bodies = getattr(importlib.import_module(module), name)
    return found
