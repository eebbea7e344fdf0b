"""Requests keys from a web server: no proxies, no credentials, no way to another host, bounded in size and time.

The time limit covers the whole exchange, and all keys that are requested together: what a server sends, and how slowly,
does not matter. Source: HSF-TN-2016-02, directories; HTTP semantics, informational answers and redirection.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import queue
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from urllib.parse import urljoin, urlsplit

from broker.formats.model.feature_keys import MAX_FILE_BYTES, TOO_LONG, Content, Unreadable

MAX_REDIRECTS = 3
TIMEOUT_S = 10.0
MAX_HEADER_BYTES = 64 * 1024
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_GONE = frozenset({404, 410})


@dataclass(frozen=True)
class KeyResponse:
    """The outcome of requesting a key.

    Attributes:
        content: the file; ``None`` without one.
        informed: whether the answer is conclusive: a value, a bad value, or that the key is not set. If not, the last
            good value stays.
        detail: why there was no information, for people.
        fresh_s: how long the server allows the answer to be kept; ``None`` if it does not say.
    """

    content: Content | None
    informed: bool
    detail: str = ""
    fresh_s: float | None = None


class _NoAnswerError(Exception):
    """Nothing is known about the key now."""


def fetch_all(
    addresses: Sequence[str],
    monotonic: Callable[[], float],
    timeout_s: float = TIMEOUT_S,
    max_bytes: int = MAX_FILE_BYTES,
) -> dict[str, KeyResponse]:
    """Request several files at once; an address whose answer does not arrive in time has given no information.

    Args:
        addresses: the addresses of the keys (http or https).
        monotonic: the clock for the time limit.
        timeout_s: the limit for all of them together, at most 10.
        max_bytes: a longer file holds no value.
    """
    ends = monotonic() + min(timeout_s, TIMEOUT_S)
    answers: queue.SimpleQueue[tuple[str, KeyResponse]] = queue.SimpleQueue()
    fetched: dict[str, KeyResponse] = {}

    def ask(address: str) -> None:
        answers.put((address, fetch(address, monotonic, ends - monotonic(), max_bytes)))

    for address in addresses:
        # a daemon: a hanging name server cannot be interrupted, and must not keep the process alive
        thread = threading.Thread(target=ask, args=(address,), daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the account has reached its limit of threads
            fetched[address] = KeyResponse(None, informed=False, detail="no thread to ask in")
    while len(fetched) < len(set(addresses)) and (left_s := ends - monotonic()) > 0:
        try:
            address, answer = answers.get(timeout=left_s)
        except queue.Empty:
            break
        fetched[address] = answer
    late = KeyResponse(None, informed=False, detail="time-out")
    return {address: fetched.get(address, late) for address in addresses}


def fetch(
    address: str, monotonic: Callable[[], float], timeout_s: float = TIMEOUT_S, max_bytes: int = MAX_FILE_BYTES
) -> KeyResponse:
    """Request the file at ``address`` (http or https), following redirects within its host and scheme.

    Args:
        address: the address of the key.
        monotonic: the clock for the time limit.
        timeout_s: the limit for the whole exchange, at most 10.
        max_bytes: a longer file holds no value.
    """
    limits = _Limits(monotonic() + min(timeout_s, TIMEOUT_S), monotonic, max_bytes)
    origin = _origin(address)
    try:
        for _ in range(MAX_REDIRECTS + 1):
            answer = _ask(address, limits)
            if isinstance(answer, KeyResponse):
                return answer
            address = urljoin(address, answer)
            if _origin(address) != origin:
                raise _NoAnswerError("redirect to another host or scheme refused")
    except (_NoAnswerError, http.client.HTTPException, OSError, ValueError) as error:
        return KeyResponse(None, informed=False, detail=str(error) or type(error).__name__)
    return KeyResponse(None, informed=False, detail=f"more than {MAX_REDIRECTS} redirects")


def _origin(address: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(address)
    return parts.scheme, parts.hostname, parts.port


@dataclass(frozen=True)
class _Limits:
    """Until when an exchange may last, by which clock, and how long a file may be."""

    ends: float
    monotonic: Callable[[], float]
    max_bytes: int

    def left_s(self) -> float:
        """The remaining seconds, above 0.

        Raises:
            _NoAnswerError: none remain.
        """
        left_s = self.ends - self.monotonic()
        if left_s <= 0:
            raise _NoAnswerError("time-out")
        return left_s


class _BoundedStream(io.RawIOBase):
    """What a server sends, until the time is over: each wait may last as long as the time that is left.

    Before the body at most :data:`MAX_HEADER_BYTES` are read, however many answers come before the last.
    """

    def __init__(self, sock: socket.socket, limits: _Limits) -> None:
        super().__init__()
        self._sock = sock
        self._limits = limits
        self._left_bytes = MAX_HEADER_BYTES + limits.max_bytes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        self._sock.settimeout(self._limits.left_s())
        if self._left_bytes <= 0:
            raise _NoAnswerError("more headers than any answer needs")
        count = self._sock.recv_into(buffer, min(len(buffer), self._left_bytes))
        self._left_bytes -= count
        return count


@dataclass
class _BoundedSocket:
    """The side of a socket that an HTTP answer is read from."""

    sock: socket.socket
    limits: _Limits

    def makefile(self, mode: str) -> io.BufferedReader:
        """The stream of the answer; ``mode`` is that for reading bytes."""
        return io.BufferedReader(_BoundedStream(self.sock, self.limits))


def _ask(address: str, limits: _Limits) -> KeyResponse | str:
    """Make one request; returns its outcome, or the address to request instead."""
    parts = urlsplit(address)
    with contextlib.closing(_connection(parts.scheme, parts.hostname or "", parts.port, limits.left_s())) as connection:
        connection.connect()
        connection.sock.settimeout(limits.left_s())
        connection.request("GET", parts.path or "/", headers={"Accept": "text/plain, */*;q=0.1"})
        with contextlib.closing(
            http.client.HTTPResponse(_BoundedSocket(connection.sock, limits), method="GET")  # type: ignore[arg-type]
        ) as response:
            response.begin()
            return _answer(response, limits)


def _answer(response: http.client.HTTPResponse, limits: _Limits) -> KeyResponse | str:
    if response.status in _REDIRECTS:
        where = response.getheader("Location")
        if not where:
            raise _NoAnswerError(f"status {response.status} without a place")
        return where
    fresh_s = freshness_s(
        response.getheader("Cache-Control"), response.getheader("Expires"), response.getheader("Date")
    )
    if response.status in _GONE:
        return KeyResponse(None, informed=True, fresh_s=fresh_s)
    if response.status != http.client.OK:
        raise _NoAnswerError(f"status {response.status}")
    return KeyResponse(_body(response, limits), informed=True, fresh_s=fresh_s)


def _connection(scheme: str, host: str, port: int | None, timeout_s: float) -> http.client.HTTPConnection:
    if scheme == "https":
        return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=ssl.create_default_context())
    return http.client.HTTPConnection(host, port, timeout=timeout_s)


def _body(response: http.client.HTTPResponse, limits: _Limits) -> Content:
    data = b""
    while len(data) <= limits.max_bytes:
        more = response.read1(limits.max_bytes + 1 - len(data))
        if not more:
            if response.length:
                raise _NoAnswerError("the answer was cut off")
            return data
        data += more
    return Unreadable(TOO_LONG)


def freshness_s(cache_control: str | None, expires: str | None, date: str | None) -> float | None:
    """How many seconds an answer may be kept, by its headers; ``None`` if they do not say."""
    for directive in (cache_control or "").lower().split(","):
        name, _, value = directive.strip().partition("=")
        if name in ("no-cache", "no-store"):
            return 0.0
        if name == "max-age" and value.strip('"').isdigit():
            return float(value.strip('"')[:9])
    if expires is None or date is None:
        return None
    try:
        return max(0.0, (parsedate_to_datetime(expires) - parsedate_to_datetime(date)).total_seconds())
    except (ValueError, TypeError):
        return 0.0  # an invalid date counts as passed
