"""Fetching documents from web servers and local files, bounded in time and size, and only when they have changed.

Failed requests are repeated. Certificates are checked. Redirects are followed only within the requested scheme, host
and port, so that credentials go nowhere else. A local file is named by a path or a ``file:`` address.

Source: HTTP semantics, conditional requests and redirection.
"""

from __future__ import annotations

import asyncio
import ssl
import stat
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, Protocol, TypeVar
from urllib.parse import unquote, urljoin, urlsplit

import httpx

from broker.fetching.documents import FetchedDocument, FetchTerms, NotFetched, Surroundings, Validators, try_pause_s

A_PATH_OR_WEB = "give a path, or an http or https address"


def path_of(address: str) -> Path | None:
    """The path that an address names; None for the address of a web server.

    Raises:
        NotFetched: the address is of another kind.
    """
    parts = urlsplit(address)
    if parts.scheme in ("http", "https"):
        return None
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost"):
            raise NotFetched("address", "a file of another host", shown(address), A_PATH_OR_WEB)
        return Path(unquote(parts.path))
    if "://" in address:
        raise NotFetched("address", f"{parts.scheme}: is not read", shown(address), A_PATH_OR_WEB)
    return Path(address)


def read_file(path: Path, max_bytes: int) -> FetchedDocument:
    """The content of a regular file of at most ``max_bytes``.

    Raises:
        NotFetched: there is no such file, it cannot be read, or it is larger.
    """
    try:
        with path.open("rb") as stream:
            status = path.stat()
            if not stat.S_ISREG(status.st_mode):
                raise NotFetched("file", "not a regular file", str(path), "name another")
            data = stream.read(max_bytes + 1) if status.st_size <= max_bytes else b""
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise NotFetched(
            "file", f"cannot be read: {reason}", str(path), "correct the path or its permissions"
        ) from error
    if status.st_size > max_bytes or len(data) > max_bytes:
        raise NotFetched("too_large", f"{status.st_size} bytes, more than {max_bytes}", str(path), "see what it holds")
    return FetchedDocument(data)


AnswerT = TypeVar("AnswerT")
Extensions = dict[str, Any]
"""Request extensions of httpx, which a request is sent with in addition to its headers."""

MAX_REDIRECTS = 3
NOTHING_KNOWN = Validators()
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TRY_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_LONGEST_TOKEN = 16_384
_NOT_MODIFIED, _OK = 304, 200


class _TryAgainError(Exception):
    """This attempt failed for a reason that may not affect the next one."""

    def __init__(self, code: str, what: str) -> None:
        super().__init__(what)
        self.code = code


class _Stream(Protocol):
    """A connection of the client."""

    async def aclose(self) -> None:
        """Close the connection."""


@dataclass(frozen=True)
class _Redirect:
    address: str


def fetch(
    address: str, terms: FetchTerms, surroundings: Surroundings, known: Validators = NOTHING_KNOWN
) -> FetchedDocument:
    """Fetch the document at ``address``: a path, or a ``file:``, ``http:`` or ``https:`` address.

    Args:
        address: the address of the document.
        terms: limits, credentials, trust.
        surroundings: clock, jitter and pauses.
        known: validators of the stored version; the document is only sent if it has changed since.

    Raises:
        NotFetched: the document could not be fetched.
    """
    path = path_of(address)
    if path is not None:
        return read_file(path, terms.max_bytes)
    for number in range(1, terms.tries + 1):
        limit_s = min(terms.time_limit_s, surroundings.left_s())
        if limit_s <= 0:
            raise NotFetched(
                "time_out", f"no time is left for try {number}", shown(address), "see how long others took"
            )
        try:
            return replace(_try(address, terms, surroundings, known, limit_s), tries=number)
        except _TryAgainError as error:
            if number == terms.tries:
                raise NotFetched(error.code, f"{error} ({number} tries)", shown(address)) from error
            pause_s = try_pause_s(number, terms.pause_s, surroundings.jitter())
            surroundings.pause(max(0.0, min(pause_s, surroundings.left_s())))
    raise NotFetched("unreachable", "no try was allowed", shown(address))


def hard_end(limit_s: float, exchange: Callable[[Extensions], Coroutine[Any, Any, AnswerT]]) -> AnswerT:
    """Run an exchange with a server and return its result; after ``limit_s`` seconds its connections are closed.

    The client's own time limits apply to each read: a server that sends a byte from time to time never exceeds them.
    Must not be called from a running event loop.

    Args:
        limit_s: time limit in seconds.
        exchange: sends its requests with the extensions passed to it.

    Raises:
        httpx.TimeoutException: the exchange did not finish in time.
    """

    async def ended() -> AnswerT:
        streams: list[_Stream] = []

        async def note(event: str, details: Mapping[str, Any]) -> None:
            if event == "connection.connect_tcp.complete":
                streams.append(details["return_value"])

        try:
            async with asyncio.timeout(limit_s):
                return await exchange({"trace": note})
        except TimeoutError as error:
            raise httpx.ReadTimeout(f"not over within {limit_s:g} s") from error
        finally:
            # The client closes its connections itself, but not one whose TLS handshake is unfinished.
            for stream in streams:
                await stream.aclose()

    return asyncio.run(ended())


def shown(address: str) -> str:
    """The address without user name, password, query and fragment, which may hold secrets; a path as it is."""
    if "://" not in address:
        return address
    parts = urlsplit(address)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def _try(
    address: str, terms: FetchTerms, surroundings: Surroundings, known: Validators, limit_s: float
) -> FetchedDocument:
    """Make one attempt, including redirects, within its time limit."""
    try:
        trust = trust_of(terms)
        attempt = _Attempt(address, terms, surroundings, known, trust, limit_s, surroundings.monotonic() + limit_s)
        return hard_end(limit_s, attempt.exchange)
    except httpx.TimeoutException as error:
        raise _TryAgainError("time_out", f"no whole answer within {limit_s:g} s") from error
    except httpx.TransportError as error:
        _raise_transport(error, address)
    except (httpx.InvalidURL, ValueError) as error:
        raise NotFetched("address", f"no address: {error}", shown(address), "correct it") from error


@dataclass(frozen=True)
class _Attempt:
    """One attempt to fetch the document at ``address``, which ends after ``limit_s`` at an instant of the clock."""

    address: str
    terms: FetchTerms
    surroundings: Surroundings
    known: Validators
    trust: ssl.SSLContext
    limit_s: float
    ends: float

    @property
    def left_s(self) -> float:
        return self.ends - self.surroundings.monotonic()

    async def exchange(self, extensions: Extensions) -> FetchedDocument:
        terms, where = self.terms, self.address
        origin = _origin(where)
        async with httpx.AsyncClient(
            verify=self.trust, trust_env=terms.proxies, follow_redirects=False, timeout=terms.time_limit_s
        ) as client:
            for _ in range(MAX_REDIRECTS + 1):
                answer = await self._request(client, where, extensions)
                if isinstance(answer, FetchedDocument):
                    return answer
                where = urljoin(where, answer.address)
                if _origin(where) != origin:
                    raise self._not_fetched("redirect", f"redirected to {shown(where)[:200]}: refused")
        raise self._not_fetched("redirect", f"more than {MAX_REDIRECTS} redirects")

    async def _request(
        self, client: httpx.AsyncClient, where: str, extensions: Extensions
    ) -> FetchedDocument | _Redirect:
        headers = _headers(where, self.terms, self.known)
        async with client.stream("GET", where, headers=headers, extensions=extensions) as response:
            if response.status_code in _REDIRECTS:
                location = response.headers.get("location")
                if not location:
                    raise self._not_fetched("redirect", f"status {response.status_code} without a place")
                return _Redirect(location)
            validators = Validators(response.headers.get("etag"), response.headers.get("last-modified"))
            if response.status_code == _NOT_MODIFIED and self.known != NOTHING_KNOWN:
                return FetchedDocument(None, self.known)
            if response.status_code in _TRY_AGAIN:
                raise _TryAgainError("status", f"status {response.status_code}")
            if response.status_code != _OK:
                raise self._not_fetched("status", f"status {response.status_code}", "see the address and rights")
            return FetchedDocument(await self._body(response), validators)

    async def _body(self, response: httpx.Response) -> bytes:
        parts: list[bytes] = []
        size = 0
        async for part in response.aiter_bytes():
            size += len(part)
            if size > self.terms.max_bytes:
                raise self._not_fetched("too_large", f"more than {self.terms.max_bytes} bytes", "see what it holds")
            if self.left_s < 0:
                raise _TryAgainError("time_out", f"not whole within {self.limit_s:g} s")
            parts.append(part)
        return b"".join(parts)

    def _not_fetched(self, code: str, what: str, remedy: str = "the last good one stays; see its source") -> NotFetched:
        return NotFetched(code, what, shown(self.address), remedy)


def _raise_transport(error: httpx.TransportError, address: str) -> NoReturn:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            remedy = "see the certificate, or name the authority with SSL_CERT_FILE"
            what = f"the certificate does not fit: {cause.verify_message}"
            raise NotFetched("certificate", what, shown(address), remedy) from error
        cause = cause.__cause__ or cause.__context__
    code = "cut_off" if isinstance(error, httpx.RemoteProtocolError) else "unreachable"
    raise _TryAgainError(code, str(error)[:200] or type(error).__name__) from error


def _headers(address: str, terms: FetchTerms, known: Validators) -> Mapping[str, str]:
    headers = {"Accept": "application/json", "User-Agent": "gridbroker"}
    if known.etag:
        headers["If-None-Match"] = known.etag
    if known.last_modified:
        headers["If-Modified-Since"] = known.last_modified
    if terms.credentials.bearer_token_file is not None:
        headers["Authorization"] = f"Bearer {bearer_token(address, terms)}"
    return headers


def bearer_token(address: str, terms: FetchTerms) -> str:
    """Read the token for a server from its file.

    Raises:
        NotFetched: the token cannot be read, or would be sent without encryption.
    """
    parts = urlsplit(address)
    file = terms.credentials.bearer_token_file
    if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
        raise NotFetched("credentials", "a token is not sent without encryption", shown(address), "ask by https")
    try:
        lines = (file.read_text(encoding="ascii")[:_LONGEST_TOKEN] if file is not None else "").split()
    except (OSError, UnicodeDecodeError) as error:
        raise NotFetched("credentials", "the token cannot be read", str(file), "correct the file") from error
    if len(lines) != 1:
        raise NotFetched("credentials", "the file does not hold one token", str(file), "correct the file")
    return lines[0]


def trust_of(terms: FetchTerms) -> ssl.SSLContext:
    """Create the TLS context with the trusted and client certificates, reading their files now.

    Raises:
        NotFetched: a file cannot be read.
    """
    credentials = terms.credentials
    try:
        context = ssl.create_default_context(
            cafile=None if terms.ca_file is None else str(terms.ca_file),
            capath=None if terms.ca_folder is None else str(terms.ca_folder),
        )
        if credentials.client_certificate is not None:
            context.load_cert_chain(credentials.client_certificate, credentials.client_key)
    except (OSError, ssl.SSLError) as error:
        where = credentials.client_certificate or terms.ca_file or terms.ca_folder
        raise NotFetched("credentials", f"certificates cannot be read: {error}", str(where), "correct them") from error
    return context


def _origin(address: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(address)
    return parts.scheme, parts.hostname, parts.port
