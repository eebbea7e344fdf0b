"""Ask PanDA's server to end jobs: one request at a time, rate-limited, with credentials from files.

Source: PanDA server 1.0.4, HTTP API: JSON, and a bearer token or a certificate. With a token, the header ``Origin``
names the VO and the requested role, such as ``atlas:production``. Without a role, the production role is not granted
unless the server grants it to the VO's members by default.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import httpx

from broker.errors import Refused
from broker.fetching.documents import FetchTerms, Surroundings
from broker.fetching.web import Extensions, bearer_token, hard_end, shown, trust_of
from broker.lifecycle.model.panda_requests import (
    IDENTITY_PATH,
    KILL_PATH,
    Identity,
    KillRequest,
    UnusableAnswerError,
    accepted,
    identity_of,
)

T = TypeVar("T")
_OK = 200
#: Characters of a server error that are shown.
_SHOWN = 200

#: What to check when jobs are refused.
ROLE_REMEDY = (
    "let origin in the agent's options name the VO and the role, such as atlas:production, and the token be of an "
    "account that has it; see also the server's log"
)


class PandaRefuses(Refused):
    """PanDA's server did not carry out the request, or could not be reached."""


@dataclass(frozen=True)
class PandaServer:
    """The address of PanDA's server, and the terms of requests to it.

    Attributes:
        address: of the API, without ``/v1``.
        terms: time limit, largest answer, credentials and trust; a request is never retried.
        origin: VO and role of the token, for the header ``Origin``; None for none.
        requests_per_s: the rate limit.
    """

    address: str
    terms: FetchTerms
    origin: str | None = None
    requests_per_s: float = 1.0


class PandaApi:
    """PanDA's API, with a pause between requests.

    Args:
        server: its address and the terms of requests.
        surroundings: the clock and pauses.
    """

    def __init__(self, server: PandaServer, surroundings: Surroundings) -> None:
        self._server, self._surroundings = server, surroundings
        self._free_at: float | None = None

    def kill(self, request: KillRequest) -> frozenset[int]:
        """Ask PanDA to end jobs; return those that ended or were told to stop.

        Raises:
            PandaRefuses: the outcome is unknown.
            NotFetched: the credentials cannot be used.
        """
        return self._request("POST", KILL_PATH, request.body, lambda answer: accepted(answer, request.pandaids))

    def identity(self) -> Identity:
        """Return the identity that PanDA sees for this client.

        Raises:
            PandaRefuses: PanDA does not tell.
            NotFetched: the credentials cannot be used.
        """
        return self._request("GET", IDENTITY_PATH, None, identity_of)

    def refuses_all(self, jobs: int, identity: Identity) -> PandaRefuses:
        """Build the error for a server that ended none of the jobs, by the identity that it sees."""
        where = shown(self._server.address.rstrip("/") + KILL_PATH)
        origin = "no origin" if self._server.origin is None else f"origin {self._server.origin}"
        what = f"PanDA refused all of {jobs} jobs; it takes us for {identity.name} with {identity.role} ({origin})"
        if identity.production:
            return PandaRefuses(what, where, "the jobs may have changed meanwhile; see the server's log")
        return PandaRefuses(what, where, ROLE_REMEDY)

    def _request(self, method: str, path: str, body: Mapping[str, Any] | None, read: Callable[[object], T]) -> T:
        address = self._server.address.rstrip("/") + path
        self._pause()
        try:
            return read(self._send(method, address, body))
        except httpx.HTTPError as error:
            reason = str(error)[:200] or type(error).__name__
            raise PandaRefuses(
                f"PanDA cannot be asked: {reason}", shown(address), "see the server and address"
            ) from error
        except (UnusableAnswerError, ValueError) as error:
            failure = "did not end jobs" if path == KILL_PATH else "does not say whom it takes us for"
            raise PandaRefuses(f"PanDA {failure}: {error}", shown(address), ROLE_REMEDY) from error

    def _send(self, method: str, address: str, body: Mapping[str, Any] | None) -> object:
        terms = self._server.terms
        headers = {"User-Agent": "gridbroker"}
        if terms.credentials.bearer_token_file is not None:
            headers["Authorization"] = f"Bearer {bearer_token(address, terms)}"
        if self._server.origin is not None:
            headers["Origin"] = self._server.origin
        client = httpx.AsyncClient(verify=trust_of(terms), trust_env=terms.proxies, timeout=terms.time_limit_s)
        request = client.build_request(method, address, json=body, headers=headers)
        answer: object = json.loads(hard_end(terms.time_limit_s, partial(_read_body, client, request, terms.max_bytes)))
        return answer

    def _pause(self) -> None:
        """Wait until the next request is allowed."""
        now = self._surroundings.monotonic()
        if self._free_at is not None and self._free_at > now:
            self._surroundings.pause(self._free_at - now)
        self._free_at = max(now, self._free_at or now) + 1.0 / self._server.requests_per_s


async def _read_body(
    client: httpx.AsyncClient, request: httpx.Request, max_bytes: int, extensions: Extensions
) -> bytes:
    """The body of the answer.

    Raises:
        UnusableAnswerError: it is an error, or too long.
    """
    request.extensions = {**request.extensions, **extensions}
    async with client:
        response = await client.send(request, stream=True)
        try:
            data = bytearray()
            async for part in response.aiter_bytes():
                data += part
                if len(data) > max_bytes:
                    raise UnusableAnswerError(f"an answer of more than {max_bytes} bytes")
            if response.status_code != _OK:
                message = " ".join(data.decode("utf-8", "replace").split())[:_SHOWN]
                raise UnusableAnswerError(f"status {response.status_code}" + (f": {message}" if message else ""))
            return bytes(data)
        finally:
            await response.aclose()
