"""Checks whether the clocks can be trusted by agents that end, take back or remove.

A wrong host clock makes everything look old, so each cycle compares it with the database's clock. Since both may be the
same clock, both are also compared with a steady clock that nobody can set, since the last cycle at which all agreed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import sqlalchemy as sa

from broker.store.connection.database import Database

_log = logging.getLogger(__name__)

ClockFaultCode = Literal["host_differs_from_database", "host_jumped", "database_jumped"]
READ_WITHIN_S = 5.0
AGREE_FOR_S = 300.0
"""Seconds for which clocks that contradicted one another must agree before they are trusted again."""


def host_now() -> datetime:
    """Return the host's clock, in UTC."""
    return datetime.now(UTC)


def steady_s() -> float:
    """Return seconds by a monotonic clock that keeps running while the machine sleeps."""
    # On Linux CLOCK_MONOTONIC stops during sleep and CLOCK_BOOTTIME does not; on macOS CLOCK_MONOTONIC does not stop.
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass(frozen=True)
class ClockReading:
    """The database's clock, and the two host clocks before and after the query, which may take a while.

    Attributes:
        database: time of the database.
        host: wall clock of the host, before and after the query.
        steady: seconds by the steady clock, before and after the query.
    """

    database: datetime
    host: tuple[datetime, datetime]
    steady: tuple[float, float]


@dataclass(frozen=True)
class ClockFault:
    """A contradiction between clocks.

    Attributes:
        code: which clocks contradict one another.
        seconds: by how much; positive when the first clock is ahead, or jumped forward.
        limit_s: the limit exceeded.
    """

    code: ClockFaultCode
    seconds: float
    limit_s: float


def read_clocks(
    database: Database, host: Callable[[], datetime] = host_now, steady: Callable[[], float] = steady_s
) -> ClockReading:
    """Read the clocks of the database, of this machine and of the process, as close together as possible."""
    with database.within(READ_WITHIN_S) as limited, limited.begin() as connection:
        steady_before, host_before = steady(), host()
        answer: datetime = connection.execute(sa.text("SELECT clock_timestamp()")).scalar_one()
        host_after, steady_after = host(), steady()
    return ClockReading(answer.astimezone(UTC), (host_before, host_after), (steady_before, steady_after))


def beyond_s(value_s: float, interval: tuple[float, float]) -> float:
    """Return by how much ``value_s`` lies above (positive) or below (negative) an interval; 0 within it."""
    low_s, high_s = min(interval), max(interval)
    return value_s - min(max(value_s, low_s), high_s)


class ClockWatch:
    """Judges the successive clock readings of one process."""

    def __init__(self, limit_s: float, agree_for_s: float = AGREE_FOR_S) -> None:
        """Tolerate contradictions up to ``limit_s``; after a larger one the clocks must agree for ``agree_for_s``."""
        self._limit_s, self._agree_for_s = limit_s, agree_for_s
        self._agreed: ClockReading | None = None
        self._agree_since: ClockReading | None = None
        self._lock = threading.Lock()

    def check(self, reading: ClockReading) -> tuple[ClockFault, ...]:
        """Return the contradictions within this reading, and with the last reading that had none.

        A clock that was set remains in contradiction until it is set back, or until all clocks have agreed for some
        time: then the new time is accepted.
        """
        with self._lock:
            faults = self._faults(reading, self._agreed)
            if faults and not self._agrees_long_enough(reading):
                return faults
            if faults:
                fields = {"were": [fault.code for fault in faults], "agree_for_s": self._agree_for_s}
                _log.warning("clocks agree again and are believed", extra={"fields": fields})
            self._agreed, self._agree_since = reading, None
            return ()

    def _agrees_long_enough(self, reading: ClockReading) -> bool:
        """Return whether clocks that once contradicted one another have agreed for long enough."""
        since = self._agree_since
        if since is None or self._faults(reading, since):
            self._agree_since = None if self._faults(reading, None) else reading
            return False
        return reading.steady[0] - since.steady[1] >= self._agree_for_s

    def _faults(self, reading: ClockReading, earlier: ClockReading | None) -> tuple[ClockFault, ...]:
        """Return the contradictions within a reading, and with an earlier one."""
        differences: dict[ClockFaultCode, float] = {
            "host_differs_from_database": -_since_s(reading.database, reading.host)
        }
        if earlier is not None:
            differences |= _jumps_s(earlier, reading)
        return tuple(
            ClockFault(code, seconds, self._limit_s)
            for code, seconds in differences.items()
            if abs(seconds) > self._limit_s
        )


def _since_s(moment: datetime, interval: tuple[datetime, datetime]) -> float:
    first = interval[0]
    return beyond_s((moment - first).total_seconds(), (0.0, (interval[1] - first).total_seconds()))


def _jumps_s(earlier: ClockReading, later: ClockReading) -> dict[ClockFaultCode, float]:
    """Return by how much each clock ran faster than the steady one between two readings."""
    passed_s = (later.steady[0] - earlier.steady[1], later.steady[1] - earlier.steady[0])
    host_s = (later.host[1] - earlier.host[1]).total_seconds()
    database_s = (later.database - earlier.database).total_seconds()
    return {"host_jumped": beyond_s(host_s, passed_s), "database_jumped": beyond_s(database_s, passed_s)}
