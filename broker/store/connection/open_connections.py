"""The connections that a piece of work has open, so that another thread can end it.

A peer that vanishes without a word leaves a thread waiting for an answer that never comes; no time limit of the server
helps, and the kernel's help only against some kinds of silence. Shutting the socket down from this side always does.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from typing import Any

import psycopg


class OpenConnections:
    """The connections of one piece of work.

    Attributes:
        cut_because: why they were shut down; None while they were not.
    """

    def __init__(self) -> None:
        """None is open yet."""
        self.cut_because: str | None = None
        self._sockets: set[int] = set()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def using(self, connection: psycopg.Connection[Any]) -> Iterator[None]:
        """``connection`` belongs to the work as long as the block runs."""
        # A descriptor of our own: the one of the connection may be closed, and its number used again, at any time.
        own = os.dup(connection.fileno())
        with self._lock:
            self._sockets.add(own)
            if self.cut_because is not None:
                _shut_down(own)
        try:
            yield
        finally:
            with self._lock:
                self._sockets.remove(own)
                os.close(own)

    def cut(self, because: str) -> None:
        """Shut all of them down, and each that is opened from now on. May be called from any thread; never blocks."""
        with self._lock:
            self.cut_because = self.cut_because or because
            for own in self._sockets:
                _shut_down(own)


def _shut_down(descriptor: int) -> None:
    with socket.socket(fileno=os.dup(descriptor)) as own, contextlib.suppress(OSError):
        own.shutdown(socket.SHUT_RDWR)
