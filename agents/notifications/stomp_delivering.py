"""Delivery to a message broker by STOMP 1.2: a message counts as sent once its requested receipt has arrived.

Source: STOMP protocol specification 1.2, sections on CONNECT, SEND, receipts and heart-beating.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from broker.errors import BrokerError
from broker.notifications.model.channels import StompChannel

try:
    import stomp
    from stomp.exception import NotConnectedException, StompException
except ImportError:  # the extra is not installed
    stomp = None

PERSISTENT, RECEIPT = "persistent", "receipt"
LONGEST_ERROR = 200
GOODBYE_S = 2.0


class StompFailed(BrokerError):
    """A message was not delivered, or no receipt came for it; the text holds no secrets."""


@dataclass(frozen=True)
class Outgoing:
    """A message.

    Attributes:
        number: number of the message, the same at each attempt, and of its receipt.
        headers: headers in addition to those of the protocol.
        body: JSON.
    """

    number: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class PublishResult:
    """Result of publishing: the first ``confirmed`` messages have receipts; ``failure`` is why the others have none."""

    confirmed: int
    failure: BrokerError | None = None


class _FrameListener:
    """What the other side has sent, in order; filled by the thread that reads."""

    def __init__(self) -> None:
        self.events: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()

    def on_connected(self, frame: Any) -> None:
        self.events.put(("connected", ""))

    def on_receipt(self, frame: Any) -> None:
        self.events.put(("receipt", str(frame.headers.get("receipt-id", ""))))

    def on_error(self, frame: Any) -> None:
        words = frame.headers.get("message") or frame.body or "no reason is given"
        text = words.decode("utf-8", "replace") if isinstance(words, bytes) else str(words)
        self.events.put(("error", " ".join(text.split())[:LONGEST_ERROR]))

    def on_disconnected(self) -> None:
        self.events.put(("disconnected", ""))


def publish(
    channel: StompChannel, messages: Sequence[Outgoing], password: str | None, left_s: Callable[[], float]
) -> PublishResult:
    """Send messages over one connection, in order, and wait for the receipt of each.

    Args:
        channel: the channel to publish to.
        messages: the messages to send.
        password: password for the login.
        left_s: returns the seconds left for the whole exchange.

    Returns:
        How many of the first ones have receipts, and why the others have none; a message without one may have arrived.
    """
    if stomp is None:
        return PublishResult(
            0, StompFailed("stomp.py is not installed", channel.where, 'pip install "gridbroker[stomp]"')
        )
    listener, confirmed, with_receipt = _FrameListener(), 0, set[str]()
    with _connection(channel, listener, left_s) as connection:
        try:
            connection.connect(channel.username, password, with_connect_command=True)
            _await(listener, channel, "connected", left_s)
            # if the connection is cut meanwhile, the receipts so far show how much arrived
            with contextlib.suppress(StompException):
                for message in messages:
                    connection.send(
                        channel.destination,
                        message.body,
                        content_type="application/json",
                        headers=_headers(channel, message),
                    )
            while confirmed < len(messages):
                with_receipt.add(_await(listener, channel, "receipt", left_s))
                while confirmed < len(messages) and messages[confirmed].number in with_receipt:
                    confirmed += 1
        except StompFailed as error:
            return PublishResult(confirmed, error)
        except StompException:
            reason = "not reached, not trusted, or the connection was cut"
            return PublishResult(
                confirmed, StompFailed(reason, channel.where, "see whether it runs, and its certificate")
            )
        with contextlib.suppress(StompException, queue.Empty):  # it has the messages: the rest is a courtesy
            connection.disconnect()
            listener.events.get(timeout=GOODBYE_S)
    return PublishResult(confirmed)


def _headers(channel: StompChannel, message: Outgoing) -> dict[str, str]:
    return {**message.headers, RECEIPT: message.number} | ({PERSISTENT: "true"} if channel.persistent else {})


@contextmanager
def _connection(channel: StompChannel, listener: _FrameListener, left_s: Callable[[], float]) -> Iterator[Any]:
    """Open a connection without automatic retries that is cut off in time; its thread has ended when the block has."""
    at, threads = (channel.host, channel.at_port), list[threading.Thread]()
    beat_ms = int(channel.heart_beat_s * 1000)
    connection = stomp.Connection12(
        [at],
        prefer_localhost=False,
        try_loopback_connect=False,
        reconnect_attempts_max=1,
        timeout=channel.time_limit_s,
        heartbeats=(beat_ms, beat_ms),
        vhost=channel.virtual_host,
    )

    def begin(run: Callable[[], None]) -> threading.Thread:
        threads.append(threading.Thread(target=run, name="stomp", daemon=True))
        threads[-1].start()
        return threads[-1]

    connection.transport.override_threading(begin)
    connection.transport.send = _telling_cuts(connection.transport.send)
    connection.set_listener("heard", listener)
    if channel.security == "tls":
        connection.set_ssl([at], ca_certs=None if channel.ca_file is None else str(channel.ca_file))
    # sending takes as long as the other side takes to read
    watchdog = threading.Timer(max(left_s(), 0.001), _cut, (connection,))
    watchdog.daemon = True
    watchdog.start()
    try:
        yield connection
    finally:
        watchdog.cancel()
        connection.transport.running = False
        _cut(connection)
        for thread in threads:
            thread.join(GOODBYE_S)


def _telling_cuts(send: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """Wrap ``send`` to raise the same error for a cut, whether the reading thread has closed or dropped the socket."""

    def sending(frame: bytes) -> None:
        try:
            send(frame)
        except (OSError, AttributeError) as error:
            raise NotConnectedException from error

    return sending


def _cut(connection: Any) -> None:
    open_one = connection.transport.socket
    if open_one is not None:
        with contextlib.suppress(OSError):
            socket.socket.shutdown(open_one, socket.SHUT_RDWR)


def _await(listener: _FrameListener, channel: StompChannel, kind: str, left_s: Callable[[], float]) -> str:
    """Wait for a frame of this kind and return its number.

    Raises:
        StompFailed: an error frame came, the connection was cut, or nothing came in time.
    """
    while True:
        try:
            frame_kind, words = listener.events.get(timeout=max(left_s(), 0.001))
        except queue.Empty:
            reason = f"no {kind} within {channel.time_limit_s:g} s"
            raise StompFailed(reason, channel.where, "see whether it runs") from None
        if frame_kind == "error":
            raise StompFailed(f"answered with an error: {words}", channel.where, "see its log, and the login")
        if frame_kind == "disconnected":
            reason = f"the connection was cut before the {kind}"
            if left_s() <= 0:
                reason = f"no {kind} within {channel.time_limit_s:g} s"
            raise StompFailed(reason, channel.where, "see its log")
        if frame_kind == kind:
            return words
