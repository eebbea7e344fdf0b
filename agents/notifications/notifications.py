"""The agent that sends notifications by the rules of ``config/notifications.yaml`` and to the subscribers of tasks.

Incidents and messages are rows (an outbox), written under the lease. An attempt is recorded before it is made: a
process that dies before it can record a delivery tries again, under the same number.
"""

from __future__ import annotations

import importlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import sqlalchemy as sa
from pydantic import Field

from agents.notifications.delivering import NotDelivered, deliver
from agents.notifications.publishing import DecisionPublisher
from agents.notifications.settings_file import load_settings
from agents.service import fault_points
from agents.service.base import Agent, AgentOptions, CycleContext, CycleReport
from agents.service.configuration import ProcessSettings
from broker import feature
from broker.domain.incident import GRAVITY, Incident
from broker.domain.task_states import NO_LONGER_BROKERED
from broker.notifications.model.backoff import pause_s
from broker.notifications.model.channels import AnyChannel
from broker.notifications.model.messages import Message
from broker.notifications.model.rules import NotificationSettings, Subscriptions
from broker.notifications.statements import incident_rows, outbox_rows
from broker.notifications.statements.incident_rows import PlannedMessage, SubscribedTask
from broker.notifications.statements.outbox_rows import OutboxRow
from broker.store.connection.tables import Names
from broker.store.query_context import QueryContext

RULE = "subscription"


def tell_subscribers(connection: sa.Connection, names: Names, terms: Subscriptions, now: datetime, most: int) -> int:
    """Plan the messages to subscribers and return how many there are."""
    by_task: defaultdict[int, list[SubscribedTask]] = defaultdict(list)
    for subscribed in incident_rows.read_subscribed(connection, names, now, most):
        by_task[subscribed.jeditaskid].append(subscribed)
    planned = 0
    for task, all_of_it in by_task.items():
        state = all_of_it[0]
        news = what_to_tell(state, terms, now)
        if news is None:
            continue
        code, sentence = news
        due = [subscribed for subscribed in all_of_it if code != "task_waits" or subscribed.told_waits_at is None]
        if not due:
            continue
        number = incident_rows.note_task(connection, code, task, sentence, now)
        messages = [
            PlannedMessage(number, "opened", subscribed.channel, RULE, now, subscribed.address) for subscribed in due
        ]
        planned += incident_rows.plan(connection, messages, now)
        ids = [subscribed.id for subscribed in due]
        if code == "task_waits":
            incident_rows.note_wait_message(connection, ids, now)
        else:
            incident_rows.end_subscriptions(connection, ids, sentence, now)
    return planned


def what_to_tell(one: SubscribedTask, terms: Subscriptions, now: datetime) -> tuple[str, str] | None:
    """Return the code and a sentence for what has become of a task; None if it is not worth a message. Pure."""
    called = f"task {one.jeditaskid}" + (f" ({one.name})" if one.name else "")
    if one.status is None:
        return "task_gone", f"{called} is gone from the database"
    if one.status in NO_LONGER_BROKERED:
        why = f": {one.dialog}" if one.dialog else ""
        return "task_ended", f"{called} has ended: {one.status}{why}"
    if one.waits_since is not None and now - one.waits_since >= timedelta(minutes=terms.waits_min):
        hours = (now - one.waits_since).total_seconds() / 3600.0
        return "task_waits", f"{called} has work that waits for {hours:.1f} h: {one.waits_for or 'no reason is known'}"
    return None


_HOUR = timedelta(hours=1)
Deliver = Callable[[AnyChannel, Message, datetime, str], str]
Reader = Callable[[QueryContext], Iterable[Incident]]


class NotificationsOptions(AgentOptions):
    """Options of the agent.

    Attributes:
        messages_of_a_cycle: messages sent; others wait for the next one.
        incidents_of_a_cycle: incidents kept open, most severe first; others follow when there are fewer.
        decisions_of_a_cycle: decisions that a channel publishes; others wait for the next one.
    """

    messages_of_a_cycle: int = Field(default=200, ge=1)
    incidents_of_a_cycle: int = Field(default=500, ge=1)
    decisions_of_a_cycle: int = Field(default=5000, ge=1)


class NotificationsAgent(Agent[NotificationsOptions]):
    """Opens and closes incidents, plans messages about them, sends what is due, and publishes decisions."""

    name = "notifications"
    title = "notifications: sends incidents by mail, webhook and chat, and decisions by STOMP, at least once each"
    options_type = NotificationsOptions
    is_feed = True

    def __init__(self, options: NotificationsOptions, process: ProcessSettings) -> None:
        """Start without any settings read."""
        super().__init__(options, process)
        self.settings: Callable[[Path | None], NotificationSettings] = load_settings
        self.deliver: Deliver = deliver
        self.publisher = DecisionPublisher()
        self.readers: Callable[[], Iterable[Reader]] = readers
        self.clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    def cycle(self, context: CycleContext) -> CycleReport:
        """Read the open incidents, plan their messages, and send those that are due.

        Raises:
            ConfigurationError: the settings cannot be used; the messages in the outbox wait.
        """
        settings = self.settings(self.process.folder)
        incidents = self._open_incidents(context) if settings.rules else []
        context.check()
        counts = Counter(incidents=len(incidents), planned=0, delivered=0, failed=0, dropped=0, given_up=0, held_back=0)
        if not context.writes:
            return CycleReport(dict(counts), notes=("a dry run sends nothing",))
        with context.writing() as connection:
            counts["planned"] += self._plan(connection, settings, incidents, context.now)
            names, most = context.database.names, self.options.incidents_of_a_cycle
            counts["planned"] += tell_subscribers(connection, names, settings.subscriptions, context.now, most)
            fault_points.reach("after_write_before_commit")
        notes = self._send(context, settings, counts)
        notes += self.publisher.run(context, settings, self.options.decisions_of_a_cycle, counts)
        return CycleReport(dict(counts), notes=tuple(notes))

    def _open_incidents(self, context: CycleContext) -> list[Incident]:
        with context.database.read_snapshot() as connection:
            query = QueryContext(connection, context.database.names, context.now, self.process.folder)
            return [incident for reader in self.readers() for incident in reader(query)]

    def _plan(
        self, connection: sa.Connection, settings: NotificationSettings, incidents: list[Incident], now: datetime
    ) -> int:
        """Open, keep and close incidents, and plan the resulting messages."""
        matches = {
            (incident.kind, incident.code, incident.about): incident
            for rule in settings.rules
            for incident in rule.asks_for(incidents)
        }
        gravest = sorted(matches.values(), key=lambda incident: GRAVITY[incident.severity])[
            : self.options.incidents_of_a_cycle
        ]
        numbers = {
            (incident.kind, incident.code, incident.about): incident_rows.see(connection, incident, now)
            for incident in gravest
        }
        messages = []
        for rule in settings.rules:
            for incident in rule.asks_for(incidents):
                number, began_at = numbers.get((incident.kind, incident.code, incident.about), (None, now))
                if number is None or not rule.lasts_enough(began_at, now):
                    continue
                earliest = rule.not_before(now, incident.severity)
                # a channel does not report its own failure
                to = [name for name in rule.to if (incident.code, incident.about) != ("notifications_failing", name)]
                messages += [PlannedMessage(number, "opened", name, rule.name, earliest) for name in to]
        rules = {rule.name: rule for rule in settings.rules}
        for over in incident_rows.resolve(connection, now, timedelta(minutes=settings.settle_min)):
            for channel, address, name in over.recipients:
                if name in rules and rules[name].resolved:
                    earliest = rules[name].not_before(now, over.severity)
                    messages.append(PlannedMessage(over.incident, "resolved", channel, name, earliest, address))
        return incident_rows.plan(connection, messages, now)

    def _send(self, context: CycleContext, settings: NotificationSettings, counts: Counter[str]) -> list[str]:
        """Send the messages that are due; a channel that fails is skipped until the next cycle."""
        with context.database.read_snapshot() as connection:
            rows = outbox_rows.due(connection, context.now, self.options.messages_of_a_cycle)
            sent_this_hour = Counter(outbox_rows.delivered_since(connection, context.now - _HOUR))
        ill: dict[str, str] = {}
        for row in rows:
            context.check()
            channel = settings.channels.get(row.channel)
            if channel is None:
                self._note(context, row, "dropped", f"there is no channel {row.channel} any more")
                counts["dropped"] += 1
            elif row.channel in ill or sent_this_hour[row.channel] >= channel.most_per_hour:
                counts["held_back"] += 1
            else:
                failure = self._try(context, settings, channel, row, counts)
                sent_this_hour[row.channel] += failure is None
                if failure is not None:
                    ill[row.channel] = failure
        return [f"{channel}: {failure}" for channel, failure in ill.items()]

    def _try(
        self, context: CycleContext, settings: NotificationSettings, channel: AnyChannel, row: OutboxRow,
        counts: Counter[str],
    ) -> str | None:  # fmt: skip
        """Send one message; return why it failed, None on success."""
        pause = pause_s(row.tries, settings.first_pause_s, settings.longest_pause_s)
        with context.writing() as connection:
            if not outbox_rows.trying(connection, row, context.now + timedelta(seconds=pause)):
                return None
        fault_points.reach("before_delivery")
        try:
            answer = self.deliver(channel, message_of(row, settings.page), self.clock(), row.address)
        except NotDelivered as error:
            is_last = context.now - row.planned_at > timedelta(hours=settings.give_up_h)
            self._note(context, row, "given_up" if is_last else "waiting", str(error))
            counts["given_up" if is_last else "failed"] += 1
            return str(error)
        fault_points.reach("after_delivery")
        self._note(context, row, "delivered", answer)
        counts["delivered"] += 1
        return None

    def _note(self, context: CycleContext, row: OutboxRow, state: str, detail: str) -> None:
        with context.writing() as connection:
            outbox_rows.note(connection, row.id, state, context.now, detail)


def message_of(row: OutboxRow, page: str) -> Message:
    """Return the message for an outbox row; ``page`` is the base address of its link."""
    is_over, of = row.event == "resolved", row.of
    return Message(
        str(of.number), "resolved" if is_over else "opened", of.kind, of.code, of.about, of.severity, of.sentence,
        of.began_at, of.resolved_at if is_over else None, row.rule, f"{page}{of.page}" if page else "",
    )  # fmt: skip


def readers() -> Iterator[Reader]:
    """Return the functions that list open incidents, as registered by the installed features."""
    for target in feature.incidents():
        module, _, name = target.partition(":")
        yield getattr(importlib.import_module(module), name)
