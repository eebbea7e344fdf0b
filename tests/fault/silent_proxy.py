"""A TCP proxy for the test database that can stop forwarding without closing connections, as a firewall does."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
from collections.abc import Iterator

import sqlalchemy as sa


class SilentProxy:
    """Forwards to the server of ``url`` until :meth:`silence` is called.

    Attributes:
        url: the address of the same database through the proxy.
        swallowed: bytes that arrived on silent connections and were dropped; they prove that the fault occurred.
        answered_late: connections that were accepted but never answered.
    """

    def __init__(self, url: str) -> None:
        self._target = sa.make_url(url)
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        through = self._target.set(host="127.0.0.1", port=port, query={})
        self.url = through.render_as_string(hide_password=False)
        self.swallowed = 0
        self.answered_late = 0
        self._silent_numbers: set[int] = set()
        self._count = 0
        self._all_silent = False
        self._wake_read, self._wake_write = os.pipe()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def silence(self, *, new_ones_too: bool = False) -> None:
        """Stop forwarding on all open connections and, with ``new_ones_too``, on future ones."""
        with self._lock:
            self._silent_numbers |= set(range(self._count))
            self._all_silent = new_ones_too

    def speak(self) -> None:
        """Forward new connections again; silent connections stay silent."""
        with self._lock:
            self._all_silent = False

    def close(self) -> None:
        """Close all connections and stop."""
        os.write(self._wake_write, b"x")
        for thread in list(self._threads):
            thread.join(10)
        self._listener.close()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def _accept(self) -> None:
        while True:
            ready, _, _ = select.select([self._listener, self._wake_read], [], [])
            if self._wake_read in ready:
                return
            client, _ = self._listener.accept()
            with self._lock:
                number, self._count = self._count, self._count + 1
                if self._all_silent:
                    self._silent_numbers.add(number)
                    self.answered_late += 1
            thread = threading.Thread(target=self._forward, args=(number, client), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _forward(self, number: int, client: socket.socket) -> None:
        with client, self._connect() as server:
            peers = {client: server, server: client}
            open_ends = [client, server]
            while True:
                ready, _, _ = select.select([*open_ends, self._wake_read], [], [])
                if self._wake_read in ready:
                    return
                for source in [end for end in open_ends if end in ready]:
                    data = b""
                    with contextlib.suppress(ConnectionError):
                        data = source.recv(65536)
                    if number in self._silent_numbers:
                        self.swallowed += len(data)
                        if not data:
                            open_ends.remove(source)  # the peer must not learn that this end has closed
                    elif data:
                        with contextlib.suppress(ConnectionError):
                            peers[source].sendall(data)
                    else:
                        return

    def _connect(self) -> socket.socket:
        folder = self._target.query.get("host")
        port = self._target.port or 5432
        if folder is None:
            return socket.create_connection((self._target.host or "localhost", port))
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{folder}/.s.PGSQL.{port}")
        return server


@contextlib.contextmanager
def silent_proxy(url: str) -> Iterator[SilentProxy]:
    """Run a proxy to the server of ``url``."""
    proxy = SilentProxy(url)
    try:
        yield proxy
    finally:
        proxy.close()
