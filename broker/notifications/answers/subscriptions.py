"""Subscriptions to tasks: who is notified when a task ends or is no longer brokered."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from agents.notifications.settings_file import load_settings
from agents.service.configuration import ConfigurationError
from broker.domain.task_states import NO_LONGER_BROKERED
from broker.errors import WRONG_USAGE, BrokerError, Refused
from broker.notifications.model.channels import MailAddress
from broker.notifications.model.rules import NotificationSettings, fits_domain
from broker.notifications.statements import subscription_rows
from broker.redaction import HIDDEN
from broker.store.connection.database import Database
from broker.store.query_context import NothingFound, QueryContext, ResponseModel

_ADDRESS: TypeAdapter[str] = TypeAdapter(MailAddress)


class NoSuchTarget(BrokerError):
    """No message can be sent there."""

    exit_status = WRONG_USAGE


class NotYourTask(Refused):
    """The task belongs to another user."""


class NotSubscribable(Refused):
    """The task has ended, or has too many subscriptions."""


@dataclass(frozen=True)
class Subscriber:
    """A person who subscribes.

    Attributes:
        name: name for the audit.
        username: name of the PanDA user; None if unknown.
        may_all: whether they may subscribe to the tasks of others.
    """

    name: str
    username: str | None = None
    may_all: bool = True


class SubscriptionLine(ResponseModel):
    """A subscription to a task.

    Attributes:
        to: channel, or address of a person.
        told_waits_at: time of the message that work waits; null if not sent yet.
        ended_at: end of the subscription; null if it is active.
        ended_because: reason for the end.
    """

    jeditaskid: int
    to: str
    subscribed_at: datetime
    subscribed_by: str
    told_waits_at: datetime | None
    ended_at: datetime | None
    ended_because: str | None


class TaskSubscriptions(ResponseModel):
    """All subscriptions to a task, oldest first."""

    jeditaskid: int
    subscriptions: tuple[SubscriptionLine, ...]


def target_of(to: str, settings: NotificationSettings) -> tuple[str, str]:
    """Return the channel that ``to`` names and, for a person, the address.

    Raises:
        NoSuchTarget: ``to`` is neither a channel nor an address for subscribers.
    """
    terms = settings.subscriptions
    if to in terms.channels:
        return to, ""
    if "@" not in to:
        channel_names = ", ".join(terms.channels) or "none"
        raise NoSuchTarget(f"no channel for subscribers is called {to[:64]!r}", "--to", f"there are {channel_names}")
    if terms.mail is None:
        raise NoSuchTarget("no mail is sent to subscribers", "--to", "operators: set subscriptions.mail")
    try:
        address = _ADDRESS.validate_python(to)
    except ValidationError:
        raise NoSuchTarget(f"{to[:64]!r} is no mail address", "--to", "write it as ann@example.org") from None
    if not fits_domain(address, terms.domains):
        domains = ", ".join(terms.domains)
        raise NoSuchTarget("mail is not sent to that domain", "--to", f"subscribers may have addresses of {domains}")
    return terms.mail, address


class SubscriptionTargets(ResponseModel):
    """Available targets of a subscription.

    Attributes:
        channels: channels open to subscribers.
        mail: whether mail can be sent to addresses.
        domains: allowed domains of addresses; empty: any.
    """

    channels: tuple[str, ...]
    mail: bool
    domains: tuple[str, ...]


def offered(folder: Path | None) -> SubscriptionTargets | None:
    """Return the possible targets of subscriptions; None if ``notifications.yaml`` is unusable (``broker doctor``)."""
    try:
        terms = load_settings(folder).subscriptions
    except ConfigurationError:
        return None
    return SubscriptionTargets(channels=terms.channels, mail=terms.mail is not None, domains=terms.domains)


def _refuse_others(by: Subscriber, task: int, owner: str | None) -> None:
    if not by.may_all and (by.username is None or by.username != owner):
        raise NotYourTask(f"task {task} is not yours", "jedi_tasks", "ask its owner, or an operator")


def subscribe(
    database: Database, folder: Path | None, task: int, to: str, by: Subscriber, now: datetime
) -> TaskSubscriptions:  # fmt: skip
    """Subscribe an address or channel to a task: one message when its work waits too long, one when it ends.

    Raises:
        ConfigurationError: ``notifications.yaml`` cannot be used.
        NoSuchTarget: no message can be sent there.
        NothingFound: there is no such task.
        NotYourTask: the task belongs to another user.
        NotSubscribable: the task has ended, or has too many subscriptions.
    """
    settings = load_settings(folder)
    channel, address = target_of(to, settings)
    with database.begin() as connection:
        state = subscription_rows.task_state(connection, database.names, task)
        if state is None:
            raise NothingFound("task", task, "jedi_tasks")
        status, username = state
        _refuse_others(by, task, username)
        if status in NO_LONGER_BROKERED:
            raise NotSubscribable(f"task {task} has ended: {status}", "jedi_tasks", "see broker history")
        if subscription_rows.count_open(connection, task) >= settings.subscriptions.most_of_a_task:
            raise NotSubscribable(f"task {task} has too many subscriptions", "", "end one with broker task unsubscribe")
        subscription_rows.add(connection, task, channel, address, by.name, now)
        return _lines(task, subscription_rows.read(connection, task), with_addresses=True)


def unsubscribe(
    database: Database, folder: Path | None, task: int, to: str, by: Subscriber, now: datetime
) -> TaskSubscriptions:  # fmt: skip
    """End a subscription.

    Raises:
        ConfigurationError: ``notifications.yaml`` cannot be used.
        NoSuchTarget: no message can be sent there.
        NothingFound: there is no such subscription.
        NotYourTask: its task belongs to another user.
    """
    channel, address = target_of(to, load_settings(folder))
    with database.begin() as connection:
        state = subscription_rows.task_state(connection, database.names, task)
        _refuse_others(by, task, None if state is None else state[1])
        if not subscription_rows.end(connection, task, channel, address, f"ended by {by.name}", now):
            raise NothingFound("subscription", f"of task {task} to {to}", "broker.task_subscriptions")
        return _lines(task, subscription_rows.read(connection, task), with_addresses=True)


def subscriptions_of(query: QueryContext, task: int, *, with_addresses: bool = True) -> TaskSubscriptions:
    """Return all subscriptions to a task; people's addresses are ``***`` unless permitted."""
    return _lines(task, subscription_rows.read(query.connection, task), with_addresses)


def _lines(task: int, rows: Iterable[dict[str, Any]], with_addresses: bool) -> TaskSubscriptions:
    lines = []
    for row in rows:
        channel, address = row.pop("channel"), row.pop("address")
        to = (address if with_addresses else HIDDEN) if address else channel
        if not with_addresses:
            row["subscribed_by"] = HIDDEN
        lines.append(SubscriptionLine(to=to, **row))
    return TaskSubscriptions(jeditaskid=task, subscriptions=tuple(lines))
