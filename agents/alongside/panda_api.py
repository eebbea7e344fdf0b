"""Asking PanDA's server to end jobs: one request at a time, no faster than allowed, with the credentials of files.

Source: PanDA server 1.0.4, HTTP API: JSON, and a bearer token or a certificate. Beside a token the header ``Origin``
names the VO and the role that is asked for, as ``atlas:production``; without a role the production role is not granted,
unless the server gives it to the VO's members by itself.
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
#: Letters of an error of the server that are shown.
_SHOWN = 200

#: What to look at when jobs are refused.
ROLE_REMEDY = (
    "let origin in the agent's options name the VO and the role, such as atlas:production, and the token be of an "
    "account that has it; see also the server's log"
)


class PandaRefuses(Refused):
    """PanDA's server did not do what it was asked for, or could not be asked."""


@dataclass(frozen=True)
class PandaServer:
    """Where PanDA is asked, and how.

    Attributes:
        address: of the API, up to what ``/v1`` follows.
        terms: time limit, largest answer, credentials and trust; a request is never tried twice.
        origin: VO and role of the token, for the header ``Origin``; None for none.
        requests_per_s: at most so many.
    """

    address: str
    terms: FetchTerms
    origin: str | None = None
    requests_per_s: float = 1.0


class PandaApi:
    """PanDA's API, with a pause between requests.

    Args:
        server: where and how.
        surroundings: the clock and pauses.
    """

    def __init__(self, server: PandaServer, surroundings: Surroundings) -> None:
        self._server, self._surroundings = server, surroundings
        self._free_at: float | None = None

    def kill(self, request: KillRequest) -> frozenset[int]:
        """Ask for jobs to be ended; those that were, or were told to stop.

        Raises:
            PandaRefuses: nothing is known of what became of them.
            NotFetched: the credentials cannot be used.
        """
        return self._asked("POST", KILL_PATH, request.body, lambda said: accepted(said, request.pandaids))

    def identity(self) -> Identity:
        """Ask whom PanDA takes us for.

        Raises:
            PandaRefuses: it does not say it.
            NotFetched: the credentials cannot be used.
        """
        return self._asked("GET", IDENTITY_PATH, None, identity_of)

    def refuses_all(self, jobs: int, identity: Identity) -> PandaRefuses:
        """The error of a server that ended none of some jobs, by whom it takes us for."""
        where = shown(self._server.address.rstrip("/") + KILL_PATH)
        origin = "no origin" if self._server.origin is None else f"origin {self._server.origin}"
        what = f"PanDA refused all of {jobs} jobs; it takes us for {identity.name} with {identity.role} ({origin})"
        if identity.production:
            return PandaRefuses(what, where, "the jobs may have changed meanwhile; see the server's log")
        return PandaRefuses(what, where, ROLE_REMEDY)

    def _asked(self, method: str, path: str, body: Mapping[str, Any] | None, read: Callable[[object], T]) -> T:
        address = self._server.address.rstrip("/") + path
        self._pause()
        try:
            return read(self._ask(method, address, body))
        except httpx.HTTPError as error:
            said = str(error)[:200] or type(error).__name__
            raise PandaRefuses(
                f"PanDA cannot be asked: {said}", shown(address), "see the server and address"
            ) from error
        except (UnusableAnswerError, ValueError) as error:
            failed = "did not end jobs" if path == KILL_PATH else "does not say whom it takes us for"
            raise PandaRefuses(f"PanDA {failed}: {error}", shown(address), ROLE_REMEDY) from error

    def _ask(self, method: str, address: str, body: Mapping[str, Any] | None) -> object:
        terms = self._server.terms
        headers = {"User-Agent": "gridbroker"}
        if terms.credentials.bearer_token_file is not None:
            headers["Authorization"] = f"Bearer {bearer_token(address, terms)}"
        if self._server.origin is not None:
            headers["Origin"] = self._server.origin
        client = httpx.AsyncClient(verify=trust_of(terms), trust_env=terms.proxies, timeout=terms.time_limit_s)
        request = client.build_request(method, address, json=body, headers=headers)
        found: object = json.loads(hard_end(terms.time_limit_s, partial(_answered, client, request, terms.max_bytes)))
        return found

    def _pause(self) -> None:
        """Wait until the next request is allowed."""
        now = self._surroundings.monotonic()
        if self._free_at is not None and self._free_at > now:
            self._surroundings.pause(self._free_at - now)
        self._free_at = max(now, self._free_at or now) + 1.0 / self._server.requests_per_s


async def _answered(client: httpx.AsyncClient, request: httpx.Request, max_bytes: int, extensions: Extensions) -> bytes:
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
                said = " ".join(data.decode("utf-8", "replace").split())[:_SHOWN]
                raise UnusableAnswerError(f"status {response.status_code}" + (f": {said}" if said else ""))
            return bytes(data)
        finally:
            await response.aclose()
