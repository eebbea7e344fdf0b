"""Settings of one process: from the environment, or from the options of a command."""

from __future__ import annotations

from pathlib import Path

import platformdirs
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from broker.password_file import with_password


class Settings(BaseSettings):
    """Variables named ``BROKER_<FIELD>``.

    Attributes:
        database_url: the database; None for the embedded one in ``home``.
        database_password_file: has the password for ``database_url``, as containers are given secrets.
        config: folder with configuration files of your own; those that are not in it are the shipped ones. Left out,
            it is ``config`` in ``home``, where ``broker init`` writes, if that is there.
        home: folder of the embedded database (default: the platform's user data folder).
        panda_schema: schema of PanDA's tables; None for the one that the database was installed with.
        meta_schema: schema of PanDA's ``sitedata``; None likewise.
    """

    model_config = SettingsConfigDict(env_prefix="BROKER_", env_ignore_empty=True, frozen=True)

    database_url: str | None = Field(default=None, repr=False)
    database_password_file: Path | None = None
    config: Path | None = None
    home: Path = Field(default_factory=lambda: Path(platformdirs.user_data_dir("gridbroker", appauthor=False)))
    panda_schema: str | None = None
    meta_schema: str | None = None

    @property
    def own_folder(self) -> Path:
        """Where ``broker init`` writes configuration files unless another folder is named."""
        return self.home / "config"


def read_settings(database_url: str | None = None) -> Settings:
    """The settings of this process.

    Args:
        database_url: takes precedence over the environment.

    Raises:
        Refused: the file with the password cannot be read, is empty, or the address has a password of its own.
    """
    settings = Settings()
    changes: dict[str, object] = {"database_url": database_url} if database_url else {}
    if url := database_url or settings.database_url:
        changes["database_url"] = with_password(url, settings.database_password_file)
    if settings.config is None and settings.own_folder.is_dir():
        changes["config"] = settings.own_folder
    return settings.model_copy(update=changes) if changes else settings
