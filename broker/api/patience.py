"""HTTP connections that are closed when the head of a request does not come, or comes too slowly."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from broker.api.one_send import OneSend


class PatientProtocol(H11Protocol):
    """HTTP/1.1 with a deadline for the head of each request; make a subclass with :func:`patient`.

    A connection that sends nothing, or a byte now and then, costs a descriptor for no longer than the deadline.
    """

    head_within_s: ClassVar[float] = 10.0

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has connected, and is to say what it wants."""
        super().connection_made(transport)
        self._sending = OneSend(transport, self.loop)
        self.transport = self._sending  # type: ignore[assignment]
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        """Some bytes came: once the head of a request is whole, its time limit is off."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
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

    def _expect_head(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(self.head_within_s, self._give_up)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.close()


def patient(head_within_s: float) -> type[PatientProtocol]:
    """The protocol with a deadline of ``head_within_s`` seconds."""
    return type("PatientProtocol", (PatientProtocol,), {"head_within_s": head_within_s})
