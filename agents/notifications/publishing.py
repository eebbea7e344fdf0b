"""Publishing of stored decisions to message brokers: in order, in bounded batches, at least once each.

The position of a channel is a row, moved under the lease once receipts have arrived. A process that dies before moving
it sends the same messages again, under the same numbers.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import sqlalchemy as sa

from agents.notifications.delivering import publish_decisions
from agents.notifications.stomp_delivering import Outgoing, PublishResult
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
"""Decisions that are read, sent over one connection and acknowledged together."""
_USE_OF_BUDGET = 0.6
"""Part of the cycle's time after which no further batch is begun."""
Bodies = Callable[[sa.Connection, Sequence[StoredDecision]], list[bytes]]
Publish = Callable[[StompChannel, Sequence[Outgoing]], PublishResult]


@dataclass(frozen=True)
class _Batch:
    """Decisions that were read: those to send, how many a filter could not judge, and the position read up to."""

    ids: Sequence[int]
    messages: Sequence[Outgoing]
    unknown: int
    scanned: int
    read: int


class DecisionPublisher:
    """Publishes the decisions of every channel configured for them; kept from cycle to cycle."""

    def __init__(self) -> None:
        """Start without knowledge of open transactions."""
        self.publish: Publish = publish_decisions
        self.bodies: Callable[[], Bodies] = bodies
        self._before: Numbered | None = None

    def run(self, context: CycleContext, settings: NotificationSettings, most: int, counts: Counter[str]) -> list[str]:
        """Send what is due, at most ``most`` decisions a channel; return remarks for the report."""
        publishing = {
            name: (channel, channel.decisions)
            for name, channel in settings.channels.items()
            if isinstance(channel, StompChannel) and channel.decisions is not None
        }
        with context.database.read_snapshot() as connection:
            rows = stream_rows.read(connection)
            now = stream_rows.numbered(connection) if publishing else Numbered(0, frozenset())
        notes = self._begin_and_end(
            context, publishing.keys() - rows.keys(), rows.keys() - publishing.keys(), publishing, now
        )
        until = self._readable(now) if publishing else None
        for name, (channel, decisions) in publishing.items():
            row = rows.get(name)
            if until is None or row is None or until < row.position:
                continue
            if row.not_before is not None and row.not_before > context.now:
                counts["held_back"] += 1
                continue
            notes += _Stream(self, context, settings, channel, decisions, counts).send(row, until, most)
        return notes

    def _begin_and_end(
        self, context: CycleContext, started: Sequence[str] | set[str], ended: set[str], channels: Mapping[str, object],
        now: Numbered,
    ) -> list[str]:  # fmt: skip
        if not started and not ended:
            return []
        with context.writing() as connection:
            for name in started:
                stream_rows.start(connection, name, now.last, context.now)
            stream_rows.forget(connection, channels)
        notes = [f"{name}: decisions are published from now on, none of before" for name in sorted(started)]
        return notes + [f"{name}: publishes no decisions any more" for name in sorted(ended)]

    def _readable(self, now: Numbered) -> int | None:
        """Return the number up to which every decision can be read, those to come too; None: unknown in this cycle."""
        until, self._before = readable(self._before, now)
        return until


def readable(before: Numbered | None, now: Numbered) -> tuple[int | None, Numbered | None]:
    """Return the number up to which all decisions are visible from now on, and what to compare next time. Pure.

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
        """Send the decisions from ``row`` up to ``until``; return remarks for the report."""
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
        """Return where to continue, with a remark on decisions that were removed before they were sent."""
        with self.context.database.read_snapshot() as connection:
            oldest = stream_rows.oldest(connection)
        first = until + 1 if oldest is None else oldest
        # a sent decision is older than all unsent ones: while one is stored, none of the unsent ones is gone
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
            stored = stream_rows.decisions_between(connection, row.position, until, most)
            verdicts = [self.wanted.wants(decision.record) for decision in stored]
            decisions = [without_repeats(decision) for decision, wanted in zip(stored, verdicts, strict=True) if wanted]
            texts = self.publisher.bodies()(connection, decisions) if decisions else []
        messages = [_message(decision, text) for decision, text in zip(decisions, texts, strict=True)]
        if messages and row.lost_untold:
            first = messages[0]
            messages[0] = replace(first, headers={**first.headers, LOST_HEADER: str(row.lost_untold)})
        scanned = until if len(stored) < most else stored[-1].id
        return _Batch([decision.id for decision in decisions], messages, verdicts.count(None), scanned, len(stored))

    def _send(self, row: StreamRow, batch: _Batch) -> str | None:
        """Send a batch and store the position reached; return why it failed, None on success."""
        context, done = self.context, PublishResult(0)
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


def without_repeats(stored: StoredDecision) -> StoredDecision:
    """Return a decision as first made, without the cycles that saw it again: each attempt sends the same body."""
    return replace(stored, seen_again=0, last_seen_at=None, last_agent_run=None)


def _message(stored: StoredDecision, body: bytes) -> Outgoing:
    number = f"decision.{stored.id}"
    return Outgoing(number, {DELIVERY_HEADER: number, DECISION_HEADER: str(stored.id)}, body)


def bodies() -> Bodies:
    """Return the function that makes message bodies, as registered by the installed features."""
    module, _, name = feature.decision_bodies().partition(":")
    make: Bodies = getattr(importlib.import_module(module), name)
    return make
