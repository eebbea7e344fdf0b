"""``config/notifications.yaml`` as typed values."""

from __future__ import annotations

from pathlib import Path

import yaml
from pydantic import ValidationError

from agents.service.configuration import ConfigurationError, config_file
from broker.notifications.model.rules import NotificationSettings
from broker.wrong_values import what_is_wrong
from broker.yaml_text import read_yaml

FILE = "notifications.yaml"


def load_settings(folder: Path | None) -> NotificationSettings:
    """The settings: of the file in ``folder`` if it is there, else the shipped ones, which send nothing.

    Raises:
        ConfigurationError: it has unknown names or wrong values, each named, or cannot be read.
    """
    path = config_file(FILE, folder)
    remedy = "correct it; docs/how-to/get-notified.md describes all settings"
    try:
        return NotificationSettings.model_validate(read_yaml(path.read_text(encoding="utf-8")) or {})
    except ValidationError as error:
        raise ConfigurationError(what_is_wrong(error), str(path), remedy) from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigurationError(str(error), str(path), remedy) from error
