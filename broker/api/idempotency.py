"""Writes happen once: requests with an ``Idempotency-Key`` are answered once, and people's tokens count once.

A retry of the same request by the same subject with the same key gets the first answer and does nothing. A key is kept
for 24 h. A refused request changed nothing and releases its key.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from broker.access.policies import Identity, Policy
from broker.api.problems import USED, Problem, unauthenticated
from broker.api.state import identity_of, state_of
from broker.store import http_requests
from broker.store.connection.database import Database
from broker.store.connection.errors import CommitOutcomeUnknown
from broker.store.http_requests import Earlier

HEADER = "Idempotency-Key"
_KEY = re.compile(r"[\x21-\x7e]{1,128}")
_REPLAY_HEADERS = ("content-type", "etag", "location")

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


@dataclass(frozen=True)
class _Keyed:
    """A request with a key, as it is stored."""

    database: Database
    subject: str
    key: str
    digest: str

    def begin(self) -> Earlier | None:
        with self.database.begin() as connection:
            return http_requests.begin(connection, self.subject, self.key, self.digest)

    def find_answer(self) -> Earlier | None:
        with self.database.begin() as connection:
            return http_requests.find_answer(connection, self.subject, self.key, self.digest)

    def release(self) -> None:
        with self.database.begin() as connection:
            http_requests.release(connection, self.subject, self.key)

    def note(self, response: Response) -> None:
        headers = {name: response.headers[name] for name in _REPLAY_HEADERS if name in response.headers}
        with self.database.begin() as connection:
            http_requests.note_answer(
                connection, self.subject, self.key, response.status_code, headers, bytes(response.body)
            )


async def answered_once(request: Request, policy: Policy, handler: Handler) -> Response:
    """Serve a write.

    Raises:
        Problem: the key is malformed, belongs to another request, or to one that is under way.
        Problem: the token has been used before.
    """
    keyed = await _keyed(request)
    identity = identity_of(request)
    if keyed is not None:
        first_answer = await run_in_threadpool(keyed.find_answer)
        if first_answer is not None:
            return _repeat(first_answer)
    if policy.once and identity is not None:
        await run_in_threadpool(_use, state_of(request).database, identity)
    if keyed is None:
        return await handler(request)
    earlier = await run_in_threadpool(keyed.begin)
    if earlier is not None:
        return _repeat(earlier)
    return await _first(request, keyed, handler)


async def _first(request: Request, keyed: _Keyed, handler: Handler) -> Response:
    try:
        response = await handler(request)
    except CommitOutcomeUnknown:
        raise  # it may have changed something: the key stays in use
    except Exception:
        await run_in_threadpool(keyed.release)
        raise
    if response.status_code < 400:
        await run_in_threadpool(keyed.note, response)
    else:
        await run_in_threadpool(keyed.release)
    return response


async def _keyed(request: Request) -> _Keyed | None:
    key = request.headers.get(HEADER)
    if key is None:
        return None
    if not _KEY.fullmatch(key):
        raise Problem(400, "bad_idempotency_key", f"{HEADER} must be 1 to 128 visible characters")
    digest = hashlib.sha256(f"{request.method} {request.url.path}?{request.url.query}\n".encode())
    digest.update(request.headers.get("if-match", "").encode() + b"\n" + await request.body())
    identity = identity_of(request)
    subject = "" if identity is None else f"{identity.issuer} {identity.subject}"
    return _Keyed(state_of(request).database, subject, key, digest.hexdigest())


def _use(database: Database, identity: Identity) -> None:
    """Record that the token is used; tokens without an identifier, and reusable ones, are ignored."""
    if identity.token is None or identity.reusable:
        return
    with database.begin() as connection:
        if not http_requests.use_once(connection, identity.issuer, identity.token, identity.expires_at_s):
            raise unauthenticated(*USED)


def _repeat(earlier: Earlier) -> Response:
    if earlier.state == "answered":
        return Response(earlier.body, earlier.status, {**(earlier.headers or {}), "Idempotent-Replayed": "true"})
    if earlier.state == "different":
        raise Problem(422, "idempotency_key_reused", "another request had this key", "take a new key")
    if earlier.state == "lost":
        raise Problem(409, "outcome_unknown", "the first request was lost", "look what it did before repeating it")
    raise Problem(409, "request_under_way", "the first request is not answered yet", headers={"Retry-After": "1"})
