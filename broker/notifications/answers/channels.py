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
from broker.store.query_context import ResponseModel, known_name

Deliver = Callable[[AnyChannel, Message, datetime, str], str]


class ChannelLine(ResponseModel):
    """A channel: name, kind and destination, without secrets; ``decisions``: those that it publishes, in words."""

    channel: str
    kind: str
    where: str
    rules: tuple[str, ...]
    takes_subscribers: bool
    decisions: str | None


class RuleInWords(ResponseModel):
    """A rule in words."""

    rule: str
    tells: str
    to: tuple[str, ...]
    quiet: str | None


class Notifying(ResponseModel):
    """Channels and rules in force."""

    channels: tuple[ChannelLine, ...]
    rules: tuple[RuleInWords, ...]


class Tested(ResponseModel):
    """A test message and the receiver's answer."""

    channel: str
    incident: str
    answer: str


def notifying(folder: Path | None) -> Notifying:
    """Return the channels and rules of ``notifications.yaml``.

    Raises:
        ConfigurationError: the file cannot be used.
    """
    settings = load_settings(folder)
    terms = settings.subscriptions
    lines = tuple(
        ChannelLine(
            channel=name, kind=channel.kind, where=channel.where,
            rules=tuple(rule.name for rule in settings.rules if name in rule.to),
            takes_subscribers=name in terms.channels or name == terms.mail, decisions=_published_words(channel),
        )
        for name, channel in settings.channels.items()
    )  # fmt: skip
    return Notifying(channels=lines, rules=tuple(_in_words(rule) for rule in settings.rules))


def _published_words(channel: AnyChannel) -> str | None:
    published = channel.decisions if isinstance(channel, StompChannel) else None
    return None if published is None else published.in_words


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
        span = rule.quiet
        quiet = f"{span.start:%H:%M} to {span.end:%H:%M} {span.zone}, {'-'.join((span.days[0], span.days[-1]))}"
        quiet += f", but {span.except_from} at once" if span.except_from else ""
    end = "" if rule.resolved else ", not the end"
    return RuleInWords(rule=rule.name, tells="; ".join(parts) + lasts + end, to=rule.to, quiet=quiet)


def send_test(
    folder: Path | None, name: str, now: datetime, address: str = "", *, deliver: Deliver = deliver
) -> Tested:  # fmt: skip
    """Send a test message now, bypassing the outbox.

    Args:
        folder: folder with ``notifications.yaml``.
        name: name of the channel.
        now: the time on this host (aware).
        address: address of a person, for a mail channel; if empty, the addresses of the channel.
        deliver: sends the message.

    Raises:
        ConfigurationError: the file cannot be used.
        NothingFound: there is no such channel.
        NotDelivered: the message did not get through.
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
