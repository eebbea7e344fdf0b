"""Settings of one process: from the environment, or from the options of a command."""

from __future__ import annotations

from pathlib import Path

import platformdirs
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """Variables named ``BROKER_<FIELD>``.

    Attributes:
        database_url: the database; None for the embedded one in ``home``.
        config: folder with configuration files of your own; those that are not in it are the shipped ones.
        home: folder of the embedded database (default: the platform's user data folder).
        panda_schema: schema of PanDA's tables; None for the one that the database was installed with.
        meta_schema: schema of PanDA's ``sitedata``; None likewise.
    """

    model_config = SettingsConfigDict(env_prefix="BROKER_", env_ignore_empty=True, frozen=True)

    database_url: str | None = Field(default=None, repr=False)
    config: Path | None = None
    home: Path = Field(default_factory=lambda: Path(platformdirs.user_data_dir("gridbroker", appauthor=False)))
    panda_schema: str | None = None
    meta_schema: str | None = None


def read_settings(database_url: str | None = None) -> Settings:
    """The settings of this process.

    Args:
        database_url: takes precedence over the environment.
    """
    settings = Settings()
    return settings.model_copy(update={"database_url": database_url}) if database_url else settings
