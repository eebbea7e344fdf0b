"""The tokens of running limits that a process holds: each lets one job of a type begin at a site.

A process leases some of those that are free and spends them in memory, so that matches do not wait for each other on
one row. A lease that was not used up ends after a while, and its tokens are free again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

LEASE_LASTS = timedelta(seconds=10)
"""A process spends no token of an older lease."""
RECLAIMED_AFTER = timedelta(seconds=30)
"""A lease is taken away from a process that seems to be dead: more than it lasts, as clocks of hosts differ."""
MOST_LEASED = 20
CLOSED_FOR = timedelta(seconds=1)
"""How long a process does not ask again for tokens after it got none."""

Pair = tuple[str, str]
"""A site and a type of jobs."""


@dataclass
class _Held:
    """The tokens held for one pair: ``left`` of a lease, which may be spent until ``until``."""

    lease: int | None
    left: int
    until: datetime


class LimitTokens:
    """Tokens by site and type; threads share them.

    Attributes:
        fetch_lock: held while tokens are fetched from the database, so that two threads do not fetch the same.
    """

    def __init__(self) -> None:
        self.fetch_lock = threading.Lock()
        self._held: dict[Pair, _Held] = {}
        self._lock = threading.Lock()

    def reserve(self, pair: Pair, now: datetime) -> int | None:
        """Take one token and return its lease; None if there is no token."""
        with self._lock:
            held = self._held.get(pair)
            if held is None or held.lease is None or held.left < 1 or now >= held.until:
                return None
            held.left -= 1
            return held.lease

    def put_back(self, pair: Pair, lease: int, count: int = 1) -> None:
        """Return reserved tokens with which no job was taken."""
        with self._lock:
            held = self._held.get(pair)
            if held is not None and held.lease == lease:
                held.left += count

    def wanting(self, pairs: Iterable[Pair], now: datetime) -> list[Pair]:
        """The pairs to ask the database for: no token is left, and the pair is not closed for the moment."""
        with self._lock:
            return [pair for pair in pairs if self._is_wanting(self._held.get(pair), now)]

    def has(self, pair: Pair, now: datetime) -> bool:
        """Whether there is a token."""
        with self._lock:
            held = self._held.get(pair)
            return held is not None and held.left > 0 and now < held.until

    def hand_over(self, pair: Pair) -> tuple[int | None, int]:
        """Give up the lease of a pair; return its number, and how many of its tokens were not spent."""
        with self._lock:
            held = self._held.pop(pair, None)
        return (None, 0) if held is None else (held.lease, held.left)

    def hold(self, pair: Pair, lease: int | None, tokens: int, now: datetime) -> None:
        """Hold the tokens of a new lease; without any, the pair is closed for a moment."""
        until = now + (LEASE_LASTS if tokens else CLOSED_FOR)
        with self._lock:
            self._held[pair] = _Held(lease, tokens, until)

    def pairs(self) -> list[Pair]:
        """The pairs with a lease."""
        with self._lock:
            return [pair for pair, held in self._held.items() if held.lease is not None]

    @staticmethod
    def _is_wanting(held: _Held | None, now: datetime) -> bool:
        if held is None or now >= held.until:
            return True
        return held.lease is not None and held.left < 1
