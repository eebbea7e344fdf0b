"""What ``broker doctor`` says of notifications."""

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
    """Findings of the doctor: no channels, secrets that cannot be read, channels that fail."""
    try:
        settings = load_settings(folder)
    except ConfigurationError as error:
        return [Finding(TOPIC, "problem", f"no notification is sent: {error.what}", error.remedy)]
    if not settings.channels:
        remedy = "name channels and rules in notifications.yaml, see docs/how-to/get-notified.md"
        return [Finding(TOPIC, "note", "no notification of alarms is sent: there are no channels", remedy)]
    with database.read_snapshot() as connection:
        standing = outbox_rows.standing(connection, now)
        streams = stream_rows.standing(connection)
    found = unreadable_secrets(settings)
    found += [
        Finding(TOPIC, "problem", f"messages by {one.channel} do not get through, {one.tries} tries: {one.detail}",
                f"see broker notify history --channel {one.channel}; try broker notify test {one.channel}")
        for one in standing if fails(one)
    ]  # fmt: skip
    found += [one for stream in streams for one in _of_stream(stream, now)]
    waiting, delivered = sum(one.waiting for one in standing), sum(one.delivered for one in standing)
    what = f"{len(settings.channels)} channels, {len(settings.rules)} rules: {delivered} messages in a day"
    found.append(Finding(TOPIC, "ok", f"{what}, {waiting} wait"))
    return found


def _of_stream(one: StreamLine, now: datetime) -> Iterator[Finding]:
    remedy = f"see broker notify decisions; try broker notify test {one.channel}"
    if one.tries >= FAILING_FROM:
        what = f"decisions by {one.channel} do not get through, {one.tries} tries: {one.detail}"
        yield Finding(TOPIC, "problem", what, remedy)
    if lost_lately(one, now):
        what = f"at most {one.lost} decisions were cleared away before {one.channel} had sent them"
        yield Finding(TOPIC, "problem", what, "keep decisions for longer (decisions_days), or see why it was behind")


def unreadable_secrets(settings: NotificationSettings) -> list[Finding]:
    """The files of secrets that this account cannot read."""
    found = []
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
                what = f"channel {name}: {file} cannot be read: {error.strerror}"
                found.append(Finding(TOPIC, "problem", what, "see whose it is"))
    return found
