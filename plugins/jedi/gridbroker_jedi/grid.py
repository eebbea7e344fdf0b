"""The grid as one process of JEDI sees it: read once, shared by all chunks, and read anew in the background."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from agents.brokerage.grid_reading import GridReader, GridReading
from agents.service.configuration import config_file
from agents.service.process import load_process
from agents.service.profile_file import load_profile
from broker.brokerages.base import Rules
from broker.brokerages.profile import rules_of
from broker.brokerages.profile_options import ProfileError
from broker.engine.job.placement import FLOW
from broker.gdpconfig.publish import Published
from broker.store.connection.database import Database
from broker.store.connection.tables import TableCatalogue
from broker.store.tuning.gdpconfig_rows import TuningStore

LOG = logging.getLogger("gridbroker_jedi")
BROKERAGES = ("production_job", "analysis_job", "production_task")


def read_rules(profile: str, folder: Path | None) -> dict[str, Rules]:
    """The rules of each brokerage in the profile ``profile`` of ``folder``, or of the shipped one.

    Raises:
        ProfileError: it cannot be used.
        OSError: there is none.
    """
    read = load_profile(profile, folder)
    found = {name: rules_of(read, name) for name in BROKERAGES}
    placement = found["production_job"].chain.named_steps.get("placement")
    if placement is not None and placement.chosen.get("by") == FLOW:
        asks = f"profile {profile}: placement by flow decides all chunks of a cycle together, and JEDI asks for one"
        raise ProfileError(f"{asks}; take a profile that places by weight")
    return found


@dataclass(frozen=True)
class GridView:
    """One reading of the grid with the values in force then.

    Attributes:
        reading: the snapshot with its stored form.
        published: the gdpconfig values.
        catalogue: the tables that the database has.
        taken_at: when (aware).
    """

    reading: GridReading
    published: Published
    catalogue: TableCatalogue
    taken_at: datetime


class GridKeeper:
    """Keeps the newest view; several threads may ask, one reads.

    Args:
        database: of PanDA, with schema ``broker``.
        folder: of configuration files; None for the shipped ones.
        clock: the time now (aware).
        refresh: age at which the view is read anew while the old one still serves.
    """

    def __init__(
        self, database: Database, folder: Path | None, clock: Callable[[], datetime], refresh: timedelta
    ) -> None:
        process = load_process(config_file("broker.yaml", folder), folder)
        self._database, self._clock, self._refresh = database, clock, refresh
        self._reader = GridReader(process.job_statistics, config_file("sources.yaml", folder), analysis=True)
        self._view: GridView | None = None
        self._reading = threading.Lock()

    def view(self) -> GridView:
        """The newest view; the first caller reads it, and so does whoever finds it old enough and nobody reading.

        Raises:
            DatabaseUnavailable: there is no view yet and none can be read.
        """
        view = self._view
        if view is None:
            with self._reading:
                return self._view or self._read()
        if self._clock() - view.taken_at >= self._refresh and self._reading.acquire(blocking=False):
            threading.Thread(target=self._read_behind, name="gridbroker-grid", daemon=True).start()
        return view

    def age(self) -> timedelta | None:
        """Age of the newest view; None without one."""
        return None if self._view is None else self._clock() - self._view.taken_at

    def _read_behind(self) -> None:
        try:
            self._read()
        except Exception:
            # the old view serves until it is stale: who asks then is told so, and falls back
            LOG.exception("the grid could not be read anew")
        finally:
            self._reading.release()

    def _read(self) -> GridView:
        now = self._clock()
        with self._database.read_snapshot() as connection:
            catalogue = TableCatalogue.read(connection, self._database.names)
            published = TuningStore(self._database.names).read_current(connection, live=True)
            reading = self._reader.read(connection, catalogue, now, lambda: None)
        self._view = GridView(reading, published, catalogue, now)
        return self._view
