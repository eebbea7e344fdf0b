"""A minimal HTTP client, so that a benchmark on the same cores measures the server."""

from __future__ import annotations

import socket
from typing import Self
from urllib.parse import urlsplit

_END = b"\r\n\r\n"
_LENGTH = b"content-length:"


class PlainClient:
    """A client with one persistent connection; answers must have a ``Content-Length``.

    Args:
        url: ``http://host:port`` of the server.
        token: sent with each request.
    """

    def __init__(self, url: str, token: str) -> None:
        address = urlsplit(url)
        self._socket = socket.create_connection((address.hostname, address.port), timeout=30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._head = f" HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: Bearer {token}\r\n".encode()

    def answer(self, method: bytes, path: bytes, body: bytes | None = None) -> bytes:
        """Send a request and return the body of its answer, which must have status 200.

        Raises:
            SystemExit: the answer has another status, or the connection is closed.
        """
        body_headers = b"" if body is None else b"Content-Type: application/json\r\nContent-Length: %d\r\n" % len(body)
        self._socket.sendall(method + b" " + path + self._head + body_headers + b"\r\n" + (body or b""))
        received = b""
        while _END not in received:
            received += self._more()
        head, _, content = received.partition(_END)
        if not head.startswith(b"HTTP/1.1 200 "):
            raise SystemExit(f"{path.decode()}: {head.splitlines()[0].decode()}")
        lower = head.lower()
        length_begin = lower.index(_LENGTH) + len(_LENGTH)
        length = int(lower[length_begin:].split(b"\r\n", 1)[0])
        while len(content) < length:
            content += self._more()
        return content

    def _more(self) -> bytes:
        part = self._socket.recv(1 << 16)
        if not part:
            raise SystemExit("the server closed the connection")
        return part

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._socket.close()
