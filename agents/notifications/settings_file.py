"""Reads ``config/notifications.yaml``, the channels and rules of notifications, as typed values."""

from __future__ import annotations

from pathlib import Path

from agents.service.configuration import config_file, read_file
from broker.notifications.model.rules import NotificationSettings

FILE = "notifications.yaml"


def load_settings(folder: Path | None) -> NotificationSettings:
    """Load the settings: the file in ``folder`` if there is one, else the shipped file, which sends nothing.

    Raises:
        ConfigurationError: the file cannot be read, or has unknown names or wrong values, each named.
    """
    remedy = "correct it; docs/how-to/get-notified.md describes all settings"
    return read_file(config_file(FILE, folder), NotificationSettings, remedy)
