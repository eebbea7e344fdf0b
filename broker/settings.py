"""Settings of one process: from the environment, or from the options of a command."""

from __future__ import annotations

from pathlib import Path

import platformdirs
from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from broker.errors import WRONG_USAGE, BrokerError


class BadSetting(BrokerError):
    """A variable of the environment that cannot be used."""

    exit_status = WRONG_USAGE


class Settings(BaseSettings):
    """Variables named ``BROKER_<FIELD>``.

    Attributes:
        database_url: the database; None for the embedded one in ``home``.
        home: folder of the embedded database (default: the platform's user data folder).
        panda_schema: schema of PanDA's tables; None for the one that the database was installed with.
        meta_schema: schema of PanDA's ``sitedata``; None likewise.
    """

    model_config = SettingsConfigDict(env_prefix="BROKER_", env_ignore_empty=True, frozen=True)

    database_url: str | None = None
    home: Path = Field(default_factory=lambda: Path(platformdirs.user_data_dir("gridbroker", appauthor=False)))
    panda_schema: str | None = None
    meta_schema: str | None = None


def read_settings(database_url: str | None = None) -> Settings:
    """The settings of this process.

    Args:
        database_url: takes precedence over the environment.

    Raises:
        BadSetting: a variable has a value of the wrong kind.
    """
    try:
        settings = Settings()
    except ValidationError as error:
        first = error.errors()[0]
        name = "BROKER_" + "_".join(str(part) for part in first["loc"]).upper()
        raise BadSetting(f"{name}: {first['msg']}", "the environment", "correct or unset the variable") from error
    return settings.model_copy(update={"database_url": database_url}) if database_url else settings
