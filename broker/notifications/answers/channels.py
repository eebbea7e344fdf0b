"""Channels and rules in force, without secrets; a test message through one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from uuid import uuid4

from agents.notifications.delivering import deliver
from agents.notifications.settings_file import load_settings
from broker.notifications.model.channels import AnyChannel, MailChannel, StompChannel
from broker.notifications.model.messages import Message
from broker.notifications.model.rules import NotificationRule
from broker.store.query_context import Answer, known_name

Deliver = Callable[[AnyChannel, Message, datetime, str], str]


class ChannelLine(Answer):
    """A channel: its name, kind, and where it leads, without secrets; ``decisions``: which it publishes, in words."""

    channel: str
    kind: str
    where: str
    rules: tuple[str, ...]
    takes_subscribers: bool
    decisions: str | None


class RuleInWords(Answer):
    """A rule in words."""

    rule: str
    tells: str
    to: tuple[str, ...]
    quiet: str | None


class Notifying(Answer):
    """Channels and rules in force."""

    channels: tuple[ChannelLine, ...]
    rules: tuple[RuleInWords, ...]


class Tested(Answer):
    """A test message, and what the other side answered."""

    channel: str
    incident: str
    answer: str


def notifying(folder: Path | None) -> Notifying:
    """The channels and rules of ``notifications.yaml``.

    Raises:
        ConfigurationError: the file cannot be used.
    """
    settings = load_settings(folder)
    asked = settings.subscriptions
    lines = tuple(
        ChannelLine(
            channel=name, kind=channel.kind, where=channel.where,
            rules=tuple(rule.name for rule in settings.rules if name in rule.to),
            takes_subscribers=name in asked.channels or name == asked.mail, decisions=_published(channel),
        )
        for name, channel in settings.channels.items()
    )  # fmt: skip
    return Notifying(channels=lines, rules=tuple(_in_words(rule) for rule in settings.rules))


def _published(channel: AnyChannel) -> str | None:
    wanted = channel.decisions if isinstance(channel, StompChannel) else None
    return None if wanted is None else wanted.in_words


def _in_words(rule: NotificationRule) -> RuleInWords:
    parts = []
    if rule.alarms:
        about = "" if rule.about == ("*",) else f" about {', '.join(rule.about)}"
        parts.append(f"alarms {', '.join(rule.alarms)}{about}, {rule.severity} or graver")
    if rule.reasons:
        parts.append(f"reasons {', '.join(rule.reasons)} of at least {rule.tasks} tasks")
    lasts = f", after {rule.lasts_min:g} min" if rule.lasts_min else ""
    quiet = None
    if rule.quiet is not None:
        one = rule.quiet
        quiet = f"{one.start:%H:%M} to {one.end:%H:%M} {one.zone}, {'-'.join((one.days[0], one.days[-1]))}"
        quiet += f", but {one.except_from} at once" if one.except_from else ""
    end = "" if rule.resolved else ", not the end"
    return RuleInWords(rule=rule.name, tells="; ".join(parts) + lasts + end, to=rule.to, quiet=quiet)


def send_test(
    folder: Path | None, name: str, now: datetime, address: str = "", *, deliver: Deliver = deliver
) -> Tested:  # fmt: skip
    """Send a test message now, past the outbox.

    Args:
        folder: with ``notifications.yaml``.
        name: of the channel.
        now: the time on this host (aware).
        address: of a person, for a mail channel; empty: those of the channel.
        deliver: sends it.

    Raises:
        ConfigurationError: the file cannot be used.
        NothingFound: there is no such channel.
        NotDelivered: it did not get through.
    """
    settings = load_settings(folder)
    channel = settings.channels[known_name("channel", name, settings.channels, "notifications.yaml")]
    message = Message(
        str(_number()), "test", "test", "test", name, "info",
        "this is a test of the notifications of the broker: nothing is wrong", now, None, "test", settings.page,
    )  # fmt: skip
    to = address if isinstance(channel, MailChannel) else ""
    return Tested(channel=name, incident=message.incident, answer=deliver(channel, message, now, to))


_number = uuid4
