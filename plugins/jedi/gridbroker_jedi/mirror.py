"""Copies PanDA's tables for mode ``mirrored`` through JEDI's task buffer, whatever database is behind it.

For ``[watchdog] modConfig`` of JEDI. Source: PanDA JEDI 1.0.4, ``WatchDog``, ``WatchDogBase`` and
``JediTaskBuffer.querySQL``: tuples without names, None for an error, and a call that gives up after 600 s.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import platformdirs
from pandacommon.pandalogger.PandaLogger import PandaLogger
from pandajedi.jedicore.MsgWrapper import MsgWrapper
from pandajedi.jedidog.WatchDogBase import WatchDogBase

from broker.alongside.answers.mirrored_work import copy_chunk_of_call, copy_tasks_of_call, copy_work
from broker.alongside.answers.mirroring import Mirror, PartReport
from broker.alongside.model.panda_reader import Backend, PandaReader, PandaSchemas, ReadFailed
from broker.alongside.statements.oracle_reader import OracleReader
from broker.settings import Settings
from broker.snapshot.source_list import OFFERED_SOURCES, offered, outside_source
from broker.store.connection.database import Database
from broker.store.connection.opening import open_database
from gridbroker_jedi.settings import PluginSettings, read_settings

logger: logging.Logger = PandaLogger().getLogger(__name__.split(".")[0])
APPLICATION = "gridbroker-jedi-mirror"
ROWS_AT_ONCE = 10_000


class TaskBufferReader:
    """Reads PanDA's database through JEDI's task buffer.

    Args:
        task_buffer: JEDI's ``taskBufferIF``.
    """

    def __init__(self, task_buffer: Any) -> None:
        from pandaserver.config import panda_config

        self._buffer = task_buffer
        self.backend: Backend = "postgres" if getattr(panda_config, "backend", "oracle") == "postgres" else "oracle"
        self.schemas = PandaSchemas(panda_config.schemaPANDA, panda_config.schemaMETA)

    def rows(self, statement: str, binds: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        """The rows of a SELECT.

        Raises:
            ReadFailed: the task buffer gives no answer, or fails.
        """
        try:
            answer = self._buffer.querySQL(statement, dict(binds), ROWS_AT_ONCE)
        except Exception as error:  # JEDI's interface raises what the other process raised
            raise ReadFailed(f"{type(error).__name__}: {error}"[:300], statement[:120], "see JEDI's log") from error
        if answer is None:
            raise ReadFailed("querySQL gave no answer", statement[:120], "see the log of JEDI's DBProxy for the error")
        rows: Sequence[Sequence[Any]] = answer
        return rows


@dataclass(frozen=True)
class OwnTask:
    """The subject of a call of JEDI's, whose copied rows are brought up to date.

    Attributes:
        task_buffer: JEDI's ``taskBufferIF``.
        jeditaskid: of the task.
        datasets: of the chunk, with their numbers of files.
        files: ids of its files.
    """

    task_buffer: Any
    jeditaskid: int
    datasets: Mapping[int, int]
    files: Sequence[int]

    @classmethod
    def of_chunk(cls, task_buffer: Any, task_spec: Any, chunk: Any) -> OwnTask:
        """Create it from JEDI's objects."""
        specs = chunk.getDatasets()
        files = [file.fileID for spec in specs for file in spec.Files]
        return cls(task_buffer, task_spec.jediTaskID, {spec.datasetID: spec.nFiles or 0 for spec in specs}, files)

    def copy(
        self, database: Database, clock: Callable[[], datetime], *, parameters: bool, done_job_hours: float | None
    ) -> None:
        """Bring its copies up to date, see :func:`broker.alongside.answers.mirrored_work.copy_chunk_of_call`.

        Raises:
            ReadFailed: PanDA's database gave no answer.
        """
        mirror = _mirror(database, self.task_buffer, clock)
        copy_chunk_of_call(
            mirror,
            self.jeditaskid,
            self.datasets,
            self.files,
            parameters=parameters,
            done_job_hours=done_job_hours,
        )


def copy_claimed_tasks(
    database: Database, task_buffer: Any, clock: Callable[[], datetime], tasks: Sequence[int]
) -> None:
    """Bring the copies of the tasks that JEDI has just claimed up to date.

    Raises:
        ReadFailed: PanDA's database gave no answer.
    """
    copy_tasks_of_call(_mirror(database, task_buffer, clock), tasks)


class GridMirrorWatchDog(WatchDogBase):  # type: ignore[misc]
    """Copies those of PanDA's tables that are due, each time JEDI's watchdog runs."""

    #: The time now (aware).
    clock: Callable[[], datetime] = staticmethod(lambda: datetime.now(UTC))

    def refresh(self) -> None:
        """Do nothing: the copying needs no site mapper, which JEDI would fetch from another process."""

    def doAction(self) -> Any:
        """Copy all tables that are due and return the status code: failed where any could not be copied."""
        log = MsgWrapper(logger, "<mirror>")
        try:
            reports = self._copy(read_settings())
        except Exception as error:
            # the other modules of the watchdog must go on
            log.error(f"nothing was copied: {type(error).__name__}: {error}")
            return self.SC_FAILED
        failed = {name: message for report in reports.values() for name, message in report.failed.items()}
        for name, message in failed.items():
            log.error(f"{name} was not copied, the last copy stays: {message}")
        done = ", ".join(f"{part} {len(report.copied)}" for part, report in reports.items() if report.claimed)
        log.info(f"tables copied: {done or 'none is due, or another process copies'}")
        return self.SC_FAILED if failed else self.SC_SUCCEEDED

    def _copy(self, settings: PluginSettings) -> dict[str, PartReport]:
        mirror = _mirror(_database(settings), self.taskBufferIF, type(self).clock, _oracle(settings))
        every = timedelta(seconds=settings.mirror_every_s)
        reports = {"grid": mirror.copy_grid(every), "tasks": mirror.copy_tasks(every)}
        if settings.mirror_work_every_s:
            reports["work"] = copy_work(mirror, timedelta(seconds=settings.mirror_work_every_s))
        return reports


_DATABASES: dict[tuple[int, str | None], Database] = {}
#: Columns of PanDA's tables as this process found them, by the URL of our database.
_PRESENT: dict[str, dict[str, frozenset[str]]] = {}


@cache
def _oracle(settings: PluginSettings) -> OracleReader | None:
    """The reader with an account of its own, if one is set."""
    if settings.oracle_dsn is None:
        return None
    if settings.oracle_user is None or settings.oracle_password_file is None:
        raise ReadFailed("no account", f"oracle_dsn {settings.oracle_dsn}", "set oracle_user and oracle_password_file")
    password = settings.oracle_password_file.read_text(encoding="utf-8").strip()
    schemas = TaskBufferReader(None).schemas
    return OracleReader(settings.oracle_dsn, settings.oracle_user, password, schemas)


def _mirror(
    database: Database, task_buffer: Any, clock: Callable[[], datetime], reader: PandaReader | None = None
) -> Mirror:
    own = {one.name for one in OFFERED_SOURCES}
    sources = [outside_source(name) for name in sorted(set(offered()) - own)]
    return Mirror(
        database, reader or TaskBufferReader(task_buffer), clock, sources, _PRESENT.setdefault(database.url, {})
    )


def _database(settings: PluginSettings) -> Database:
    """Return our database, opened once per process: a fork does not inherit connections."""
    own = Settings()
    url = settings.url() or own.database_url
    key = os.getpid(), url
    if key not in _DATABASES:
        home = Path(platformdirs.user_data_dir("gridbroker", appauthor=False))
        _DATABASES[key] = open_database(
            url, home, panda_schema=own.panda_schema, meta_schema=own.meta_schema, application_name=APPLICATION
        )
    return _DATABASES[key]
