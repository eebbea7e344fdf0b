"""What an operator sets for the plug-in: section ``[gridbroker]`` of ``panda_jedi.cfg``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

SECTION = "gridbroker"


class PluginSettings(BaseModel):
    """The keys of the section; each may be left out.

    Attributes:
        database_url: address of the database with schema ``broker``; None for ``BROKER_DATABASE_URL``.
        database_url_file: file that holds the address, so that no password stands in the configuration.
        config: folder with gridbroker's configuration files; None for the shipped ones.
        profile: profile of rules under ``profiles/`` of that folder.
        timeout_s: longest wait for a decision before PanDA's own class is asked.
        refresh_s: age at which the snapshot of the grid is read anew, in the background.
        stale_s: age from which a snapshot is not used any more.
        retry_s: how long nothing is asked of a database that could not be reached, or took too long 3 times in a row.
        switch_s: how often the switch is read that ``broker plugin`` sets.
        calls_folder: of the files in which calls are counted where the database cannot be written; None for the data
            folder of the account that runs JEDI.
        threads: decisions made at the same time in one process.
        fallback: ``panda`` asks PanDA's own class, ``wait`` lets the task wait for its next turn.
        fallback_class: ``module:Class`` to fall back to; None for PanDA's class of the VO and label.
        record: whether decisions are kept in ``broker.decisions``, for explanations and shadow comparisons.
        mirror_every_s: in mode ``mirrored``, how often the tables of the grid and of live tasks are copied.
        mirror_work_every_s: how often what only shadow mode and cycles of the service read is copied; 0: never.
        oracle_dsn: ``host:port/service`` of PanDA's Oracle, to copy from there instead of through JEDI's task buffer.
        oracle_user: account there.
        oracle_password_file: file with its password.
        explanation_url: link for a task's error dialog, with ``{jeditaskid}`` in it; None for text only.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    database_url: str | None = None
    database_url_file: Path | None = None
    config: Path | None = None
    profile: str = Field(default="seed", pattern=r"^[A-Za-z0-9_-]+$")
    timeout_s: float = Field(default=5.0, gt=0, le=300)
    refresh_s: float = Field(default=60.0, gt=0)
    stale_s: float = Field(default=300.0, gt=0)
    retry_s: float = Field(default=30.0, ge=0)
    switch_s: float = Field(default=60.0, ge=0)
    calls_folder: Path | None = None
    threads: int = Field(default=5, ge=1, le=32)
    fallback: Literal["panda", "wait"] = "panda"
    fallback_class: str | None = None
    record: bool = True
    mirror_every_s: float = Field(default=60.0, gt=0)
    mirror_work_every_s: float = Field(default=600.0, ge=0)
    oracle_dsn: str | None = None
    oracle_user: str | None = None
    oracle_password_file: Path | None = None
    explanation_url: str | None = None

    def url(self) -> str | None:
        """The address of the database; None where only the environment knows it.

        Raises:
            OSError: the file cannot be read.
        """
        if self.database_url_file is not None:
            return self.database_url_file.read_text(encoding="utf-8").strip()
        return self.database_url


def read_settings() -> PluginSettings:
    """The section of JEDI's configuration; the defaults without one.

    Raises:
        pydantic.ValidationError: a key is unknown or its value is out of range.
    """
    from pandajedi.jediconfig import jedi_config

    section: Any = getattr(jedi_config, SECTION, None)
    return PluginSettings.model_validate({} if section is None else dict(vars(section)))
