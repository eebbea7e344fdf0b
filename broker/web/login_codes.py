"""Codes that log somebody in once, for a minute: what stands in a link that a terminal or a log shows.

The token itself would stay good in whatever keeps the log.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections.abc import Callable

GOOD_FOR_S = 60.0
_BYTES = 32


class LoginCodes:
    """The codes of one process.

    Args:
        steady_s: a clock that never goes back.
    """

    def __init__(self, steady_s: Callable[[], float]) -> None:
        self._steady_s, self._lock = steady_s, threading.Lock()
        self._ends_at_s: dict[bytes, float] = {}

    def make(self) -> str:
        """Make a new login code and remember it."""
        code, now_s = secrets.token_urlsafe(_BYTES), self._steady_s()
        with self._lock:
            self._ends_at_s = {name: end_s for name, end_s in self._ends_at_s.items() if end_s > now_s}
            self._ends_at_s[_name(code)] = now_s + GOOD_FOR_S
        return code

    def take(self, code: str) -> bool:
        """Whether a code is good; it is so no longer."""
        with self._lock:
            end_s = self._ends_at_s.pop(_name(code), None)
        return end_s is not None and self._steady_s() < end_s


def _name(code: str) -> bytes:
    return hashlib.sha256(code.encode("utf-8", "replace")).digest()
