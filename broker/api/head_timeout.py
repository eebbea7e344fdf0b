"""Closes connections that send no complete header in time, and sends head and body of an answer in one piece.

HTTP/1.1 in Python alone, with a deadline for the head of each request.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class OneSend:
    """A transport that keeps what is written until the event loop turns, or until it is told to send.

    Args:
        transport: that sends.
        loop: of the transport.
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
        """Send what was written."""
        if self._parts:
            parts, self._parts = self._parts, []
            self._transport.write(parts[0] if len(parts) == 1 else b"".join(parts))

    def close(self) -> None:
        """Send what was written, and close."""
        self.flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


HEAD_BYTES = 64 << 10
"""Of a head that is not whole yet."""


class Patience:
    """The deadline of one connection, for a protocol of asyncio that has the ``loop`` and the ``transport``.

    A connection that sends nothing, or a byte now and then, costs a descriptor for no longer than the deadline.

    Attributes:
        head_within_s: the deadline.
    """

    head_within_s: float = 10.0
    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    _deadline: asyncio.TimerHandle | None = None

    def _send_in_one_piece(self, transport: asyncio.Transport) -> OneSend:
        """What is written goes through this, instead of the transport that writes at once."""
        sending = OneSend(transport, self.loop)
        self.transport = sending  # type: ignore[assignment]
        return sending

    def _expect_head(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(self.head_within_s, self._give_up)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        if self._is_waiting_for_a_head() and not self.transport.is_closing():
            self.transport.close()

    @abstractmethod
    def _is_waiting_for_a_head(self) -> bool:
        """Whether a request has not said all of its head."""


class PatientH11(Patience, H11Protocol):
    """The HTTP/1.1 protocol of one connection, with a time limit on the request head."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has connected, and is to say what it wants."""
        super().connection_made(transport)
        self._sending = self._send_in_one_piece(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        """Some bytes came: once the head of a request is whole, its time limit is off."""
        super().data_received(data)
        if self._is_waiting_for_a_head():
            self._expect_head()
        else:
            self._disarm()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone."""
        self._disarm()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """An answer is whole: it leaves in one piece."""
        self._sending.flush()
        super().on_response_complete()

    def _is_waiting_for_a_head(self) -> bool:
        return self.conn.their_state is h11.IDLE
