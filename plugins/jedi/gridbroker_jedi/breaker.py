"""Keeps calls from a database that could not be reached, or has timed out repeatedly."""

from __future__ import annotations

import threading
from collections.abc import Callable

#: Consecutive calls that took too long, after which no call is let through for a while.
TIMEOUTS_IN_A_ROW = 3


class Breaker:
    """Shuts after failures and lets one call try again after a while.

    Args:
        retry_s: for how long it stays shut.
        ticks: seconds of a monotonic clock.
    """

    def __init__(self, retry_s: float, ticks: Callable[[], float]) -> None:
        self._retry_s, self._ticks = retry_s, ticks
        self._lock = threading.Lock()
        self._shut_until, self._why, self._timeouts = 0.0, "", 0

    @property
    def shut(self) -> str | None:
        """Why no call is let through: ``unreachable`` or ``breaker``; None if calls are."""
        with self._lock:
            return self._why if self._ticks() < self._shut_until else None

    def answered(self) -> None:
        """Record that a call was answered in time."""
        with self._lock:
            self._timeouts = 0

    def timed_out(self) -> None:
        """Record a timeout: the third in a row shuts, and so does each one after it until a call is answered."""
        with self._lock:
            self._timeouts += 1
            if self._timeouts >= TIMEOUTS_IN_A_ROW:
                self._shut("breaker")

    def unreachable(self) -> None:
        """Record that the database was not reached, which shuts."""
        with self._lock:
            self._shut("unreachable")

    def _shut(self, why: str) -> None:
        self._shut_until, self._why = self._ticks() + self._retry_s, why
