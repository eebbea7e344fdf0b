"""The grid as one process of JEDI sees it: read once, shared by all chunks, and read anew in the background."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from agents.brokerage.agent import tables_class
from agents.brokerage.grid_reading import GridReader, GridReading, grid_reader
from agents.service.configuration import config_file
from agents.service.process import load_process
from agents.service.profile_file import load_profile
from broker.alongside.statements.copy_records import copied_at
from broker.brokerages.base import Rules
from broker.brokerages.profile import rules_of
from broker.brokerages.profile_options import ProfileError
from broker.brokerages.registry import brokerage
from broker.engine.job.placement import FLOW
from broker.gdpconfig.publish import Published
from broker.store.connection.database import Database
from broker.store.connection.tables import TableCatalogue
from broker.tuning.statements.gdpconfig_rows import TuningStore

LOG = logging.getLogger("gridbroker_jedi")
#: Those that the classes of the plug-in ask; a profile need not have them all.
BROKERAGES = ("production_job", "analysis_job", "production_task", "generic_job")


def read_rules(profile: str, folder: Path | None) -> dict[str, Rules]:
    """The rules of each brokerage in the profile ``profile`` of ``folder``, or of the shipped one.

    Raises:
        ProfileError: it cannot be used.
        OSError: there is none.
    """
    read = load_profile(profile, folder)
    named = [one.brokerage for one in read.brokerages]
    found = {name: rules_of(read, name) for name in BROKERAGES if name in named}
    if not found:
        raise ProfileError(f"profile {profile}: JEDI asks for none of its brokerages, {', '.join(named)}")
    for own in found.values():
        placement = own.chain.named_steps.get("placement")
        if placement is not None and placement.chosen.get("by") == FLOW:
            asks = f"profile {profile}: placement by flow decides all chunks of a cycle together, and JEDI asks for one"
            raise ProfileError(f"{asks}; take a profile that places by weight")
    return found


def readers_of(rules: Mapping[str, Rules], folder: Path | None) -> dict[str, GridReader]:
    """The reader of each brokerage, as its agent has it.

    Raises:
        SourceError: a source that a rule names cannot be used.
    """
    process = load_process(config_file("broker.yaml", folder), folder)
    return {
        name: grid_reader(own, process, for_analysis=tables_class(brokerage(name)).for_analysis)
        for name, own in rules.items()
    }


@dataclass(frozen=True)
class GridView:
    """One reading of the grid with the values in force then.

    Attributes:
        reading: the snapshot with its stored form.
        published: the gdpconfig values.
        catalogue: the tables that the database has.
        taken_at: when (aware).
        as_of: how the grid was then (aware): where its tables are copies, when the newest of them was made.
        mirrored: whether they are copies.
    """

    reading: GridReading
    published: Published
    catalogue: TableCatalogue
    taken_at: datetime
    as_of: datetime
    mirrored: bool


class GridKeeper:
    """Keeps the newest view of one brokerage; several threads may ask, one reads.

    Args:
        database: of PanDA, with schema ``broker``.
        reader: of the brokerage.
        clock: the time now (aware).
        refresh: age at which the view is read anew while the old one still serves.
    """

    def __init__(
        self, database: Database, reader: GridReader, clock: Callable[[], datetime], refresh: timedelta
    ) -> None:
        self._database, self._reader, self._clock, self._refresh = database, reader, clock, refresh
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
            copied = copied_at(connection)
        newest = max((at for at in (copied or {}).values() if at is not None), default=now)
        self._view = GridView(reading, published, catalogue, now, min(now, newest), copied is not None)
        return self._view
