"""Asking a web server for one key: no proxies, no credentials, no way to another host, bounded in size and time.

Source: HSF-TN-2016-02, directories; HTTP semantics, redirection and caching.
"""

from __future__ import annotations

import contextlib
import http.client
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from urllib.parse import urljoin, urlsplit

from broker.formats.feature_keys import MAX_FILE_BYTES
from broker.formats.plain_values import TOO_LONG, Content, Unreadable

MAX_REDIRECTS = 3
TIMEOUT_S = 10.0
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_GONE = frozenset({404, 410})


@dataclass(frozen=True)
class Fetched:
    """What asking for a key gave.

    Attributes:
        content: the file; ``None`` without one.
        informed: whether the answer says anything: a value, a bad value, or that the key is not set. If not, the last
            good value stays.
        detail: why there was no information, for people.
        fresh_s: for how long the server allows to keep the answer; ``None`` when it does not say.
    """

    content: Content | None
    informed: bool
    detail: str = ""
    fresh_s: float | None = None


class _NoAnswerError(Exception):
    """Nothing is known about the key now."""


def fetch(address: str, monotonic: Callable[[], float], timeout_s: float = TIMEOUT_S) -> Fetched:
    """Ask for the file at ``address`` (http or https), following redirects within its host and scheme.

    Args:
        address: of the key.
        monotonic: the clock for the time limit.
        timeout_s: of the whole exchange, at most 10.
    """
    ends = monotonic() + min(timeout_s, TIMEOUT_S)
    origin = _origin(address)
    try:
        for _ in range(MAX_REDIRECTS + 1):
            answer = _ask(address, ends, monotonic)
            if isinstance(answer, Fetched):
                return answer
            address = urljoin(address, answer)
            if _origin(address) != origin:
                raise _NoAnswerError("redirect to another host or scheme refused")
    except (_NoAnswerError, http.client.HTTPException, OSError, ValueError) as error:
        return Fetched(None, informed=False, detail=str(error) or type(error).__name__)
    return Fetched(None, informed=False, detail=f"more than {MAX_REDIRECTS} redirects")


def _origin(address: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(address)
    return parts.scheme, parts.hostname, parts.port


def _ask(address: str, ends: float, monotonic: Callable[[], float]) -> Fetched | str:
    """One request: what it gave, or where to ask instead."""
    parts = urlsplit(address)
    left_s = ends - monotonic()
    if left_s <= 0:
        raise _NoAnswerError("time-out")
    with contextlib.closing(_connection(parts.scheme, parts.hostname or "", parts.port, left_s)) as connection:
        connection.request("GET", parts.path or "/", headers={"Accept": "text/plain, */*;q=0.1"})
        response = connection.getresponse()
        if response.status in _REDIRECTS:
            where = response.getheader("Location")
            if not where:
                raise _NoAnswerError(f"status {response.status} without a place")
            return where
        fresh_s = freshness_s(
            response.getheader("Cache-Control"), response.getheader("Expires"), response.getheader("Date")
        )
        if response.status in _GONE:
            return Fetched(None, informed=True, fresh_s=fresh_s)
        if response.status != http.client.OK:
            raise _NoAnswerError(f"status {response.status}")
        return Fetched(_body(connection, response, ends, monotonic), informed=True, fresh_s=fresh_s)


def _connection(scheme: str, host: str, port: int | None, timeout_s: float) -> http.client.HTTPConnection:
    if scheme == "https":
        return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=ssl.create_default_context())
    return http.client.HTTPConnection(host, port, timeout=timeout_s)


def _body(
    connection: http.client.HTTPConnection,
    response: http.client.HTTPResponse,
    ends: float,
    monotonic: Callable[[], float],
) -> Content:
    data = b""
    while len(data) <= MAX_FILE_BYTES:
        left_s = ends - monotonic()
        if left_s <= 0:
            raise _NoAnswerError("time-out")
        if connection.sock is not None:  # closed by the server: what is left is in the buffer
            connection.sock.settimeout(left_s)
        more = response.read1(MAX_FILE_BYTES + 1 - len(data))
        if not more:
            if response.length:
                raise _NoAnswerError("the answer was cut off")
            return data
        data += more
    return Unreadable(TOO_LONG)


def freshness_s(cache_control: str | None, expires: str | None, date: str | None) -> float | None:
    """For how many seconds an answer may be kept, by its headers; ``None`` when they do not say."""
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
        return 0.0  # a date that is none has passed
