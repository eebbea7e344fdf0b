"""A message to a message broker by STOMP 1.2: it counts as sent when the receipt that was asked for has come.

Source: STOMP protocol specification 1.2, sections on CONNECT, SEND, receipts and heart-beating.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from broker.errors import BrokerError
from broker.notifications.model.channels import StompChannel

try:
    import stomp
    from stomp.exception import StompException
except ImportError:  # the extra is not installed
    stomp = None

PERSISTENT, RECEIPT = "persistent", "receipt"
LONGEST_SAID = 200
GOODBYE_S = 2.0


class StompFailed(BrokerError):
    """A message did not get through, or no receipt came for it; nothing secret is in its words."""


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
    channel: StompChannel,
    headers: Mapping[str, str],
    body: bytes,
    number: str,
    password: str | None,
    left_s: Callable[[], float],
) -> str:
    """Send one message, and wait for its receipt.

    Args:
        channel: where to.
        headers: of the message.
        body: of the message.
        number: of the message: the same at each try, and that of its receipt.
        password: with which it logs in.
        left_s: seconds that are left for all of it.

    Raises:
        StompFailed: it was refused, or no receipt came in time; without a receipt it may have got through.
    """
    if stomp is None:
        raise StompFailed("stomp.py is not installed", channel.where, 'pip install "gridbroker[stomp]"')
    heard = _Heard()
    given = {**headers, RECEIPT: number} | ({PERSISTENT: "true"} if channel.persistent else {})
    with _connection(channel, heard) as connection:
        try:
            connection.connect(channel.username, password, with_connect_command=True)
            _await(heard, channel, "connected", "", left_s)
            connection.send(channel.destination, body, content_type="application/json", headers=given)
            _await(heard, channel, "receipt", number, left_s)
        except StompException as error:
            what = "not reached, not trusted, or the connection was cut"
            raise StompFailed(what, channel.where, "see whether it runs, and its certificate") from error
        with contextlib.suppress(StompException, OSError):  # it has the message: the rest is politeness
            connection.disconnect()
            heard.said.get(timeout=GOODBYE_S)
    return "receipt"


@contextmanager
def _connection(channel: StompChannel, heard: _Heard) -> Iterator[Any]:
    """A connection that is not tried again by itself; its thread has ended when the block has."""
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
    made.set_listener("heard", heard)
    if channel.security == "tls":
        made.set_ssl([at], ca_certs=None if channel.ca_file is None else str(channel.ca_file))
    try:
        yield made
    finally:
        made.transport.running = False
        open_one = made.transport.socket
        if open_one is not None:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(open_one, socket.SHUT_RDWR)
        for thread in threads:
            thread.join(GOODBYE_S)


def _await(heard: _Heard, channel: StompChannel, kind: str, number: str, left_s: Callable[[], float]) -> None:
    """Wait until something is said.

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
            raise StompFailed(f"the connection was cut before the {kind}", channel.where, "see its log")
        if (said, words) == (kind, number):
            return
