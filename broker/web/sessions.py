"""People's sessions at the page: kept on the server, found by a cookie that no script can read.

On the page's addresses a cookie identifies its owner for reads alone, and for writes together with the form's own
token. The API accepts cookies for reading alone, so that no page from elsewhere can write in somebody's name.

One-time login codes, valid for a minute, are used in links that a terminal or a log shows: the token itself would stay
valid in whatever keeps the log.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection
from starlette.responses import Response

from broker.access.policies import Identity

COOKIE = "broker_session"
MOST_SESSIONS = 10_000
SAFE = ("GET", "HEAD")
_BYTES = 32


@dataclass(frozen=True)
class Session:
    """A login that has not ended.

    Attributes:
        identity: who is logged in.
        csrf: token of forms.
        ends_at_s: end on the steady clock.
    """

    identity: Identity
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(_BYTES))
    ends_at_s: float = float("inf")


class Sessions:
    """The sessions of one process.

    Args:
        steady_s: a clock that never goes back.
        lasts_s: duration of a session, in seconds.
    """

    def __init__(self, steady_s: Callable[[], float], lasts_s: float) -> None:
        self._steady_s, self._lasts_s = steady_s, lasts_s
        self._sessions: OrderedDict[bytes, Session] = OrderedDict()
        self._lock = threading.Lock()

    def begin(self, identity: Identity) -> str:
        """Begin a session and return the value of its cookie."""
        key = secrets.token_urlsafe(_BYTES)
        with self._lock:
            self._sessions[_name(key)] = Session(identity, ends_at_s=self._steady_s() + self._lasts_s)
            while len(self._sessions) > MOST_SESSIONS:
                self._sessions.popitem(last=False)
        return key

    def find(self, key: str | None) -> Session | None:
        """Return the session of a cookie; None if there is none or it has ended."""
        if not key:
            return None
        with self._lock:
            session = self._sessions.get(_name(key))
            if session is not None and self._steady_s() >= session.ends_at_s:
                del self._sessions[_name(key)]
                session = None
        return session

    def end(self, key: str | None) -> None:
        """End a session; its cookie is no longer accepted."""
        with self._lock:
            self._sessions.pop(_name(key or ""), None)


def _name(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()


class SessionCookie:
    """Identifies the sender of a request by its session cookie."""

    def __init__(self, sessions: Sessions) -> None:
        """Take the ``sessions`` of this process."""
        self._sessions = sessions

    async def __call__(self, connection: HTTPConnection) -> Identity | None:
        """Return the sender of a request; None without a session, or if a page of another origin may have sent it."""
        session = self._sessions.find(connection.cookies.get(COOKIE))
        if session is None:
            return None
        writes = connection.scope["method"] not in SAFE
        if writes and (connection.url.path.startswith("/api/") or not is_from_here(connection)):
            return None
        connection.state.session = session
        return session.identity


def is_from_here(connection: HTTPConnection) -> bool:
    """Return whether the browser declares the request to come from one of our own pages."""
    site = connection.headers.get("sec-fetch-site")
    if site is not None and site not in ("same-origin", "none"):
        return False
    origin = connection.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == connection.headers.get("host")


def is_token_of(session: Session, given: str) -> bool:
    """Return whether a form holds the token of a session, compared in constant time."""
    return hmac.compare_digest(session.csrf.encode(), given.encode("utf-8", "replace"))


def set_cookie(response: Response, key: str, lasts_s: float, *, secure: bool) -> None:
    """Set the session cookie: unreadable to scripts, and not sent with forms of other sites."""
    response.set_cookie(COOKIE, key, max_age=int(lasts_s), httponly=True, samesite="lax", secure=secure, path="/")


GOOD_FOR_S = 60.0
_CODE_BYTES = 32


class LoginCodes:
    """The login codes of one process.

    Args:
        steady_s: a clock that never goes back.
    """

    def __init__(self, steady_s: Callable[[], float]) -> None:
        self._steady_s, self._lock = steady_s, threading.Lock()
        self._ends_at_s: dict[bytes, float] = {}

    def make(self) -> str:
        """Make a new login code and remember it."""
        code, now_s = secrets.token_urlsafe(_CODE_BYTES), self._steady_s()
        with self._lock:
            self._ends_at_s = {name: end_s for name, end_s in self._ends_at_s.items() if end_s > now_s}
            self._ends_at_s[_code_name(code)] = now_s + GOOD_FOR_S
        return code

    def take(self, code: str) -> bool:
        """Use up a code; return whether it was valid."""
        with self._lock:
            end_s = self._ends_at_s.pop(_code_name(code), None)
        return end_s is not None and self._steady_s() < end_s


def _code_name(code: str) -> bytes:
    return hashlib.sha256(code.encode("utf-8", "replace")).digest()
