"""What surrounds every request: its identifier, checks of host and path, answer headers, the log, the last resort.

Requests are answered only under the allowed host names. Once the owner of ``evil.example`` points that name at
127.0.0.1, a browser takes it for one site with what answers there (DNS rebinding); only the ``Host`` header differs.
"""

from __future__ import annotations

import itertools
import logging
import re
import secrets
import time
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from broker.api.direct_routes import DirectRoute
from broker.api.problems import Problem, problem_of, response_of

ANY = "*"
MOST_REMEMBERED = 256
#: Probes address a machine by its IP address, and learn nothing that is not public.
_FOR_PROBES = "/health/"


class Hosts:
    """Checks the host names of requests.

    Args:
        allowed: names or addresses without a port; ``*.example.org``: all subdomains; ``*``: any.
    """

    def __init__(self, allowed: Iterable[str]) -> None:
        names = [name.lower().strip("[]") for name in allowed]
        self._any = ANY in names
        self._names = frozenset(names)
        self._below = tuple(name[1:] for name in names if name.startswith("*."))
        self._judged = lru_cache(MOST_REMEMBERED)(self._judge)

    def is_allowed(self, path: str, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Return whether a request with these headers is meant for this service."""
        if self._any or path.startswith(_FOR_PROBES):
            return True
        hosts = [value for name, value in headers if name == b"host"]
        return len(hosts) == 1 and self._judged(hosts[0])

    def _judge(self, host: bytes) -> bool:
        try:
            name = (urlsplit(f"//{host.decode('ascii')}").hostname or "").rstrip(".")
        except ValueError:
            return False
        return name in self._names or (bool(self._below) and name.endswith(self._below))


_log = logging.getLogger(__name__)
SLOW_S = 1.0
"""Requests of pilots that take longer are logged, even if they succeed."""
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
#: None of our routes has these in its path, raw or escaped: "..", empty components, backslashes, control characters.
_ODD = re.compile(rb"%2f|%5c|%00|%0[0-9a-f]|%1[0-9a-f]|%7f|\\|//|[\x00-\x20\x7f-\xff]", re.IGNORECASE)
_DOTS = re.compile(rb"(?:^|/)(?:\.|%2e){1,2}(?:/|$)", re.IGNORECASE)
# Distinguishes this process from others. A random number from the system for each request would take longer than
# everything else here.
_PROCESS, _numbers = secrets.token_hex(6), itertools.count()
MOST_HEADERS = 100
LONGEST_HEADERS_BYTES = 32 << 10

Observe = Callable[[str, str, int, float], None]
"""Called with method, route, status and seconds of each request."""


def is_odd(raw_path: bytes, most_bytes: int) -> bool:
    """Return whether none of our routes can have such a path."""
    return len(raw_path) > most_bytes or _ODD.search(raw_path) is not None or _DOTS.search(raw_path) is not None


class Envelope:
    """ASGI middleware around the whole application.

    Args:
        app: the application inside.
        path_bytes: maximum length of a path.
        hosts: names under which the service may be addressed.
        observe: called with each request and its duration.
    """

    def __init__(self, app: ASGIApp, *, path_bytes: int, hosts: Hosts, observe: Observe) -> None:
        self._app, self._path_bytes, self._hosts, self._observe = app, path_bytes, hosts, observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, add its headers, and log its duration."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answering = _Answering(send, _request_id(scope))
        scope.setdefault("state", {})["request_id"] = answering.request_id
        started_s = time.perf_counter()
        try:
            problem = self._problem_with(scope)
            if problem is not None:
                await response_of(problem, answering.request_id)(scope, receive, answering.send)
            else:
                await self._app(scope, receive, answering.send)
        except Exception as error:
            _log.error("request failed", exc_info=error, extra={"fields": {"request_id": answering.request_id}})
            if answering.status == 0:
                await response_of(problem_of(error), answering.request_id)(scope, receive, answering.send)
        finally:
            self._note(scope, answering, time.perf_counter() - started_s)

    def _problem_with(self, scope: Scope) -> Problem | None:
        headers = scope["headers"]
        if (
            len(headers) > MOST_HEADERS
            or sum(len(name) + len(value) for name, value in headers) > LONGEST_HEADERS_BYTES
        ):
            return Problem(431, "headers_too_large", "too many headers, or too long ones")
        if not self._hosts.is_allowed(scope["path"], headers):
            remedy = "ask by a name that `hosts` in config/api.yaml lists, or list this one there"
            return Problem(421, "unknown_host", "the service is not known by the name in the header Host", remedy)
        if is_odd(scope.get("raw_path") or scope["path"].encode(), self._path_bytes):
            return Problem(400, "odd_path", "no route has such a path")
        return None

    def _note(self, scope: Scope, answering: _Answering, seconds: float) -> None:
        route = scope.get("route")
        path = str(getattr(route, "path", "")) or "other"
        self._observe(scope["method"] if scope["method"].isalpha() else "OTHER", path, answering.status, seconds)
        # A thousand pilots a second would fill the log with 20 GB a day: the metrics cover what all of them ask.
        usual = isinstance(route, DirectRoute) and answering.status < 400 and seconds < SLOW_S
        level = logging.DEBUG if usual else logging.INFO
        if not _log.isEnabledFor(level):
            return
        fields: dict[str, Any] = {
            "request_id": answering.request_id,
            "method": scope["method"],
            "path": scope["path"],
            "status": answering.status,
            "seconds": round(seconds, 6),
        }
        identity = scope["state"].get("identity")
        if identity is not None:
            fields |= {"subject": identity.subject, "issuer": identity.issuer}
        _log.log(level, "request", extra={"fields": fields})


class _Answering:
    """Sends one answer with the common headers."""

    def __init__(self, send: Send, request_id: str) -> None:
        self._send, self.request_id, self.status = send, request_id, 0

    async def send(self, message: Message) -> None:
        """Forward a message of the answer."""
        if message["type"] == "http.response.start":
            self.status = int(message["status"])
            headers = MutableHeaders(scope=message)
            headers["X-Request-Id"] = self.request_id
            headers["X-Content-Type-Options"] = "nosniff"
            headers.setdefault("Cache-Control", "no-store")
        await self._send(message)


def _request_id(scope: Scope) -> str:
    """Return the client's own request identifier if it is a plain name, else a new one."""
    request_id = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"").decode("latin-1")
    return request_id if _REQUEST_ID.fullmatch(request_id) else f"{_PROCESS}-{next(_numbers):x}"
