"""Count calls and store decisions in the background: what the database does not take is counted in a file."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

from broker.alongside.answers.call_files import CallFile
from broker.alongside.statements import plugin_calls
from broker.alongside.statements.plugin_calls import Call
from broker.store.connection.database import Database

LOG = logging.getLogger("gridbroker_jedi")
#: Seconds that a note may take: nobody waits for it, but others wait behind it.
NOTE_S = 10.0
NOT_RECORDED = "not_recorded"


class Notes:
    """Writes notes one after the other, in a thread of its own.

    Args:
        folder: of the files for what the database does not take.
        database: opens the database, or returns the open one.
        shut: why the database must not be used now; None if it may be.
    """

    def __init__(self, folder: Path, database: Callable[[], Database], shut: Callable[[], str | None]) -> None:
        self._file, self._database, self._shut = CallFile(folder), database, shut
        self._behind = ThreadPoolExecutor(1, thread_name_prefix="gridbroker-notes")
        # counts left by an earlier process are brought in with the first note
        self._waiting = True

    def count(self, call: Call, at: datetime) -> None:
        """Count a call; never waits and never fails."""
        self._behind.submit(self._count, call, at)

    def keep(self, brokerage: str, at: datetime, write: Callable[[], None]) -> None:
        """Call ``write`` in the background; a failure is counted, never raised."""

        def run() -> None:
            try:
                write()
            except Exception as error:
                # a decision that cannot be stored must not cost the next one; the loss is counted and logged
                LOG.exception("a decision could not be kept")
                self._count(Call(brokerage, NOT_RECORDED, type(error).__name__), at)

        self._behind.submit(run)

    def close(self) -> None:
        """Finish what is in progress."""
        self._behind.shutdown(wait=True)

    def _count(self, call: Call, at: datetime) -> None:
        try:
            shut = self._shut()
            if shut is None:
                with self._database().within(NOTE_S) as limited, limited.begin() as connection:
                    plugin_calls.add(connection, call, at)
                self._bring_in()
                return
            LOG.warning("%s %s (%s) is counted in a file: %s", call.brokerage, call.outcome, call.reason, shut)
        except Exception:
            LOG.exception("a call could not be counted in the database")
        self._waiting = True
        try:
            self._file.add(call, at.replace(minute=0, second=0, microsecond=0))
        except OSError:
            LOG.exception("a call could not be counted at all")

    def _bring_in(self) -> None:
        """Move counts from files into the database, those of this process and of ended ones."""
        if not self._waiting:
            return
        for path, calls in self._file.take():
            try:
                with self._database().within(NOTE_S) as limited, limited.begin() as connection:
                    for one in calls:
                        plugin_calls.add(connection, one.call, one.hour, one.calls)
            except Exception:
                self._file.give_back(path)
                raise
            path.unlink()
        self._waiting = False
