"""HTTP/1.1 parsed in C, as strictly as by h11, with a deadline for the head of each request."""

from __future__ import annotations

import asyncio

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from broker.api.head_timeout import HEAD_BYTES, HeadTimeout, HeadTimeoutH11

MOST_PIPELINED = 16
"""Maximum number of requests on one connection that wait for the answer to an earlier one."""


class _Refused(Exception):
    """The head is not acceptable; the parser stops, and the client gets 400."""


class HeadTimeoutHttpTools(HeadTimeout, HttpToolsProtocol):
    """The HTTP/1.1 protocol of one connection, parsed by httptools.

    It handles what the parser leaves open: the size of a head and of trailers, the single ``Host``, blanks after
    values, pipelined requests, and the offer of another protocol, which is never accepted: such a connection continues
    with h11, which ignores the offer.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the deadline for the first request of a new client."""
        super().connection_made(transport)
        self._sending, self._direct = self._buffered(transport), transport
        self._idle_bytes, self._in_head, self._offers_another = 0, False, False
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        """Handle received bytes: once the head of a request is complete, its time limit is lifted."""
        self._unset_keepalive_if_required()
        self._idle_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            self._go_on_with_h11(data[offer.args[0] :])
            return
        except httptools.HttpParserError:
            self._refuse("Invalid HTTP request received.")
            return
        if self._idle_bytes > HEAD_BYTES:
            self._refuse("Request head or trailers too large.")
        elif self._is_waiting_for_a_head():
            self._expect_head()
        else:
            self._disarm()

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the disconnection of the client."""
        self._disarm()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """Handle the first byte of a request."""
        super().on_message_begin()
        self._in_head = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Handle a header, or a trailer, which nobody reads."""
        if self._in_head:
            super().on_header(name, value.rstrip(b" \t"))

    def on_headers_complete(self) -> None:
        """Handle a complete head.

        Raises:
            _Refused: the head names no host, or two, or too many requests came before the first answer.
        """
        self._idle_bytes, self._in_head = 0, False
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or (hosts == 0 and self.parser.get_http_version() == "1.1"):
            raise _Refused
        if len(self.pipeline) >= MOST_PIPELINED:
            raise _Refused
        self._offers_another = self.parser.should_upgrade()
        if not self._offers_another:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Handle a part of the body."""
        self._idle_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Handle a complete request."""
        self._idle_bytes = 0
        if not self._offers_another:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """Flush a complete answer in one piece."""
        self._sending.flush()
        super().on_response_complete()
        if self._in_head:
            self._expect_head()

    def _is_waiting_for_a_head(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _refuse(self, why: str) -> None:
        self.logger.warning(why)
        self.send_400_response(why)

    def _go_on_with_h11(self, rest: bytes) -> None:
        """Hand the connection over to h11 with the request unchanged; ``rest`` holds the bytes after its head."""
        if not self._is_waiting_for_a_head():
            self._refuse("Unsupported upgrade after other requests.")
            return
        self._disarm()
        self.connections.discard(self)
        head = [self.parser.get_method(), b" ", self.url, b" HTTP/", self.parser.get_http_version().encode(), b"\r\n"]
        for name, value in self.headers:
            head += [name, b": ", value, b"\r\n"]
        successor = HeadTimeoutH11(self.config, self.server_state, self.app_state, self.loop)
        successor.head_within_s = self.head_within_s
        successor.connection_made(self._direct)
        self._direct.set_protocol(successor)
        successor.data_received(b"".join([*head, b"\r\n", rest]))
