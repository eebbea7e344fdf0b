"""Asking PanDA's server to end jobs: one request at a time, no faster than allowed, with the credentials of files.

Source: PanDA server 1.0.4, HTTP API: JSON by POST, a bearer token with the origin that it was issued for, or a
certificate.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import httpx

from broker.errors import Refused
from broker.feeds.fetching.terms import FetchTerms, Surroundings
from broker.feeds.fetching.web import Extensions, bearer_token, hard_end, shown, trust_of
from broker.lifecycle.panda_requests import KILL_PATH, KillRequest, UnusableAnswerError, accepted

_OK = 200


class PandaRefuses(Refused):
    """PanDA's server did not do what it was asked for, or could not be asked."""


@dataclass(frozen=True)
class PandaServer:
    """Where PanDA is asked, and how.

    Attributes:
        address: of the API, up to what ``/v1`` follows.
        terms: time limit, largest answer, credentials and trust; a request is never tried twice.
        origin: what the token was issued for, as PanDA wants it in ``Origin``; None for none.
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
        address = self._server.address.rstrip("/") + KILL_PATH
        self._pause()
        try:
            return accepted(self._ask(address, request), request.pandaids)
        except httpx.HTTPError as error:
            said = str(error)[:200] or type(error).__name__
            raise PandaRefuses(
                f"PanDA cannot be asked: {said}", shown(address), "see the server and address"
            ) from error
        except (UnusableAnswerError, ValueError) as error:
            remedy = "see the rights of the token (production role) and the server's log"
            raise PandaRefuses(f"PanDA did not end jobs: {error}", shown(address), remedy) from error

    def _ask(self, address: str, request: KillRequest) -> object:
        terms = self._server.terms
        headers = {"User-Agent": "gridbroker"}
        if terms.credentials.bearer_token_file is not None:
            headers["Authorization"] = f"Bearer {bearer_token(address, terms)}"
        if self._server.origin is not None:
            headers["Origin"] = self._server.origin
        client = httpx.AsyncClient(verify=trust_of(terms), trust_env=terms.proxies, timeout=terms.time_limit_s)
        answered = partial(_answered, client, address, request, headers, terms.max_bytes)
        found: object = json.loads(hard_end(terms.time_limit_s, answered))
        return found

    def _pause(self) -> None:
        """Wait until the next request is allowed."""
        now = self._surroundings.monotonic()
        if self._free_at is not None and self._free_at > now:
            self._surroundings.pause(self._free_at - now)
        self._free_at = max(now, self._free_at or now) + 1.0 / self._server.requests_per_s


async def _answered(
    client: httpx.AsyncClient,
    address: str,
    request: KillRequest,
    headers: Mapping[str, str],
    max_bytes: int,
    extensions: Extensions,
) -> bytes:
    """The body of the answer.

    Raises:
        UnusableAnswerError: it is an error, or too long.
    """
    async with (
        client,
        client.stream("POST", address, json=request.body, headers=headers, extensions=extensions) as response,
    ):
        if response.status_code != _OK:
            raise UnusableAnswerError(f"status {response.status_code}")
        data = bytearray()
        async for part in response.aiter_bytes():
            data += part
            if len(data) > max_bytes:
                raise UnusableAnswerError(f"an answer of more than {max_bytes} bytes")
    return bytes(data)
