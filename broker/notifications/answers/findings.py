"""The findings of ``broker doctor`` about notifications."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from agents.notifications.settings_file import load_settings
from agents.service.configuration import ConfigurationError
from broker.notifications.answers.messages import FAILING_FROM, fails
from broker.notifications.answers.streams import lost_lately
from broker.notifications.model.channels import MailChannel, StompChannel, WebhookChannel
from broker.notifications.model.rules import NotificationSettings
from broker.notifications.statements import outbox_rows, stream_rows
from broker.notifications.statements.stream_rows import StreamLine
from broker.service.answers.doctor import Finding
from broker.store.connection.database import Database

TOPIC = "notifications"


def notification_findings(database: Database, folder: Path | None, now: datetime) -> list[Finding]:
    """Return the doctor's findings: no channels, unreadable secrets, failing channels."""
    try:
        settings = load_settings(folder)
    except ConfigurationError as error:
        return [Finding(TOPIC, "problem", f"no notification is sent: {error.what}", error.remedy)]
    if not settings.channels:
        remedy = "name channels and rules in notifications.yaml, see docs/how-to/get-notified.md"
        return [Finding(TOPIC, "note", "no notification of alarms is sent: there are no channels", remedy)]
    with database.read_snapshot() as connection:
        channels = outbox_rows.channel_states(connection, now)
        streams = stream_rows.stream_states(connection)
    findings = unreadable_secrets(settings)
    findings += [
        Finding(TOPIC, "problem",
                f"messages by {channel.channel} do not get through, {channel.tries} tries: {channel.detail}",
                f"see broker notify history --channel {channel.channel}; try broker notify test {channel.channel}")
        for channel in channels if fails(channel)
    ]  # fmt: skip
    findings += [finding for stream in streams for finding in _of_stream(stream, now)]
    waiting, delivered = sum(channel.waiting for channel in channels), sum(channel.delivered for channel in channels)
    summary = f"{len(settings.channels)} channels, {len(settings.rules)} rules: {delivered} messages in a day"
    findings.append(Finding(TOPIC, "ok", f"{summary}, {waiting} wait"))
    return findings


def _of_stream(stream: StreamLine, now: datetime) -> Iterator[Finding]:
    remedy = f"see broker notify decisions; try broker notify test {stream.channel}"
    if stream.tries >= FAILING_FROM:
        problem = f"decisions by {stream.channel} do not get through, {stream.tries} tries: {stream.detail}"
        yield Finding(TOPIC, "problem", problem, remedy)
    if lost_lately(stream, now):
        problem = f"at most {stream.lost} decisions were cleared away before {stream.channel} had sent them"
        yield Finding(TOPIC, "problem", problem, "keep decisions for longer (decisions_days), or see why it was behind")


def unreadable_secrets(settings: NotificationSettings) -> list[Finding]:
    """Return findings on the secret files that this account cannot read."""
    findings = []
    for name, channel in settings.channels.items():
        if isinstance(channel, MailChannel | StompChannel):
            file = channel.password_file
        else:
            file = channel.secret_file if isinstance(channel, WebhookChannel) else channel.address_file
        if file is not None:
            try:
                with file.open("rb") as stream:
                    stream.read(1)
            except OSError as error:
                problem = f"channel {name}: {file} cannot be read: {error.strerror}"
                findings.append(Finding(TOPIC, "problem", problem, "see whose it is"))
    return findings
