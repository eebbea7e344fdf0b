"""Closes connections that do not send a complete header in time, and sends head and body of an answer in one piece.

The HTTP/1.1 protocol here is pure Python, with a deadline for the head of each request.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class BufferedTransport:
    """A transport that buffers what is written until the event loop turns, or until it is flushed.

    Args:
        transport: the transport that sends.
        loop: event loop of the transport.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Buffer ``data`` and send it with the next flush."""
        if not data:
            return
        if not self._parts:
            self._loop.call_soon(self.flush)
        self._parts.append(data)

    def flush(self) -> None:
        """Send the buffered data."""
        if self._parts:
            parts, self._parts = self._parts, []
            self._transport.write(parts[0] if len(parts) == 1 else b"".join(parts))

    def close(self) -> None:
        """Send the buffered data and close."""
        self.flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


HEAD_BYTES = 64 << 10
"""Maximum size of an incomplete head."""


class HeadTimeout:
    """The head deadline of one connection, for a protocol of asyncio that has the ``loop`` and the ``transport``.

    A connection that sends nothing, or only a byte now and then, occupies a descriptor no longer than the deadline.

    Attributes:
        head_within_s: the deadline.
    """

    head_within_s: float = 10.0
    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    _deadline: asyncio.TimerHandle | None = None

    def _buffered(self, transport: asyncio.Transport) -> BufferedTransport:
        """Return a buffering transport to write to, instead of the one that sends at once."""
        sending = BufferedTransport(transport, self.loop)
        self.transport = sending  # type: ignore[assignment]
        return sending

    def _expect_head(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(self.head_within_s, self._close_incomplete)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _close_incomplete(self) -> None:
        self._deadline = None
        if self._is_waiting_for_a_head() and not self.transport.is_closing():
            self.transport.close()

    @abstractmethod
    def _is_waiting_for_a_head(self) -> bool:
        """Return whether the head of a request is incomplete."""


class HeadTimeoutH11(HeadTimeout, H11Protocol):
    """The HTTP/1.1 protocol of one connection, with a time limit on the request head."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the deadline for the first request of a new client."""
        super().connection_made(transport)
        self._sending = self._buffered(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        """Handle received bytes: once the head of a request is complete, its time limit is lifted."""
        super().data_received(data)
        if self._is_waiting_for_a_head():
            self._expect_head()
        else:
            self._disarm()

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the disconnection of the client."""
        self._disarm()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Flush a complete answer in one piece."""
        self._sending.flush()
        super().on_response_complete()

    def _is_waiting_for_a_head(self) -> bool:
        return self.conn.their_state is h11.IDLE
