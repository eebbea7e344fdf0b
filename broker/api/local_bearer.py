"""The header with a bearer token, and the token of this machine. What needs no keys is apart, as it starts sooner."""

from __future__ import annotations

import logging

from starlette.requests import HTTPConnection

from broker.access.roles import Identity
from broker.api.local_token import LocalToken
from broker.api.problems import Problem
from broker.api.token_refusals import unauthenticated

_log = logging.getLogger(__name__)

LONGEST_TOKEN = 16_384
_SCHEME = "bearer "


class BadToken(Exception):
    """Why a token is refused; for the log only, but where its signature is good.

    Attributes:
        told: code, detail and remedy for who sent a token that was signed well; None otherwise.
    """

    def __init__(self, fault: str, told: tuple[str, str, str] | None = None) -> None:
        super().__init__(fault)
        self.told = told


def token_in(connection: HTTPConnection) -> str | None:
    """The bearer token of a request; None without one.

    Raises:
        BadToken: the header is there and holds none, or there are two.
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
    """Finds out who sends a request by the token of this machine."""

    def __init__(self, local: LocalToken) -> None:
        """``local`` knows the token."""
        self._local = local

    async def __call__(self, connection: HTTPConnection) -> Identity | None:
        """Who sends a request; None without a token.

        Raises:
            Problem: the token is another one.
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
    """The answer to a bad token; what is wrong with it goes to the log, and to who got it from a trusted issuer."""
    _log.warning("token refused", extra={"fields": {"fault": str(error)}})
    return unauthenticated(*(error.told or ()))
