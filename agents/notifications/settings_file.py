"""``config/notifications.yaml`` as typed values."""

from __future__ import annotations

from pathlib import Path

from agents.service.configuration import config_file, read_file
from broker.notifications.model.rules import NotificationSettings

FILE = "notifications.yaml"


def load_settings(folder: Path | None) -> NotificationSettings:
    """The settings: of the file in ``folder`` if it is there, else the shipped ones, which send nothing.

    Raises:
        ConfigurationError: it has unknown names or wrong values, each named, or cannot be read.
    """
    remedy = "correct it; docs/how-to/get-notified.md describes all settings"
    return read_file(config_file(FILE, folder), NotificationSettings, remedy)
