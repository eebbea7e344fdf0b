"""A message to a message broker by STOMP 1.2: it counts as sent when the receipt that was asked for has come.

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
LONGEST_SAID = 200
GOODBYE_S = 2.0


class StompFailed(BrokerError):
    """A message did not get through, or no receipt came for it; nothing secret is in its words."""


@dataclass(frozen=True)
class Outgoing:
    """A message.

    Attributes:
        number: the same at each try, and that of its receipt.
        headers: beside those of the protocol.
        body: JSON.
    """

    number: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Published:
    """What came of messages: the first ``confirmed`` have receipts; ``failure``: why the others have none."""

    confirmed: int
    failure: BrokerError | None = None


class _Heard:
    """What the other side says, in order; used by the thread that reads."""

    def __init__(self) -> None:
        self.said: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()

    def on_connected(self, frame: Any) -> None:
        self.said.put(("connected", ""))

    def on_receipt(self, frame: Any) -> None:
        self.said.put(("receipt", str(frame.headers.get("receipt-id", ""))))

    def on_error(self, frame: Any) -> None:
        words = frame.headers.get("message") or frame.body or "no reason is given"
        text = words.decode("utf-8", "replace") if isinstance(words, bytes) else str(words)
        self.said.put(("error", " ".join(text.split())[:LONGEST_SAID]))

    def on_disconnected(self) -> None:
        self.said.put(("disconnected", ""))


def publish(
    channel: StompChannel, messages: Sequence[Outgoing], password: str | None, left_s: Callable[[], float]
) -> Published:
    """Send messages over one connection, in order, and wait for the receipt of each.

    Args:
        channel: where to.
        messages: to send.
        password: with which it logs in.
        left_s: seconds that are left for all of it.

    Returns:
        How many of the first ones have receipts, and why the others have none; without one it may have got through.
    """
    if stomp is None:
        return Published(0, StompFailed("stomp.py is not installed", channel.where, 'pip install "gridbroker[stomp]"'))
    heard, confirmed, with_receipt = _Heard(), 0, set[str]()
    with _connection(channel, heard, left_s) as connection:
        try:
            connection.connect(channel.username, password, with_connect_command=True)
            _await(heard, channel, "connected", left_s)
            # where the connection is cut meanwhile, what was heard until then says how far it came
            with contextlib.suppress(StompException):
                for one in messages:
                    connection.send(
                        channel.destination, one.body, content_type="application/json", headers=_headers(channel, one)
                    )
            while confirmed < len(messages):
                with_receipt.add(_await(heard, channel, "receipt", left_s))
                while confirmed < len(messages) and messages[confirmed].number in with_receipt:
                    confirmed += 1
        except StompFailed as error:
            return Published(confirmed, error)
        except StompException:
            what = "not reached, not trusted, or the connection was cut"
            return Published(confirmed, StompFailed(what, channel.where, "see whether it runs, and its certificate"))
        with contextlib.suppress(StompException, queue.Empty):  # it has the messages: the rest is politeness
            connection.disconnect()
            heard.said.get(timeout=GOODBYE_S)
    return Published(confirmed)


def _headers(channel: StompChannel, one: Outgoing) -> dict[str, str]:
    return {**one.headers, RECEIPT: one.number} | ({PERSISTENT: "true"} if channel.persistent else {})


@contextmanager
def _connection(channel: StompChannel, heard: _Heard, left_s: Callable[[], float]) -> Iterator[Any]:
    """A connection that is not tried again by itself, cut off in time; its thread has ended when the block has."""
    at, threads = (channel.host, channel.at_port), list[threading.Thread]()
    beat_ms = int(channel.heart_beat_s * 1000)
    made = stomp.Connection12(
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

    made.transport.override_threading(begin)
    made.transport.send = _telling_cuts(made.transport.send)
    made.set_listener("heard", heard)
    if channel.security == "tls":
        made.set_ssl([at], ca_certs=None if channel.ca_file is None else str(channel.ca_file))
    # to send takes as long as the other side takes to read
    watchdog = threading.Timer(max(left_s(), 0.001), _cut, (made,))
    watchdog.daemon = True
    watchdog.start()
    try:
        yield made
    finally:
        watchdog.cancel()
        made.transport.running = False
        _cut(made)
        for thread in threads:
            thread.join(GOODBYE_S)


def _telling_cuts(send: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """Send a frame; a cut is told in one way, whether the thread that reads has just closed or dropped the socket."""

    def sending(frame: bytes) -> None:
        try:
            send(frame)
        except (OSError, AttributeError) as error:
            raise NotConnectedException from error

    return sending


def _cut(made: Any) -> None:
    open_one = made.transport.socket
    if open_one is not None:
        with contextlib.suppress(OSError):
            socket.socket.shutdown(open_one, socket.SHUT_RDWR)


def _await(heard: _Heard, channel: StompChannel, kind: str, left_s: Callable[[], float]) -> str:
    """Wait until something of this kind is said; returns its number.

    Raises:
        StompFailed: an error was said, the connection was cut, or nothing was said in time.
    """
    while True:
        try:
            said, words = heard.said.get(timeout=max(left_s(), 0.001))
        except queue.Empty:
            what = f"no {kind} within {channel.time_limit_s:g} s"
            raise StompFailed(what, channel.where, "see whether it runs") from None
        if said == "error":
            raise StompFailed(f"answered with an error: {words}", channel.where, "see its log, and the login")
        if said == "disconnected":
            what = f"the connection was cut before the {kind}"
            if left_s() <= 0:
                what = f"no {kind} within {channel.time_limit_s:g} s"
            raise StompFailed(what, channel.where, "see its log")
        if said == kind:
            return words
