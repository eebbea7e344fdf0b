"""HTTP/1.1 in Python alone, with a deadline for the head of each request."""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from broker.api.head_timeout import Patience


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
