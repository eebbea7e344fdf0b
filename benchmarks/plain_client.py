"""A client of HTTP that costs next to nothing, so that a benchmark on the same cores measures the server."""

from __future__ import annotations

import socket
from typing import Self
from urllib.parse import urlsplit

_END = b"\r\n\r\n"
_LENGTH = b"content-length:"


class PlainClient:
    """One connection that stays open; answers have a ``Content-Length``.

    Args:
        url: ``http://host:port`` of the server.
        token: shown with each request.
    """

    def __init__(self, url: str, token: str) -> None:
        address = urlsplit(url)
        self._socket = socket.create_connection((address.hostname, address.port), timeout=30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._head = f" HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: Bearer {token}\r\n".encode()

    def answer(self, method: bytes, path: bytes, body: bytes | None = None) -> bytes:
        """The body of an answer of status 200.

        Raises:
            SystemExit: it has another status, or the connection is closed.
        """
        sent = b"" if body is None else b"Content-Type: application/json\r\nContent-Length: %d\r\n" % len(body)
        self._socket.sendall(method + b" " + path + self._head + sent + b"\r\n" + (body or b""))
        got = b""
        while _END not in got:
            got += self._more()
        head, _, rest = got.partition(_END)
        if not head.startswith(b"HTTP/1.1 200 "):
            raise SystemExit(f"{path.decode()}: {head.splitlines()[0].decode()}")
        lower = head.lower()
        begin = lower.index(_LENGTH) + len(_LENGTH)
        length = int(lower[begin:].split(b"\r\n", 1)[0])
        while len(rest) < length:
            rest += self._more()
        return rest

    def _more(self) -> bytes:
        part = self._socket.recv(1 << 16)
        if not part:
            raise SystemExit("the server closed the connection")
        return part

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._socket.close()
