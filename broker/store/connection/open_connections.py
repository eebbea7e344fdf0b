"""The open connections of a piece of work, so that another thread can end it.

A peer that vanishes silently leaves a thread waiting for an answer that never comes. Time limits of the server do not
help, and those of the kernel only against some kinds of silence. Shutting the socket down from this side always works.
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
        cut_because: why they were shut down; None if they were not.
    """

    def __init__(self) -> None:
        """Start without open connections."""
        self.cut_because: str | None = None
        self._sockets: set[int] = set()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def using(self, connection: psycopg.Connection[Any]) -> Iterator[None]:
        """Register ``connection`` with the work while the block runs."""
        # A descriptor of our own: that of the connection may be closed, and its number reused, at any time.
        descriptor = os.dup(connection.fileno())
        with self._lock:
            self._sockets.add(descriptor)
            if self.cut_because is not None:
                _shut_down(descriptor)
        try:
            yield
        finally:
            with self._lock:
                self._sockets.remove(descriptor)
                os.close(descriptor)

    def cut(self, because: str) -> None:
        """Shut down all connections, now and as they are registered. Safe to call from any thread; never blocks."""
        with self._lock:
            self.cut_because = self.cut_because or because
            for descriptor in self._sockets:
                _shut_down(descriptor)


def _shut_down(descriptor: int) -> None:
    with socket.socket(fileno=os.dup(descriptor)) as duplicate, contextlib.suppress(OSError):
        duplicate.shutdown(socket.SHUT_RDWR)
