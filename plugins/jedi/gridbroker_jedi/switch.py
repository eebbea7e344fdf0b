"""The switch that ``broker plugin`` sets, as one process of JEDI knows it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta

import sqlalchemy as sa

from broker.alongside.model.plugin_switch import PluginSwitch
from broker.alongside.statements import plugin_switches
from broker.store.connection.database import Database
from broker.store.connection.errors import DatabaseUnavailable

LOG = logging.getLogger("gridbroker_jedi")


class SwitchReader:
    """Reads the switch about once a minute; while it cannot be read, the last value stays in force.

    Args:
        every: how often it is read.
        clock: the time now (aware).
    """

    def __init__(self, every: timedelta, clock: Callable[[], datetime]) -> None:
        self._every, self._clock = every, clock
        self._known: PluginSwitch | None = None
        self._read_at: datetime | None = None

    def read(self, database: Database) -> PluginSwitch:
        """The switch.

        Raises:
            DatabaseUnavailable: it was never read, and cannot be read now; other errors of the database likewise.
        """
        now = self._clock()
        if self._known is not None and self._read_at is not None and now - self._read_at < self._every:
            return self._known
        try:
            with database.read_snapshot() as connection:
                switch = plugin_switches.in_force(connection)
        except (DatabaseUnavailable, sa.exc.DBAPIError):
            if self._known is None:
                raise
            LOG.exception("the switch of the plug-in cannot be read; %s stays in force", self._known)
            return self._known
        if switch != self._known:
            LOG.info("plug-in: %s", switch)
        self._known, self._read_at = switch, now
        return switch
