"""The local token of the API, in a file that only its owner can read, and how a bearer token is read from a request.

The token is created at the first start (as in Jupyter). It is accepted if no issuer is configured, and gives every role
to whoever can read the file. Nothing here needs keys of issuers, so that a process without any starts sooner.
"""

from __future__ import annotations

import getpass
import hmac
import logging
import os
import secrets
import stat
from pathlib import Path

from starlette.requests import HTTPConnection

from broker.access.policies import LOCAL, Grant, Identity, Role
from broker.api.problems import Problem, unauthenticated
from broker.errors import Refused

FILE_NAME = "api-token"
_BYTES = 32
_SHORTEST = 20


class TokenFileRefused(Refused):
    """The file can be read by others, or holds no token."""


def token_file(home: Path) -> Path:
    """Return the path of the token file of the broker in ``home``."""
    return home / FILE_NAME


def read_or_make(home: Path) -> str:
    """Return the token in the file, or a new one if there is no file.

    Raises:
        TokenFileRefused: others can read the file, or it holds no token.
    """
    file = token_file(home)
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        return read(home)
    with os.fdopen(handle, "w", encoding="ascii") as opened:
        opened.write(secrets.token_urlsafe(_BYTES) + "\n")
    return read(home)


def read(home: Path) -> str:
    """Return the token in the file of ``home``.

    Raises:
        TokenFileRefused: others can read the file, it is a link, it is missing, or it holds no token.
    """
    file = token_file(home)
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError as error:
        raise TokenFileRefused(f"cannot read it: {error.strerror}", str(file), "see who owns it") from error
    with os.fdopen(handle, encoding="ascii", errors="replace") as opened:
        mode = stat.S_IMODE(os.fstat(opened.fileno()).st_mode)
        if mode & 0o077:
            raise TokenFileRefused(
                f"others can read it (mode {mode:o})", str(file), "remove it, and a new one is made at the next start"
            )
        token = opened.read(1024).strip()
    if len(token) < _SHORTEST or not token.isascii():
        raise TokenFileRefused("it holds no token", str(file), "remove it, and a new one is made at the next start")
    return token


class LocalToken:
    """The token of this machine.

    Attributes:
        identity: the identity of whoever presents it.
    """

    def __init__(self, token: str) -> None:
        """Take the ``token`` that is in the file."""
        self._token = token.encode()
        self.identity = Identity(account(), LOCAL, {role: Grant(role) for role in Role})

    def identify(self, token: str) -> Identity | None:
        """Return the identity behind ``token``, or None if it is wrong, comparing in constant time."""
        return self.identity if hmac.compare_digest(self._token, token.encode("utf-8", "replace")) else None


def account() -> str:
    """Return the name of the account that this process runs as."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return f"uid {os.getuid()}"


_log = logging.getLogger(__name__)

LONGEST_TOKEN = 16_384
_SCHEME = "bearer "


class BadToken(Exception):
    """The reason why a token is refused; only for the log, unless its signature is good.

    Attributes:
        details: code, detail and remedy for the sender of a well-signed token; None otherwise.
    """

    def __init__(self, fault: str, details: tuple[str, str, str] | None = None) -> None:
        super().__init__(fault)
        self.details = details


def token_in(connection: HTTPConnection) -> str | None:
    """Return the bearer token of a request; None without one.

    Raises:
        BadToken: the header holds no token, or there are two headers.
    """
    headers = connection.headers.getlist("authorization")
    if not headers:
        return None
    if len(headers) > 1 or headers[0][: len(_SCHEME)].lower() != _SCHEME:
        raise BadToken("no single bearer token")
    token = headers[0][len(_SCHEME) :].strip()
    if not token or len(token) > LONGEST_TOKEN:
        raise BadToken("empty or oversized")
    return token


class LocalBearer:
    """Identifies the sender of a request by the token of this machine."""

    def __init__(self, local: LocalToken) -> None:
        """Take the token of this machine as ``local``."""
        self._local = local

    async def __call__(self, connection: HTTPConnection) -> Identity | None:
        """Return the sender of a request; None without a token.

        Raises:
            Problem: the token is wrong.
        """
        try:
            token = token_in(connection)
            identity = None if token is None else self._local.identify(token)
            if token is not None and identity is None:
                raise BadToken("not the token of this machine")
        except BadToken as error:
            raise refused(error) from None
        return identity


def refused(error: BadToken) -> Problem:
    """Return the answer to a bad token; the fault goes to the log, and to senders of tokens from a trusted issuer."""
    _log.warning("token refused", extra={"fields": {"fault": str(error)}})
    return unauthenticated(*(error.details or ()))
